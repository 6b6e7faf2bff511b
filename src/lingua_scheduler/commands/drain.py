"""`lingua drain`: takes an instance or a node out of service over HTTP; the exit code says what happened."""

from __future__ import annotations

import http.client
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import msgspec

from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import printable

DONE, FAILED, CUT_OFF = 0, 1, 3
"""Exit codes: drained (or, without waiting, begun), not reachable or refused, cut off by the deadline."""

_ANSWER_S = 10.0
_LOOK_EVERY_S = 0.2
_OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What to drain, and how."""

    url: str
    node_id: str | None = None
    deadline_s: float | None = None
    cancel: bool = False
    wait: bool = False
    token_file: Path | None = None
    as_json: bool = False


class _Refused(LinguaError):
    """The instance does not do it, or cannot be reached."""


class _Admin:
    """One connection to an instance: where several share a port, every answer comes from the same one."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = _connection(url)

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._connection.close()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request; give the answer, _Refused when it is not a good one."""
        data = msgspec.json.encode(body) if body is not None else None
        try:
            self._connection.request(method, path, data, self._headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise _Refused(f"{self.url} cannot be reached: {why}") from None
        try:
            said = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            said = {}
        if answer.status not in _OK:
            raise _Refused(f"{self.url} answers {answer.status}: {said.get('detail', answer.reason)}")
        return said


def drain(request: DrainRequest) -> int:
    """Give the order, wait if asked to, print how it stands; return the exit code."""
    path = "/api/v1/drain"
    if request.node_id is not None:
        path = f"/api/v1/nodes/{quote(request.node_id, safe='')}/drain"
    try:
        with _Admin(request.url, _token(request.token_file)) as admin:
            said = _ordered(admin, path, request)
            if request.wait and not request.cancel:
                said = (
                    _drained(admin, path, said)
                    if said.get("state")
                    else _followed(admin, path, said, request)
                )
    except _Refused as refusal:
        print(f"lingua: {printable(str(refusal))}", file=sys.stderr)
        return FAILED
    print(msgspec.json.encode(said).decode() if request.as_json else _sentence(said))
    return CUT_OFF if said.get("cut_off") else DONE


def _ordered(admin: _Admin, path: str, request: DrainRequest) -> dict[str, Any]:
    if request.cancel:
        return admin.ask("DELETE", path)
    return admin.ask("POST", path, {} if request.deadline_s is None else {"deadline_s": request.deadline_s})


def _followed(admin: _Admin, path: str, said: dict[str, Any], request: DrainRequest) -> dict[str, Any]:
    """Give the order of a node once more where it is connected, and wait there."""
    url = str(said.get("url", ""))
    if not url or url == admin.url:
        raise _Refused(f"the node is held by instance {said.get('instance_id')}: wait there")
    with _Admin(url, _token(request.token_file)) as holder:
        return _drained(holder, path, _ordered(holder, path, request))


def _drained(admin: _Admin, path: str, said: dict[str, Any]) -> dict[str, Any]:
    """Look until it is drained."""
    while said.get("state") != "drained":
        if said.get("state") != "draining":
            raise _Refused("the drain was taken back, or the node has moved")
        time.sleep(_LOOK_EVERY_S)
        said = admin.ask("GET", path)
    return said


def _sentence(said: dict[str, Any]) -> str:
    what = f"node {said['node_id']}" if "node_id" in said else "instance"
    state = said.get("state") or f"told by instance {said.get('instance_id')}, which holds it"
    left = [f"{said[name]} {name}" for name in ("sessions", "nodes", "jobs") if said.get(name)]
    cut = "; the deadline cut something off" if said.get("cut_off") else ""
    return printable(f"{what}: {state}{', ' if left else ''}{', '.join(left)}{cut}")


def _connection(url: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise ConfigError("--url: must look like http://host:port")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=_ANSWER_S)


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--token-file: {printable(str(file))} cannot be read") from None
