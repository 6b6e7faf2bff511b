"""How strong every node is and how much of that is free, the largest GPUs first: `/api/v1/compute-power`."""

from __future__ import annotations

from collections import Counter

import msgspec

from lingua_scheduler.admin.endpoint import BadParameter
from lingua_scheduler.admin.foremost import Foremost
from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.said import number, rows, table, text
from lingua_scheduler.admin.stats import spare_power
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.store.survey import About

_MOST_GPUS = 16
_LONGEST_CURSOR = 9
_ADDED_UP = ("cpu_cores", "memory_gb", "gpu_gb", "cpu_power", "memory_power", "gpu_power")


class PowerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node's machine: what it has, and what of that is free."""

    node_id: str
    platform: str
    online: bool
    excluded: str | None
    cpu_cores: float
    memory_gb: float
    gpu_gb: float
    gpus: list[str]
    cpu_usage: float | None
    memory_usage: float | None
    gpu_usage: float | None
    cpu_power: float
    memory_power: float
    gpu_power: float
    service_efficiencies: dict[str, float]


class PowerPage(msgspec.Struct, frozen=True, kw_only=True):
    """All machines together, those online, and a page of them; `next` is the cursor of the page after."""

    total: int
    total_cpu_cores: float
    total_memory_gb: float
    total_gpu_gb: float
    total_cpu_power: float
    total_memory_power: float
    total_gpu_power: float
    nodes: list[PowerRow]
    next: str | None


async def power_page(picture: Picture, limit: int, cursor: str) -> PowerPage:
    """Show machines from the place that the cursor names; totals are those of nodes that are online."""
    at = place(cursor)
    strongest = Foremost[PowerRow](at + limit)
    totals: Counter[str] = Counter()
    async for facts in unhurried(picture.nodes):
        row = _row(picture, facts)
        strongest.add((-row.gpu_gb, -row.gpu_power, -row.cpu_cores, row.node_id), row)
        for name in _ADDED_UP if row.online else ():
            totals[name] += getattr(row, name)
    total = len(picture.nodes)
    return PowerPage(
        total=total,
        **{f"total_{name}": round(totals[name], 3) for name in _ADDED_UP},
        nodes=strongest.items[at:],
        next=str(at + limit) if at + limit < total else None,
    )


def place(cursor: str) -> int:
    """Read at which row a page begins; BadParameter when that cannot be meant."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _LONGEST_CURSOR):
        raise BadParameter("cursor: expected the next of the page before")
    return int(cursor)


def _row(picture: Picture, facts: NodeFacts) -> PowerRow:
    about = picture.abouts.get(facts.node_id, About())
    hardware, usage = table(about.said, "hardware"), table(about.said, "usage")
    reason, spare = exclusion(picture, facts), spare_power(facts, about)
    gpus = rows(hardware, "gpus")
    online = reason is not Exclusion.OFFLINE
    return PowerRow(
        node_id=facts.node_id,
        platform=text(about.said, "platform"),
        online=online,
        excluded=reason.value if reason is not None else None,
        cpu_cores=number(hardware, "cpu_cores") or 0.0,
        memory_gb=number(hardware, "memory_gb") or 0.0,
        gpu_gb=round(sum(number(gpu, "memory_gb") or 0.0 for gpu in gpus), 3),
        gpus=[text(gpu, "name") for gpu in gpus[:_MOST_GPUS]],
        cpu_usage=number(usage, "cpu_percent"),
        memory_usage=number(usage, "mem_percent"),
        gpu_usage=number(usage, "gpu_percent"),
        cpu_power=spare.cpu_power if online else 0.0,
        memory_power=spare.memory_power if online else 0.0,
        gpu_power=spare.gpu_power if online else 0.0,
        service_efficiencies=spare.service_efficiencies or {},
    )
