"""The numbers of the dashboard: who talks in which languages, and what the nodes offer and have to spare."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import UNSET, UnsetType

from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.said import Said, number, rows, table, text
from lingua_scheduler.admin.sessions import read_languages
from lingua_scheduler.core.catalogue import Service, merged
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.store.survey import About

_TOP = 10
_MOST_LANGUAGES = 100
_MOST_SERVICES = 200
_MOST_DETAILS = 200
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


def stats(picture: Picture) -> Stats:
    """Count what there is."""
    online = [facts for facts in picture.nodes if exclusion(picture, facts) is not Exclusion.OFFLINE]
    return Stats(web_clients=_web_clients(picture), nodes=_nodes(picture, online))


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


def _nodes(picture: Picture, online: list[NodeFacts]) -> NodeStats:
    types: Counter[str] = Counter()
    in_use: Counter[str] = Counter()
    services: dict[str, set[tuple[str, str]]] = {}
    holders: Counter[str] = Counter()
    for facts in online:
        about = picture.abouts.get(facts.node_id, About())
        types.update(kind.capitalize() for kind in facts.types)
        in_use.update(kind.capitalize() for kind in (facts.types if about.jobs else ()))
        mine = {(*_service(each), text(about.said, "platform")) for each in rows(about.said, "services")}
        holders.update({service_id for service_id, _, _ in mine})
        for service_id, version, platform in mine:
            services.setdefault(service_id, set()).add((version, platform))
    offered = picture.services.catalogue.services
    known = [service_id for service_id, _ in holders.most_common(_MOST_SERVICES)]
    return NodeStats(
        connected_nodes=len(online),
        type_node_counts=dict(types),
        type_in_use_counts=dict(in_use),
        service_node_counts={service_id: holders[service_id] for service_id in known},
        available_services=merged(offered, services, _MOST_SERVICES),
        total_services=len({*services, *(each.service_id for each in offered)}),
        compute_power=_power(
            [spare_power(facts, picture.abouts.get(facts.node_id, About())) for facts in online]
        ),
    )


def _power(nodes: list[NodePower]) -> ComputePower:
    nodes.sort(key=lambda node: (-node.gpu_power, -node.cpu_power, node.node_id))
    return ComputePower(
        total_cpu_power=round(sum(node.cpu_power for node in nodes), 3),
        total_gpu_power=round(sum(node.gpu_power for node in nodes), 3),
        total_memory_power=round(sum(node.memory_power for node in nodes), 3),
        node_power_details=nodes[:_MOST_DETAILS],
    )


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
