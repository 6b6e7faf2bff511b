"""Where a session speaks while its client is away."""

from __future__ import annotations

from typing import Any


class Nowhere:
    """A sink that tells nobody."""

    close_code: int | None = None

    def post(self, message: Any, *, droppable: bool = False) -> bool:  # noqa: ARG002
        """Tell nobody."""
        return False

    def close(self, code: int, reason: str) -> None:
        """There is nothing to close."""
