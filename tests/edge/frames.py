"""WebSocket frames made by hand, also those that no client should make."""

from __future__ import annotations

import json

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_MASK = b"\x37\xfa\x21\x3d"


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    masked: bool = True,
    reserved: int = 0,
    declared: int | None = None,
) -> bytes:
    """Build one frame; `declared` lies about the length."""
    length = len(payload) if declared is None else declared
    head = bytes([(0x80 if fin else 0) | reserved | opcode])
    mask_bit = 0x80 if masked else 0
    if length < 126:
        head += bytes([mask_bit | length])
    elif length < 65536:
        head += bytes([mask_bit | 126]) + length.to_bytes(2, "big")
    else:
        head += bytes([mask_bit | 127]) + length.to_bytes(8, "big")
    if not masked:
        return head + payload
    key = _MASK * (len(payload) // 4 + 1)
    return head + _MASK + bytes(a ^ b for a, b in zip(payload, key, strict=False))


def text(**members: object) -> bytes:
    """Build a text frame that holds one JSON object."""
    return frame(TEXT, json.dumps(members).encode())
