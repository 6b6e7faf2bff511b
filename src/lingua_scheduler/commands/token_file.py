"""The file from which a command reads a key or token, so that neither is seen in a list of processes."""

from __future__ import annotations

from pathlib import Path

from lingua_scheduler.core.keys import well_formed
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable
from lingua_scheduler.secret import Secret


def read_token(file: Path | None) -> Secret:
    """Read it; empty without a file. ConfigError, which does not repeat it, when the file holds none."""
    if file is None:
        return Secret("")
    name = printable(str(file))
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--token-file: {name} cannot be read") from None
    if not well_formed(token):
        raise ConfigError(f"--token-file: {name} holds no key or token")
    return Secret(token)
