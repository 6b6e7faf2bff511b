"""One point of each growth curve: a run of a profile, or of one part where a run would say less."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from lingua_scheduler.bench import placement
from lingua_scheduler.bench import room as large_room
from lingua_scheduler.bench.driver import run
from lingua_scheduler.bench.figures import reported
from lingua_scheduler.bench.growth import Point
from lingua_scheduler.bench.profile import load
from lingua_scheduler.bench.quantile import quantile

REAL_NODES = 1_000
"""Nodes with a socket of their own; those beyond stand in Redis only."""
BYTES_PER_S = 32_000
"""Bytes of a second of samples."""

_QUICK_REAL_NODES = 10
_SPARE_FILES = 500  # open files of an instance that are no client's
_ROUNDS, _QUICK_ROUNDS = 2_000, 50
ASSIGN_P50, ASSIGN_P99 = "cut -> assign p50", "cut -> assign p99"
ADDED_P50, ADDED_P99 = "added p50", "added p99"
CPU, SCRIPTS = "cpu for an utterance with its frames", "redis scripts' time for an utterance"
PLACEMENT, HEARTBEAT = "a placement inside redis", "a heartbeat inside redis"
NS_PER_BYTE, FRAMES = "cpu for a byte", "frames"
"""Figures that curves look at."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a point is measured."""

    quick: bool
    say: Callable[[str], None]  # told what is being done


async def _point(x: float, changes: dict[str, Any], asked: Asked) -> Point:
    """Run the common profile with these changes."""
    settings = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in changes.items()]
    if asked.quick:
        settings += ["warmup_s=0.3", "duration_s=1.5", "system.background_s=0.3"]
        settings += ["speech.mean_s=0.4", "speech.begin_within_s=0.5"]
    report = reported("growth", await run(load("growth", settings), say=asked.say))
    values = {name: figure.value for name, figure in report.figures.items()}
    return Point(x=x, values=values, void=report.void, doubts=report.doubts)


# Nodes and languages


async def nodes(x: float, asked: Asked) -> Point:
    """Measure among so many nodes."""
    real = min(int(x), _QUICK_REAL_NODES if asked.quick else REAL_NODES)
    changes = {
        "fleet.nodes": real,
        "fleet.standing": int(x) - real,
        "fleet.connects_per_s": 400.0,
        "sessions.count": 10 if asked.quick else 300,
        "sessions.connects_per_s": 300.0,
        "system.background_s": 4.0,
    }
    return await _placed(await _point(x, changes, asked), int(x), 2, asked)


async def languages(x: float, asked: Asked) -> Point:
    """Measure with so many languages."""
    changes = {
        "company.pairs": int(x) * (int(x) - 1),
        "sessions.count": 10 if asked.quick else 200,
        "fleet.nodes": 5 if asked.quick else 100,
    }
    point = await _point(x, changes, asked)
    return await _placed(point, 10 if asked.quick else REAL_NODES, int(x), asked)


async def _placed(point: Point, nodes: int, languages: int, asked: Asked) -> Point:
    """Add what a placement and a heartbeat cost inside Redis, on a shelf with so many nodes."""
    asked.say(f"placements among {nodes} nodes")
    row = await placement.measured_row(nodes, languages, _QUICK_ROUNDS if asked.quick else _ROUNDS)
    values = {**point.values, PLACEMENT: row.hit_us, HEARTBEAT: row.heartbeat_us}
    return msgspec.structs.replace(point, values=values)


# Sessions


