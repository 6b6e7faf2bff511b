"""Commands as Redis reads them from a socket."""

from __future__ import annotations

from typing import Final

from hiredis import pack_command

Argument = str | bytes | int | float | memoryview
"""What an argument of a command may be; a view is sent as it is, without a copy."""
Wire = tuple[bytes | memoryview, ...]
"""A command as it is sent: one piece, or several around what is not copied."""

_LARGE_BYTES: Final = 32 * 1024


def large(value: bytes) -> bytes | memoryview:
    """Make a long value one that is sent without a copy; a short one is not worth it."""
    return memoryview(value) if len(value) >= _LARGE_BYTES else value


def packed(args: tuple[Argument, ...]) -> Wire:
    """Write a command as Redis reads it; TypeError for a value that is not an Argument."""
    if memoryview in map(type, args):
        return _around_views(args)
    return (pack_command(args),)  # type: ignore[arg-type]  # its stub allows one argument only


def _around_views(args: tuple[Argument, ...]) -> Wire:
    pieces: list[bytes | memoryview] = []
    between = b"*%d\r\n" % len(args)
    for argument in args:
        if isinstance(argument, memoryview):
            pieces += (between + b"$%d\r\n" % argument.nbytes, argument)
            between = b"\r\n"
        else:
            alone: bytes = pack_command((argument,))
            between += alone[alone.index(b"$") :]
    return (*pieces, between)


def command_name(wire: Wire, *, skip: int = 0) -> str:
    """Read the name of a packed command, after so many others of one piece."""
    return bytes(wire[skip]).split(b"\r\n", 3)[2].decode(errors="replace").upper()
