"""What a node says of itself, checked in order and turned into facts for placement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec

from lingua_scheduler.core.lifecycle import HealthFacts, NodeHealthOptions, NodeStatus
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.core.unavailability import UnavailabilityOptions
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.wire.machine import LanguageCapabilities, ResourceUsage
from lingua_scheduler.wire.node import JobAssign, NodeHeartbeat, NodeRegister

SCHEMA_VERSION = "2.0"
_MOST_EFFICIENCIES = 64
EXACT_FLAGS = "exact_flags"  # the node translates every cut; others need all flagged as manual ones
TRACE_CONTEXT = "trace_context"  # the node heeds `traceparent`

_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which nodes are accepted and how they are kept."""

    allow_empty_languages: bool = False
    """Let nodes register before they know their languages; heartbeats fill them in."""
    node_id_conflict_policy: Literal["takeover", "reject"] = "takeover"
    """What happens when a live node's id registers again: the newcomer replaces it, or is refused."""
    max_concurrent_jobs: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Capacity of a node that does not announce its own."""
    max_concurrent_jobs_limit: Annotated[int, msgspec.Meta(ge=1)] = 256
    """Highest capacity a node may announce."""
    registration_deadline_s: Annotated[float, msgspec.Meta(gt=0)] = 30
    """A connection that has not registered by then is closed."""
    disconnect_grace_s: Annotated[float, msgspec.Meta(ge=0)] = 5
    """How long a node that lost its connection is kept, unselectable, for its return."""
    resource_threshold: _Percent = 85
    """CPU or GPU usage above this keeps a node from being chosen."""
    memory_threshold: _Percent = 85
    """Memory usage above this keeps a node from being chosen."""


MISSED_HEARTBEATS = 3  # reports a node may miss before its lease ends


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The options that every node of an instance follows."""

    nodes: NodeOptions
    health: NodeHealthOptions
    unavailability: UnavailabilityOptions

    def lease_s(self, announced_interval_s: float | None) -> float:
        """Life of a node's record without a heartbeat; nodes that report more often get a shorter one."""
        if announced_interval_s is None:
            return self.health.heartbeat_timeout_s
        return min(self.health.heartbeat_timeout_s, max(1.0, announced_interval_s * MISSED_HEARTBEATS))


