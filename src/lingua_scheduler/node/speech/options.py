"""The options of the reference node: which engines, how many workers, how patient."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from lingua_scheduler.node.node import DEFAULT_URL
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.speech.carriers import WHISPER_BASE_PARTS
from lingua_scheduler.node.speech.engine import SERVICES, Service
from lingua_scheduler.node.speech.weights import installed
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.wire.common import Id

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Ms = Annotated[int, msgspec.Meta(ge=0)]


class EngineChoice(msgspec.Struct, frozen=True):
    """One engine by its name, or as `module:Class`, and what its options say."""

    engine: str
    options: dict[str, Any] = {}


class DeadlineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an engine may take before its process is killed and the job reported as failed."""

    start_s: _Seconds = 180.0
    """Time for a worker to load and try its engines."""
    asr_s: _Seconds = 15.0
    """Time for a recognition, whatever its length."""
    asr_per_audio_s: Annotated[float, msgspec.Meta(ge=0)] = 0.5
    """Time added for each second of speech."""
    nmt_s: _Seconds = 10.0
    """Time for a translation."""
    tts_s: _Seconds = 10.0
    """Time for a voice."""


class TurnOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of speech that was cut only because it was long."""

    pieces: Literal["answer", "merge"] = "answer"
    """answer: each piece is translated when it comes. merge: all is kept and translated with the last one."""
    join_ms: _Ms = 1000
    """With `answer`: a piece is cut again at the quietest moment of its last part, this long."""
    merge_limit_s: _Seconds = 90.0
    """With `merge`: speech kept of one turn; a piece beyond it is answered with all that was kept."""
    idle_s: _Seconds = 300.0
    """A turn of which nothing more comes is forgotten after this time."""
    open_limit: _Count = 256
    """Most turns remembered; the one that is idle longest goes first."""


class GpuOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One graphics card, as the scheduler is told."""

    name: str
    """Its name."""
    memory_gb: Annotated[int, msgspec.Meta(ge=0)]
    """Its memory."""


class NodeTracingOptions(TracingOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the spans of a node go; the scheduler decides which jobs are traced."""

    service_name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = "lingua-node"
    """What the node is called in traces."""


Engines = tuple[EngineChoice, ...]


class SpeechOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reference node; a step without engines is a service the node does not offer."""

    url: str = DEFAULT_URL
    """Address of the scheduler."""
    node_id: Id | None = None
    """Id to register with; without one, the scheduler gives one."""
    public: bool = True
    """Take the jobs of anybody, not only of sessions paired with this node."""
    region: str | None = None
    """Where the node stands."""
    gpus: tuple[GpuOptions, ...] = ()
    """Graphics cards that the engines use."""
    workers: _Count = 1
    """Processes with a full set of engines each: jobs that are worked on at the same time."""
    capacity: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Jobs taken at a time; those beyond the workers wait here. 0 is one more than workers."""
    hotwords: tuple[str, ...] = ()
    """Words to expect, such as names and products: recognisers listen for them."""
    vad: Engines | None = None
    """Finds speech; without engines, all that is not silent is taken for speech."""
    asr: Engines | None = None
    """Recognises speech; of several engines, the first that understands the language is used."""
    partials: Engines | None = None
    """Shows words early; without engines, a recogniser may show those of long speech."""
    repair: Engines | None = None
    """Corrects what was recognised; every engine in turn."""
    repair_always: bool = True
    """Correct every text; false only for sessions that ask for it with `use_semantic`."""
    nmt: Engines | None = None
    """Translates; pairs that no engine has are reached through other languages."""
    tts: Engines | None = None
    """Speaks; of several engines, the first that speaks the language is used."""
    deadlines: DeadlineOptions = DeadlineOptions()
    """How long an engine may take."""
    turns: TurnOptions = TurnOptions()
    """What becomes of long speech."""
    link: LinkOptions = LinkOptions()
    """How the link to the scheduler is kept."""
    tracing: NodeTracingOptions = NodeTracingOptions()
    """Where spans go, when the scheduler traces."""

    def engines(self, service: Service) -> Engines:
        """Give the engines of a step: the chosen ones, else the default."""
        chosen: Engines | None = getattr(self, service)
        return default_engines(service) if chosen is None else chosen

    def all_engines(self) -> dict[Service, Engines]:
        """Give the engines of every step."""
        return {service: self.engines(service) for service in SERVICES}

    @property
    def jobs_at_a_time(self) -> int:
        """How many jobs the node takes."""
        return self.capacity or self.workers + 1


def default_engines(service: Service) -> Engines:
    """Give what a step uses when nobody chose: English and Portuguese from packages, on a CPU."""
    match service:
        case "vad":
            return (EngineChoice("silero"),)
        case "asr":
            multilingual = all(installed(part.module) for part in WHISPER_BASE_PARTS)
            base = (EngineChoice("whisper", {"model": "base"}),) if multilingual else ()
            return (EngineChoice("whisper", {"model": "tiny.en"}), *base)
        case "nmt":
            return (EngineChoice("firefox"),)
        case "tts":
            return (EngineChoice("hibari"), EngineChoice("espeak"))
        case _:
            return ()
