"""Reads what nodes say of themselves as it was kept: any member may be missing or of a wrong type."""

from __future__ import annotations

from typing import Any

Said = dict[str, Any]


def text(said: Said, name: str) -> str:
    """Give a member as text; empty when it is not there."""
    return str(said.get(name) or "")


def number(said: Said, name: str) -> float | None:
    """Give a member that is a number."""
    found = said.get(name)
    return float(found) if isinstance(found, int | float) else None


def table(said: Said, name: str) -> Said:
    """Give a member that is a table; an empty one when it is not there."""
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def rows(said: Said, name: str) -> list[Said]:
    """Give a member that is a list of tables."""
    found = said.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
