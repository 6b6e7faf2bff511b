"""The node's configuration file: one table `[node]`, as strict as the scheduler's own file.

`config.py` cannot be used here, because it stands above the node; the rules are the same: unknown keys are
mistakes, a mistake is one line that names file and key, and a value is never repeated.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable
from lingua_scheduler.node.speech import registry
from lingua_scheduler.node.speech.engine import SERVICES, Service
from lingua_scheduler.node.speech.options import SpeechOptions

_MAX_FILE_BYTES = 1 << 20


def load_speech_options(file: Path | None) -> SpeechOptions:
    """Read the options of a node from the table `[node]` of a TOML file; without a file, the defaults."""
    if file is None:
        return SpeechOptions()
    name = printable(str(file))
    document = _document(file, name)
    unknown = [key for key in document if key != "node"]
    if unknown:
        raise ConfigError(f"{name}: unknown key {printable(unknown[0])}: a node reads the table [node]")
    table = document.get("node", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: node is a table: write [node]")
    try:
        return speech_options(table)
    except ConfigError as error:
        raise ConfigError(f"{name}: {printable(str(error))}") from error


def speech_options(table: dict[str, Any]) -> SpeechOptions:
    """Read the options from a table; every engine's own options are checked too."""
    chosen = {service: _choices(table[service], service) for service in SERVICES if service in table}
    options: SpeechOptions = registry.convert({**table, **chosen}, SpeechOptions, "node")
    for service in SERVICES:
        for choice in getattr(options, service) or ():
            registry.checked_options(choice, service)
    return options


def _choices(given: Any, service: Service) -> list[dict[str, Any]]:
    """Take one table or several; beside `engine`, everything in it belongs to the engine."""
    tables = given if isinstance(given, list) else [given]
    for table in tables:
        if not isinstance(table, dict):
            raise ConfigError(f"node.{service} is a table: write [node.{service}] or [[node.{service}]]")
        if "engine" not in table:
            raise ConfigError(f"node.{service}: the key engine is missing")
    return [
        {"engine": table["engine"], "options": {key: table[key] for key in table if key != "engine"}}
        for table in tables
    ]


def _document(file: Path, name: str) -> dict[str, Any]:
    try:
        with file.open("rb") as source:
            text = source.read(_MAX_FILE_BYTES + 1)
        if len(text) > _MAX_FILE_BYTES:
            raise ConfigError(f"{name}: larger than {_MAX_FILE_BYTES} bytes")
        return tomllib.loads(text.decode())
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not TOML: {printable(str(error))}") from error
