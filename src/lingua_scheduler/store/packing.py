"""Commands as Redis reads them from a socket."""

from __future__ import annotations

from hiredis import pack_command

Argument = str | bytes | int | float
"""What an argument of a command may be."""


def packed(args: tuple[Argument, ...]) -> bytes:
    """Write a command as Redis reads it; TypeError for a value that is not an Argument."""
    wire: bytes = pack_command(args)  # type: ignore[arg-type]  # its stub allows one argument only
    return wire


def command_name(wire: bytes, *, skip: int = 0) -> str:
    """Read the name of a packed command, after so many others that have a name only."""
    return wire.split(b"\r\n", 3 * skip + 3)[3 * skip + 2].decode(errors="replace").upper()
