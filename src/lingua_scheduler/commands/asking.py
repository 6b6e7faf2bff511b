"""How commands ask an instance over HTTP: one connection, one token, refusals in one line."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import printable

_ANSWER_S = 10.0
_OK = range(200, 300)


class Refused(LinguaError):
    """The instance does not do it, or cannot be reached."""


class Admin:
    """One connection to an instance: where several share a port, every answer comes from the same one."""

    def __init__(self, url: str, token: str, *, answer_s: float = _ANSWER_S) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = _connection(url, answer_s)

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._connection.close()

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, accept: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """Send one request; give the answer, Refused when it is not a good one, nor of an `accept` status."""
        data = msgspec.json.encode(body) if body is not None else None
        try:
            self._connection.request(method, path, data, self._headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            why = getattr(error, "strerror", None) or type(error).__name__
            raise Refused(f"{self.url} cannot be reached: {why}") from None
        try:
            said = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            said = {}
        if answer.status not in _OK and answer.status not in accept:
            raise Refused(f"{self.url} answers {answer.status}: {said.get('detail', answer.reason)}")
        return said


def token_of(file: Path | None) -> str:
    """Read the admin token from a file; empty without one."""
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--token-file: {printable(str(file))} cannot be read") from None


def _connection(url: str, answer_s: float) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise ConfigError("--url: must look like http://host:port")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=answer_s)
