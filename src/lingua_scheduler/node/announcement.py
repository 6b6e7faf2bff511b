"""What a node tells about itself when it registers."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lingua_scheduler import __version__
from lingua_scheduler.core.modules import TEXT_JOBS
from lingua_scheduler.node.usage import Machine, Usage
from lingua_scheduler.wire.common import Features
from lingua_scheduler.wire.machine import Capability, Gpu, Hardware, InstalledService, LanguageCapabilities
from lingua_scheduler.wire.node import NodeRegister

FEATURES = ("job_ack", "exact_flags", "any_order", "cancel", "held_jobs", "trace_context")
"""What this SDK does beyond the protocol of the first generation."""
_SCHEMA_VERSION = "2.0"
_PLATFORMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}


@dataclass(frozen=True, slots=True)
class About:
    """Everything about a node that has a sensible default."""

    node_id: str | None = None  # without one, the scheduler gives one
    services: tuple[str, ...] = ("asr", "nmt", "tts")
    version: str = __version__
    gpus: tuple[Gpu, ...] = ()
    public: bool = True  # takes the jobs of anybody, not only of sessions paired with it
    region: str | None = None
    gpu_tier: str | None = None
    usage: Callable[[], Usage] | None = None  # measures the machine in place of `Machine`
    text_jobs: bool = False  # the handler heeds `Job.text`


def announcement(
    languages: Iterable[str] | LanguageCapabilities, capacity: int, about: About, heartbeat_s: float
) -> NodeRegister:
    """Word the registration of a node."""
    machine = Machine()
    device = "gpu" if about.gpus else "cpu"
    return NodeRegister(
        node_id=about.node_id,
        version=about.version,
        platform=_PLATFORMS.get(platform.system(), "other"),
        hardware=Hardware(cpu_cores=machine.cores, memory_gb=machine.memory_gb, gpus=about.gpus or None),
        capability_schema_version=_SCHEMA_VERSION,
        installed_models=(),
        installed_services=tuple(
            InstalledService(
                service_id=service, type=service, device=device, status="running", version=about.version
            )
            for service in about.services
        ),
        capability_by_type=tuple(
            Capability(type=service, ready=True, devices=(device,)) for service in about.services
        ),
        features_supported=Features(),
        accept_public_jobs=about.public,
        language_capabilities=_capabilities(languages),
        max_concurrent_jobs=capacity,
        heartbeat_interval_seconds=heartbeat_s,
        region=about.region,
        gpu_tier=about.gpu_tier,
        features=(*FEATURES, TEXT_JOBS) if about.text_jobs else FEATURES,
    )


def _capabilities(languages: Iterable[str] | LanguageCapabilities) -> LanguageCapabilities:
    if isinstance(languages, LanguageCapabilities):
        return languages
    said = tuple(languages)
    return LanguageCapabilities(
        asr_languages=said, semantic_languages=said, tts_languages=said, semantic_core_ready=bool(said)
    )