class Announcement:
    """The newest word of a node on each subject: registration first, then what heartbeats repeat."""

    def __init__(self, message: NodeRegister, rules: NodeRules) -> None:
        check(message, rules)
        self._options = rules.nodes
        self._require_gpu = rules.health.require_gpu
        self.register = message
        self.languages = message.language_capabilities or LanguageCapabilities()
        self.efficiencies: dict[str, float] = {}  # how fast each service worked, as the node says
        self.services = message.installed_services or ()
        self.capabilities = message.capability_by_type
        self.usage: ResourceUsage | None = None

    def hear(self, message: NodeHeartbeat) -> None:
        """Take over what a heartbeat says; what it leaves out stays."""
        if message.language_capabilities is not None:
            self.languages = message.language_capabilities
        if message.installed_services is not None:
            self.services = message.installed_services
        if message.capability_by_type is not None:
            self.capabilities = message.capability_by_type
        self.usage = message.resource_usage
        worked = message.processing_metrics and message.processing_metrics.service_efficiencies
        if worked:  # of services that worked since the last heartbeat
            self.efficiencies = dict(list({**self.efficiencies, **worked}.items())[-_MOST_EFFICIENCIES:])

    @property
    def asr(self) -> frozenset[str]:
        """Languages the node hears."""
        return _cleaned(self.languages.asr_languages)

    @property
    def semantic(self) -> frozenset[str]:
        """Languages the node translates into."""
        return _cleaned(self.languages.semantic_languages)

    @property
    def types(self) -> frozenset[str]:
        """Service types that are ready."""
        return frozenset(entry.type for entry in self.capabilities if entry.ready)

    @property
    def max_jobs(self) -> int:
        """How many jobs the node takes at once."""
        said = self.register.max_concurrent_jobs
        if said is None:
            return self._options.max_concurrent_jobs
        return max(1, min(said, self._options.max_concurrent_jobs_limit))

    @property
    def running_jobs(self) -> int:
        """How many jobs the node says it runs."""
        if self.usage is not None:
            return self.usage.running_jobs
        return len(self.register.held_jobs or ())

    def offers(self, feature: str) -> bool:
        """The node announced an ability of the newer protocol."""
        return feature in (self.register.features or ())

    def worded(self, message: JobAssign) -> JobAssign:
        """Word a job for the generation of this node."""
        if not message.is_manual_cut and not self.offers(EXACT_FLAGS):
            message = msgspec.structs.replace(message, is_manual_cut=True)
        if message.traceparent is not None and not self.offers(TRACE_CONTEXT):
            message = msgspec.structs.replace(message, traceparent=None)
        return message

    def health(self) -> HealthFacts:
        """What its status depends on."""
        return HealthFacts(
            has_gpu=bool(self.register.hardware.gpus),
            gpu_percent=self.usage.gpu_percent if self.usage else None,
            installed=frozenset(service.type for service in self.services),
            ready={entry.type: entry.ready for entry in self.capabilities},
        )

    def closed(self, status: NodeStatus) -> Exclusion | None:
        """Why the node must not be chosen now; None when it may be."""
        if status is NodeStatus.OFFLINE:
            return Exclusion.OFFLINE
        if status is not NodeStatus.READY:
            return Exclusion.STATUS_NOT_READY
        if not self.asr or not self.semantic:
            return Exclusion.LANG_PAIR_UNSUPPORTED
        return self._overloaded(self.usage) if self.usage else None

    def _overloaded(self, usage: ResourceUsage) -> Exclusion | None:
        if (usage.gpu_queue_length or 0) > 0:
            return Exclusion.CAPACITY_EXCEEDED
        options, gpu = self._options, usage.gpu_percent
        if (
            usage.cpu_percent > options.resource_threshold
            or (gpu is None and self._require_gpu)
            or (gpu is not None and gpu > options.resource_threshold)
            or usage.mem_percent > options.memory_threshold
        ):
            return Exclusion.RESOURCE_THRESHOLD_EXCEEDED
        return None

    def about(self, status: NodeStatus) -> dict[str, Any]:
        """What people may want to know of the node."""
        register = self.register
        return {
            "version": register.version,
            "platform": register.platform,
            "status": status.value,
            "hardware": msgspec.to_builtins(register.hardware),
            "services": msgspec.to_builtins(self.services),
            "capabilities": msgspec.to_builtins(self.capabilities),
            "languages": msgspec.to_builtins(self.languages),
            "usage": msgspec.to_builtins(self.usage),
            "efficiencies": self.efficiencies,
            "region": register.region,
            "gpu_tier": register.gpu_tier,
        }


def check(message: NodeRegister, rules: NodeRules) -> None:
    """Refuse what cannot be accepted: schema, GPU, languages, in this order."""
    if message.capability_schema_version != SCHEMA_VERSION:
        raise NodeRefused(
            "INVALID_CAPABILITY_SCHEMA",
            f"capability_schema_version must be {SCHEMA_VERSION}",
            details={"expected": SCHEMA_VERSION},
        )
    if rules.health.require_gpu and not message.hardware.gpus:
        raise NodeRefused("NO_GPU_AVAILABLE", "hardware.gpus must list at least one GPU")
    languages = message.language_capabilities or LanguageCapabilities()
    lists = {"asr_languages": languages.asr_languages, "semantic_languages": languages.semantic_languages}
    missing = [name for name, said in lists.items() if not _cleaned(said)]
    if missing and not rules.nodes.allow_empty_languages:
        raise NodeRefused(
            "INVALID_CAPABILITY_SCHEMA",
            f"language_capabilities must name at least one language in {' and '.join(missing)}",
            details={"missing": missing},
        )


@lru_cache(maxsize=256)  # every heartbeat names them, and there are few sets of languages
def _cleaned(languages: tuple[str, ...] | None) -> frozenset[str]:
    return frozenset(said.strip().lower() for said in languages or () if said.strip())
