"""Engines by name: entry points of the group `lingua_scheduler.engines`, so that anybody can ship one."""

from __future__ import annotations

import difflib
import importlib
import re
from importlib.metadata import entry_points
from typing import Any

import msgspec

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.node.speech.engine import Service
from lingua_scheduler.node.speech.errors import ModelMissing
from lingua_scheduler.node.speech.options import EngineChoice

GROUP = "lingua_scheduler.engines"

_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def names() -> list[str]:
    """List the engines that are installed."""
    return sorted(entry_points(group=GROUP).names)


def engine_class(name: str, service: Service) -> Any:
    """Find the class of an engine; ConfigError when there is none or when it serves another step."""
    found = _referred(name) if ":" in name else _installed(name)
    if getattr(found, "service", None) != service:
        serves = getattr(found, "service", "no step")
        raise ConfigError(f"node.{service}.engine: {name} is an engine for {serves}, not for {service}")
    return found


def checked_options(choice: EngineChoice, service: Service) -> msgspec.Struct:
    """Read an engine's options into its record; ConfigError names the key that is wrong."""
    record: type[msgspec.Struct] = engine_class(choice.engine, service).Options
    options: msgspec.Struct = convert(choice.options, record, f"node.{service}")
    return options


def made(choice: EngineChoice, service: Service) -> Any:
    """Make an engine, which loads it; ModelMissing when a program or a weight it needs is not there."""
    kind = engine_class(choice.engine, service)
    try:
        return kind(checked_options(choice, service))
    except ImportError as error:
        package = (error.name or "a package").partition(".")[0]
        remedy = f"pip install 'lingua-scheduler[{getattr(kind, 'extra', 'speech')}]'"
        message = f"{service}: the engine {choice.engine} needs {package}, which is not installed: {remedy}"
        raise ModelMissing(service, message) from error


def convert(table: Any, record: Any, at: str) -> Any:
    """Read a table into a record, strictly; ConfigError names the key and never repeats the value."""
    try:
        return msgspec.convert(table, record, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        raise ConfigError(_complaint(str(error), record, at)) from None


def _complaint(complaint: str, record: Any, at: str) -> str:
    place = _PLACE.search(complaint)
    where = f"{at}.{place[1]}" if place and place[1] else at
    complaint = _PLACE.sub("", complaint)
    unknown = _UNKNOWN.search(complaint)
    if unknown:
        known = [field.name for field in msgspec.structs.fields(record)] if where == at else []
        near = difflib.get_close_matches(unknown[1], known, n=1)
        meant = f" (did you mean {where}.{near[0]}?)" if near else ""
        return f"unknown key {where}.{unknown[1]}{meant}"
    return f"{where}: {complaint.replace('`', '').replace('Expected', 'expected')}"


def _decoded(wanted: type, value: Any) -> Any:
    if isinstance(value, str):
        return wanted(value)
    raise msgspec.ValidationError(f"Expected `str`, got `{type(value).__name__}`")


def _installed(name: str) -> Any:
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = names()
        near = difflib.get_close_matches(name, known, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise ConfigError(f"node: no engine is called {name}{meant}; there are {', '.join(known) or 'none'}")
    return next(iter(found)).load()


def _referred(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"node: the engine {name} cannot be imported: {type(error).__name__}") from error