async def idle(x: float, asked: Asked) -> Point:
    """Measure with so many silent sessions, as far as open files reach."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _SPARE_FILES
    number = min(int(x), most) if most > 0 else int(x)
    changes = {
        "sessions.count": 0,
        "sessions.idle": number,
        "sessions.connects_per_s": 800.0,
        "fleet.nodes": 10,
        "settings.server.max_connections": number + _SPARE_FILES,
        "settings.server.handshakes_per_s": 2000.0,
        "settings.server.backlog": 4096,
        "duration_s": 8.0,
        "warmup_s": 2.0,
        "system.background_s": 4.0,
    }
    return await _point(float(number), changes, asked)


async def speaking(x: float, asked: Asked) -> Point:
    """Measure with so many sessions that speak."""
    changes = {
        "sessions.count": int(x),
        "sessions.connects_per_s": 400.0,
        "fleet.nodes": 10 if asked.quick else 60,
        "fleet.service_s": 0.2,
        "fleet.result_bytes": 80_000,
        "speech.mean_s": 3.5,
        "speech.longest_s": 8.0,
        "speech.begin_within_s": 4.0,
        "warmup_s": 4.0,
    }
    return await _point(x, changes, asked)


# Instances


async def instances(x: float, asked: Asked) -> Point:
    """Run twice: with nodes of the client's own instance, and with those of others only."""
    number = int(x)
    changes = {
        "sessions.count": 8 if asked.quick else 96,
        "sessions.connects_per_s": 100.0,
        "fleet.nodes": 2 * number if asked.quick else 48,
        "system.instances": number,
        "system.background_s": 3.0,
    }
    near = await _point(x, {**changes, "company.apart": True}, asked)
    points = {"own node": near}
    if number > 1:
        away = {**changes, "system.clients_at": "even", "fleet.at": "odd"}
        points["other's node"] = await _point(x, away, asked)
    values = {f"{name}, {way}": value for way, each in points.items() for name, value in each.values.items()}
    values["background cpu of an instance"] = near.values.get("background cpu", 0.0) / number
    return Point(
        x=x,
        values=values,
        void=tuple(f"{way}: {sentence}" for way, each in points.items() for sentence in each.void),
        doubts=tuple(f"{way}: {doubt}" for way, each in points.items() for doubt in each.doubts),
    )


# Rooms


async def room(x: float, asked: Asked) -> Point:
    """Measure a room of so many listeners."""
    found = await large_room.measure(rounds=3 if asked.quick else 20, listeners=int(x))
    spoken, heard = found.utterances, found.counts.get("room_deliveries_total", 0)
    waited = [each for times in found.waited_ms.values() for each in times]
    void = []
    if heard != spoken * int(x):
        void.append(f"{spoken} utterances for {x:g} listeners were delivered {heard} times")
    if found.counts.get("recognitions", 0) != spoken:
        void.append(f"{spoken} utterances were recognized {found.counts.get('recognitions', 0)} times")
    values = {
        "deliveries": heard / spoken,
        "encodings": found.counts.get("room_encodings_total", 0) / spoken,
        "cpu for a listener": found.cpu_us / spoken / x,
        "node -> listener p50": quantile(waited, 0.5),
        "node -> listener p99": quantile(waited, 0.99),
    }
    return Point(x=x, values=values, void=tuple(void))


# Utterances


async def length(x: float, asked: Asked) -> Point:
    """Measure utterances of so many seconds."""
    size = round(x * BYTES_PER_S)
    changes: dict[str, Any] = {
        "cycles.audio_bytes": size,
        "sessions.count": 2 if asked.quick else 8,
        "formats.opus": 0.0,
        "formats.pcm": 0.0,
        "fleet.nodes": 4,
        "fleet.fewest_slots": 8,
        "fleet.service_s": 0.0,
        "settings.segmentation.max_duration_ms": 0,
        "settings.segmentation.max_utterance_bytes": 2 * size + 100_000,
        "settings.server.clients.byte_burst": 1_000_000_000,
        "settings.server.clients.bytes_per_s": 1e9,
        "settings.server.nodes.bytes_per_s": 1e9,
    }
    for peer in ("clients", "nodes"):
        changes[f"settings.server.{peer}.messages_per_s"] = 100_000.0
        changes[f"settings.server.{peer}.message_burst"] = 100_000
    point = await _point(x, changes, asked)
    cost = {NS_PER_BYTE: point.values[CPU] * 1000 / size} if CPU in point.values else {}
    return msgspec.structs.replace(point, values={**point.values, **cost})


# Redis


async def redis(x: float, asked: Asked) -> Point:
    """Measure with Redis so many milliseconds farther away."""
    changes = {"sessions.count": 10 if asked.quick else 100, "system.redis_delay_ms": x, "duration_s": 8.0}
    return await _point(x, changes, asked)
