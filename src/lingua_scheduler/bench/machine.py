"""The machine a run was made on, and which of its processors each part may use."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lingua_scheduler import __version__

_PROC = Path("/proc")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_ROOMY = 4  # processors from which on every part of the load gets one of its own


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What figures depend on besides the program."""

    processor: str = ""
    cores: int = 1
    memory_gb: int = 0
    kernel: str = ""
    governor: str = ""
    python: str = ""
    redis: str = ""
    version: str = __version__
    load_before: float = 0.0  # average of the last minute before the run

    @classmethod
    def here(cls, redis: str) -> Machine:
        """Describe this one."""
        cpuinfo = _text(_PROC / "cpuinfo")
        model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        memory = re.search(r"^MemTotal:\s+(\d+)", _text(_PROC / "meminfo"), re.MULTILINE)
        return cls(
            processor=model[1] if model else platform.machine(),
            cores=os.cpu_count() or 1,
            memory_gb=round(int(memory[1]) / 2**20) if memory else 0,
            kernel=platform.release(),
            governor=_text(_GOVERNOR).strip() or "unknown",
            python=platform.python_version(),
            redis=redis,
            load_before=round(os.getloadavg()[0], 2),
        )

    def line(self) -> str:
        """Word it for people."""
        return (
            f"{self.cores} x {self.processor}, {self.memory_gb} GB, kernel {self.kernel}, "
            f"governor {self.governor}; Python {self.python}, {self.redis}, lingua {self.version}; "
            f"load before {self.load_before}"
        )


@dataclass(frozen=True, slots=True)
class Places:
    """Which processors each part of a run may use; None: any."""

    instances: frozenset[int] | None = None
    clients: frozenset[int] | None = None
    fleet: frozenset[int] | None = None
    redis: frozenset[int] | None = None


def places(cores: frozenset[int]) -> Places:
    """Keep the instances apart from what makes load, as far as there are processors."""
    order = sorted(cores)
    if len(order) < 2:  # noqa: PLR2004 there is nothing to keep apart
        return Places()
    if len(order) < _ROOMY:
        load = frozenset(order[-1:])
        return Places(frozenset(order[:-1]), load, load, load)
    *instances, redis, fleet, clients = order
    return Places(frozenset(instances), frozenset({clients}), frozenset({fleet}), frozenset({redis}))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
