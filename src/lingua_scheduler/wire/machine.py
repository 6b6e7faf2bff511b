"""What a node tells about itself: hardware, models, services, capabilities, languages and load.

Service types, devices and states are open words: a new kind of service must never make a node unreadable. A
node's languages come as it writes them, to be trimmed and de-duplicated by the flow; only a colon is refused,
because it separates the two languages of a pair.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lingua_scheduler.wire.common import Attempt, Count, Id, Name, Number, Record, Text

Percent = Annotated[float, Meta(ge=-1_000_000, le=1_000_000)]
NodeLang = Annotated[str, Meta(max_length=64, pattern=r"^[^:\x00-\x1f\x7f-\x9f]*\Z")]
NodeLangs = Annotated[tuple[NodeLang, ...], Meta(max_length=512)]
Names = Annotated[tuple[Name, ...], Meta(max_length=256)]


class Gpu(Record, frozen=True, kw_only=True):
    """One graphics card."""

    name: Name
    memory_gb: Count


class Hardware(Record, frozen=True, kw_only=True):
    """The machine; a node without a graphics card leaves `gpus` out."""

    cpu_cores: Count
    memory_gb: Count
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=64)] | None = None


class InstalledModel(Record, frozen=True, kw_only=True):
    """A model on the node's disk."""

    model_id: Name
    kind: Name
    version: Name
    src_lang: NodeLang | None = None
    tgt_lang: NodeLang | None = None
    dialect: Name | None = None
    enabled: bool | None = None


class InstalledService(Record, frozen=True, kw_only=True):
    """A service of the node and its state."""

    service_id: Name
    type: Name
    device: Name
    status: Name
    version: Name | None = None
    model_id: Name | None = None
    engine: Name | None = None
    mem_mb: Number | None = None
    warmup_ms: Number | None = None
    last_error: Text | None = None


class Capability(Record, frozen=True, kw_only=True):
    """Whether the node can do one type of service now."""

    type: Name
    ready: bool
    reason: Name | None = None
    ready_impl_ids: Names | None = None
    devices: Names | None = None


class LanguageCapabilities(Record, frozen=True, kw_only=True):
    """The languages a node hears, translates and speaks."""

    asr_languages: NodeLangs | None = None
    tts_languages: NodeLangs | None = None
    semantic_languages: NodeLangs | None = None
    semantic_core_ready: bool | None = None


class ResourceUsage(Record, frozen=True, kw_only=True):
    """How busy the machine is; percentages go from 0 to 100, broken probes report less or more."""

    cpu_percent: Percent
    mem_percent: Percent
    running_jobs: Count
    gpu_percent: Percent | None = None
    gpu_mem_percent: Percent | None = None
    gpu_queue_length: Count | None = None


class RerunMetrics(Record, frozen=True, kw_only=True, rename="camel"):
    """Second recognition passes since the node started."""

    total_reruns: Count | None = None
    successful_reruns: Count | None = None
    failed_reruns: Count | None = None
    timeout_reruns: Count | None = None
    quality_improvements: Count | None = None


class ProcessingMetrics(Record, frozen=True, kw_only=True, rename="camel"):
    """How fast each service worked since the last heartbeat."""

    service_efficiencies: Annotated[dict[Name, float], Meta(max_length=256)] | None = None


class HeldJob(Record, frozen=True, kw_only=True):
    """A job the node still works on after it lost its connection."""

    job_id: Id
    attempt_id: Attempt


Models = Annotated[tuple[InstalledModel, ...], Meta(max_length=1024)]
Services = Annotated[tuple[InstalledService, ...], Meta(max_length=1024)]
Capabilities = Annotated[tuple[Capability, ...], Meta(max_length=256)]
HeldJobs = Annotated[tuple[HeldJob, ...], Meta(max_length=1024)]
