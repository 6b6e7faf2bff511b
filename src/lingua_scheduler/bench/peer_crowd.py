"""The same clients as in every other run, before a peer that only receives. Run as a module, like `crowd`.

A peer answers nothing but the greeting, so the run ends with its window: nothing is awaited after it.
"""

from __future__ import annotations

import sys

from lingua_scheduler.bench.crowd import Crowd
from lingua_scheduler.bench.records import settings_of


class Audience(Crowd):
    """Clients that expect no answer."""

    def _look(self, due_s: float) -> float | None:
        for speaker in self._speakers:
            speaker.drop(due_s)  # what is due at the same moment is not sent any more
        self._write()
        self.reactor.stop()
        return None


if __name__ == "__main__":
    Audience(settings_of(sys.argv)).run()
