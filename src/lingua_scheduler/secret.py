"""Strings that may be used but not shown: the repr of every record that holds one is masked."""

from __future__ import annotations

import re

_URL_PASSWORD = re.compile(r"(://[^/@:\s]*:)(?:(?!,\w+://)\S)*@")
_QUERY_SECRET = re.compile(
    r"([?&][^=&?\s]{0,40}(?:auth|code|key|password|secret|sig|token)[^=&?\s]{0,20}=)[^&\s\"']*", re.IGNORECASE
)


class Secret(str):
    """A password, token or key."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class SecretUrl(Secret):
    """An address that may carry a password; everything else of it may be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(mask_url(str(self)))


def mask_url(text: str) -> str:
    """Hide what is secret in a URL, wherever in the text it stands: its password, and keys in its query."""
    if "://" in text:
        text = _URL_PASSWORD.sub(r"\1***@", text)
    return _QUERY_SECRET.sub(r"\1***", text) if "=" in text else text
