"""The numbers of the dashboard: who talks in which languages, and what the nodes offer and have to spare."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from lingua_scheduler.admin.foremost import Foremost
from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.said import Said, number, rows, table, text
from lingua_scheduler.admin.sessions import read_languages
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.catalogue import Service, merged
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.store.survey import About

_TOP = 10
_MOST_LANGUAGES = 100
_MOST_SERVICES = 200
_MOST_DETAILS = 200
_SILENT: Final = About()  # a node that nobody was asked about yet
_ASR, _NMT, _TTS, _OTHER_TTS = "faster-whisper-vad", "nmt-m2m100", "piper-tts", "your-tts"
_SPARE_CPU, _SPARE_GPU, _SPARE_MEMORY = 50.0, 75.0, 75.0  # percentages up to which a machine counts as free


class LanguageShare(msgspec.Struct, frozen=True):
    """How often a language is used."""

    language: str
    count: int


class LanguageUse(msgspec.Struct, frozen=True):
    """How often a language is spoken and wanted."""

    as_source: int
    as_target: int
    total: int


class WebClients(msgspec.Struct, frozen=True):
    """Those who talk."""

    active_users: int = 0
    top_languages: list[LanguageShare] = []
    language_usage: dict[str, LanguageUse] = {}


class NodePower(msgspec.Struct, frozen=True):
    """What a node has to spare."""

    node_id: str
    node_name: str
    cpu_power: float
    gpu_power: float
    memory_power: float
    service_efficiencies: dict[str, float] | UnsetType = UNSET  # as the node says, of what has worked
    asr_efficiency: float | UnsetType = UNSET
    nmt_efficiency: float | UnsetType = UNSET
    tts_efficiency: float | UnsetType = UNSET


class ComputePower(msgspec.Struct, frozen=True):
    """What all nodes have to spare, and the strongest of them one by one."""

    total_cpu_power: float = 0.0
    total_gpu_power: float = 0.0
    total_memory_power: float = 0.0
    node_power_details: list[NodePower] = []


class NodeStats(msgspec.Struct, frozen=True):
    """Those who translate."""

    connected_nodes: int = 0
    type_node_counts: dict[str, int] = {}
    type_in_use_counts: dict[str, int] = {}
    service_node_counts: dict[str, int] = {}
    available_services: list[Service] = []
    total_services: int = 0
    compute_power: ComputePower = ComputePower()


class Stats(msgspec.Struct, frozen=True):
    """What `/api/v1/stats` says; complete also when there is nothing to count."""

    web_clients: WebClients = WebClients()
    nodes: NodeStats = NodeStats()


async def stats(picture: Picture) -> Stats:
    """Count what there is."""
    return Stats(web_clients=_web_clients(picture), nodes=await _nodes(picture))


def _web_clients(picture: Picture) -> WebClients:
    spoken: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for presence in picture.living.values():
        for lang, (as_source, as_target) in read_languages(presence.about).items():
            spoken[lang] += as_source
            wanted[lang] += as_target
    most = (spoken + wanted).most_common(_MOST_LANGUAGES)
    return WebClients(
        active_users=sum(presence.about.get("sessions", 0) for presence in picture.living.values()),
        top_languages=[LanguageShare(lang, count) for lang, count in most[:_TOP]],
        language_usage={lang: LanguageUse(spoken[lang], wanted[lang], count) for lang, count in most},
    )


async def _nodes(picture: Picture) -> NodeStats:
    seen = _Seen()
    async for facts in unhurried(picture.nodes):
        if exclusion(picture, facts) is not Exclusion.OFFLINE:
            seen.add(facts, picture.abouts.get(facts.node_id, _SILENT))
    offered = picture.services.catalogue.services
    known = [service_id for service_id, _ in seen.holders.most_common(_MOST_SERVICES)]
    return NodeStats(
        connected_nodes=seen.nodes,
        type_node_counts=_named(seen.types),
        type_in_use_counts=_named(seen.in_use),
        service_node_counts={service_id: seen.holders[service_id] for service_id in known},
        available_services=merged(offered, seen.services, _MOST_SERVICES),
        total_services=len({*seen.services, *(each.service_id for each in offered)}),
        compute_power=ComputePower(
            total_cpu_power=round(seen.cpu_power, 3),
            total_gpu_power=round(seen.gpu_power, 3),
            total_memory_power=round(seen.memory_power, 3),
            node_power_details=seen.strongest.items,
        ),
    )


@dataclass(slots=True)
class _Seen:
    """What was counted of the nodes that were looked at so far."""

    nodes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    in_use: Counter[str] = field(default_factory=Counter)
    services: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    holders: Counter[str] = field(default_factory=Counter)
    cpu_power: float = 0.0
    gpu_power: float = 0.0
    memory_power: float = 0.0
    strongest: Foremost[NodePower] = field(default_factory=lambda: Foremost(_MOST_DETAILS))

    def add(self, facts: NodeFacts, about: About) -> None:
        """Count a node that is online."""
        self.nodes += 1
        self.types.update(facts.types)
        self.in_use.update(facts.types if about.jobs else ())
        platform = text(about.said, "platform")
        mine = {(*_service(each), platform) for each in rows(about.said, "services")}
        self.holders.update({service_id for service_id, _, _ in mine})
        for service_id, version, _ in mine:
            self.services.setdefault(service_id, set()).add((version, platform))
        power = spare_power(facts, about)
        self.cpu_power += power.cpu_power
        self.gpu_power += power.gpu_power
        self.memory_power += power.memory_power
        self.strongest.add((-power.gpu_power, -power.cpu_power, power.node_id), power)


def _named(types: Counter[str]) -> dict[str, int]:
    named: Counter[str] = Counter()
    for kind, count in types.items():
        named[kind.capitalize()] += count
    return dict(named)


def spare_power(facts: NodeFacts, about: About) -> NodePower:
    """Tell what a node has to spare."""
    hardware, usage = table(about.said, "hardware"), table(about.said, "usage")
    gpu_gb = sum(number(gpu, "memory_gb") or 0.0 for gpu in rows(hardware, "gpus"))
    said = table(about.said, "efficiencies")
    worked = {name: value for name in said if (value := number(said, name)) is not None}
    return NodePower(
        node_id=facts.node_id,
        node_name=f"Node-{facts.node_id[-8:].upper()}",
        cpu_power=_share(_SPARE_CPU, usage, "cpu_percent", (number(hardware, "cpu_cores") or 0.0)),
        gpu_power=_share(_SPARE_GPU, usage, "gpu_percent", gpu_gb),
        memory_power=_share(_SPARE_MEMORY, usage, "mem_percent", (number(hardware, "memory_gb") or 0.0)),
        service_efficiencies=worked or UNSET,
        asr_efficiency=worked.get(_ASR, UNSET),
        nmt_efficiency=worked.get(_NMT, UNSET),
        tts_efficiency=worked.get(_TTS, worked.get(_OTHER_TTS, UNSET)),
    )


def _share(spare: float, usage: Said, name: str, amount: float) -> float:
    return round(max(0.0, spare - (number(usage, name) or 0.0)) * amount / 100, 3)


def _service(said: Said) -> tuple[str, str]:
    return text(said, "service_id"), text(said, "version")
