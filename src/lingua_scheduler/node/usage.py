"""How busy this machine is, measured: the share of CPU time and memory in use.

Linux tells both in `/proc`. Elsewhere the load average and the free pages stand in, and where even those are
missing, the CPU time of this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_IDLE_FIELDS = (3, 4)  # idle and waiting for a disk
_COUNTED_FIELDS = 8  # what follows is contained in the others
_SHORTEST_LOOK_S = 1.0  # less time tells of chance only
_KIB, _GIB = 1024, 2**30


@dataclass(frozen=True, slots=True)
class Usage:
    """Percentages of the whole machine."""

    cpu_percent: float
    mem_percent: float
    gpu_percent: float | None = None


class Machine:
    """Measures the machine; CPU usage is the average since the last look, at first since its start."""

    def __init__(self, proc: Path = Path("/proc"), now: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._now = now
        self._seen = (0.0, 0.0)
        self._cpu_percent = 0.0
        self._looked_at = float("-inf")
        self._cpu()

    def usage(self) -> Usage:
        """Look now."""
        return Usage(self._cpu(), self._memory_percent())

    @property
    def cores(self) -> int:
        """How many processors there are."""
        return os.cpu_count() or 1

    @property
    def memory_gb(self) -> int:
        """How much memory there is, rounded."""
        total, _ = self._memory_bytes()
        return round(total / _GIB)

    def _cpu(self) -> float:
        if self._now() - self._looked_at >= _SHORTEST_LOOK_S:
            busy, total = self._cpu_seconds()
            busy_before, total_before = self._seen
            if total > total_before:
                share = (busy - busy_before) / (total - total_before)
                self._cpu_percent = min(100.0, max(0.0, 100 * share))
                self._seen, self._looked_at = (busy, total), self._now()
        return round(self._cpu_percent, 1)

    def _cpu_seconds(self) -> tuple[float, float]:
        """Give the busy and the whole CPU time so far, in any unit."""
        try:
            first = (self._proc / "stat").read_text().split("\n", 1)[0].split()
            fields = [int(field) for field in first[1 : 1 + _COUNTED_FIELDS]]
        except (OSError, ValueError):
            fields = []
        if len(fields) > max(_IDLE_FIELDS):
            return sum(fields) - sum(fields[field] for field in _IDLE_FIELDS), sum(fields)
        return self._load_seconds()

    def _load_seconds(self) -> tuple[float, float]:
        total = self._now() * self.cores
        busy_before, total_before = self._seen
        try:
            load = os.getloadavg()[0]
        except (OSError, AttributeError):
            return time.process_time(), total
        return busy_before + (total - total_before) * min(1.0, load / self.cores), total

    def _memory_percent(self) -> float:
        total, available = self._memory_bytes()
        return round(100 * (total - available) / total, 1) if total else 0.0

    def _memory_bytes(self) -> tuple[int, int]:
        """Give all memory and what programs could still have."""
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
            sizes = {
                name: int(rest.split()[0]) * _KIB for name, _, rest in (line.partition(":") for line in lines)
            }
            return sizes["MemTotal"], sizes["MemAvailable"]
        except (OSError, ValueError, KeyError, IndexError):
            return _pages()


def _pages() -> tuple[int, int]:
    try:
        page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 0, 0
    try:
        available = os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        available = total
    return page * total, page * available
