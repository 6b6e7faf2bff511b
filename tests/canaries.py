"""Things that nobody may find in a log, and every form in which they could be hidden there."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

PIECE = 6  # bytes of audio in a row that would give it away


def forms(secret: str) -> set[str]:
    """Give every way in which a text could stand in a line."""
    data = secret.encode()
    found = {secret, secret.lower(), secret.upper(), secret[::-1], data.hex(), data.hex().upper()}
    found |= {quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    found |= {secret.encode("unicode_escape").decode(), repr(data)[2:-1]}
    return found | _base64(data)


def _base64(data: bytes) -> set[str]:
    """Encode it wherever it may begin within three bytes; what depends on its neighbours is left out."""
    found = set()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + data).decode()
        inner = encoded[4 if shift else 0 : -4]
        if len(inner) >= 8:
            found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return found


def audio_forms(audio: bytes) -> set[str]:
    """Give every way in which a piece of audio could stand in a line."""
    found: set[str] = set()
    for start in range(0, len(audio) - PIECE, PIECE):
        piece = audio[start : start + PIECE]
        found |= {piece.hex(), repr(piece)[2:-1], str(list(piece))[1:-1], piece.decode("latin-1")}
    for start in range(0, len(audio) - 24, 24):
        found |= _base64(audio[start : start + 24])
    return found


def leaks(text: str, forbidden: set[str]) -> list[str]:
    """Name what was found, and the line it was found in."""
    return [
        f"{form!r} in: {line[:300]}"
        for line in text.splitlines()
        for form in forbidden
        if form and form in line
    ]
