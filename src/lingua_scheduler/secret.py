"""Strings that may be used but not shown: the repr of every record that holds one is masked."""

from __future__ import annotations

import re

_URL_PASSWORD = re.compile(r"(://[^/@:\s]*:)(?:(?!,\w+://)\S)*@")
_QUERY_PASSWORD = re.compile(r"([?&]password=)[^&\s]*")


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
    """Hide the password inside a URL, wherever in the text it stands."""
    if "://" not in text:
        return text
    return _QUERY_PASSWORD.sub(r"\1***", _URL_PASSWORD.sub(r"\1***@", text))
