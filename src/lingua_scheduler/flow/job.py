"""One utterance to translate for one pair, as its owner holds it in memory while it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.aio import Alarm
from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import (
    AudioFormat,
    Cut,
    CutReason,
    JobId,
    Languages,
    NodeId,
    Pair,
    new_turn_id,
)
from lingua_scheduler.core.modules import TEXT_JOBS, Requirements, required
from lingua_scheduler.core.modules import Pipeline as Steps
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.rooms import Target, address
from lingua_scheduler.core.stored import Logged
from lingua_scheduler.errors import CorruptValue
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.trail import Trail
from lingua_scheduler.wire.common import Features, Pipeline
from lingua_scheduler.wire.node import JobAssign, JobResult
from lingua_scheduler.wire.session import Utterance

if TYPE_CHECKING:
    from lingua_scheduler.flow.follow import Follow
    from lingua_scheduler.flow.session import Session


class InRoom(msgspec.Struct, frozen=True):
    """The room in which something was said, as it was then, and what its other languages do meanwhile."""

    code: str
    room_id: str
    src: str | None  # the language spoken; None: it may be one of several
    name: str | None = None  # what the speaker is called
    lead: bool = False  # others are told by this job what is being said
    others: tuple[Target, ...] = ()  # languages that wait for the words this job recognises


class Brief(msgspec.Struct, frozen=True):
    """What a node is told about a job, whichever attempt it is."""

    cut: Cut
    src_lang: str
    tgt_lang: str
    trace_id: str
    pipeline: Pipeline
    audio_format: AudioFormat
    sample_rate: int
    features: Features | None = None
    dialect: str | None = None
    streaming_asr: bool = True
    partial_interval_ms: int = 1000
    room: InRoom | None = None  # the result is for those in this room who want it; None: for the speaker
    text: str | None = None  # what was said, when that is known already

    @classmethod
    def of_cut(cls, cut: Cut, opening: Opening) -> Brief:
        """Word what a session agreed on for one of its cuts."""
        languages = opening.languages
        return cls(
            cut=cut,
            src_lang=languages.src,
            tgt_lang=languages.tgt,
            trace_id=f"{opening.trace_id}-{cut.index}",
            pipeline=opening.pipeline,
            audio_format=opening.audio_format,
            sample_rate=opening.sample_rate,
            features=opening.features,
            dialect=languages.dialect,
            streaming_asr=opening.streaming_asr,
            partial_interval_ms=opening.partial_interval_ms,
        )

    @classmethod
    def of_message(cls, message: Utterance, opening: Opening) -> Brief:
        """Word a whole utterance; what it leaves open is as the session agreed."""
        audio_format, rate = AudioFormat(message.audio_format), message.sample_rate
        streaming, interval_ms = message.enable_streaming_asr, message.partial_update_interval_ms
        cut = Cut(
            index=message.utterance_index,
            reason=CutReason.MANUAL if message.manual_cut else CutReason.SILENCE,
            audio=message.audio,
            duration_ms=round(duration_ms(audio_format, rate, message.audio)),
            turn_id=new_turn_id(),
            padding_ms=None,
        )
        return cls(
            cut=cut,
            src_lang=message.src_lang.lower(),
            tgt_lang=message.tgt_lang.lower(),
            trace_id=message.trace_id or f"{opening.trace_id}-{cut.index}",
            pipeline=message.pipeline.filled() if message.pipeline else opening.pipeline,
            audio_format=audio_format,
            sample_rate=rate,
            features=message.features or opening.features,
            dialect=message.dialect,
            streaming_asr=opening.streaming_asr if streaming is None else streaming,
            partial_interval_ms=interval_ms or opening.partial_interval_ms,
        )

    @property
    def stream(self) -> str:
        """Name those who wait for the result, in their log: a language, here or in a room."""
        room = self.room
        return self.tgt_lang if room is None else address(self.tgt_lang, room.code, room.room_id)

    @property
    def reads(self) -> bool:
        """Who wants this language has no need of a translation: the words are shown as they were said."""
        return self.room is not None and self.room.src == self.tgt_lang

    def languages(self, session: Languages) -> Languages:
        """Tell what may be spoken; in a room nobody but the listener decides what it is translated into."""
        spoken = session if session.src == self.src_lang else replace(session, src=self.src_lang)
        if self.room is None or not spoken.automatic:
            return spoken
        return replace(spoken, mode=None, lang_a=None, lang_b=None, auto_langs=spoken.spoken())

    def with_text(self, text: str, src_lang: str) -> Brief:
        """The same about words that are recognised."""
        pipeline = msgspec.structs.replace(self.pipeline, use_asr=False)
        return msgspec.structs.replace(self.with_audio(b""), text=text, src_lang=src_lang, pipeline=pipeline)

    def needs(self) -> Requirements:
        """Tell what its pipeline and its features ask of a node."""
        return _needs(self.pipeline, self.features, self.text is None)

    def with_audio(self, audio: bytes) -> Brief:
        """The same about other audio."""
        return msgspec.structs.replace(self, cut=msgspec.structs.replace(self.cut, audio=audio))


@lru_cache(maxsize=256)
def _needs(pipeline: Pipeline, features: Features | None, hears: bool) -> Requirements:  # noqa: FBT001 a key
    steps = Steps(**msgspec.structs.asdict(pipeline))
    needs = required(steps, msgspec.structs.asdict(features) if features else {})
    return needs if hears else replace(needs, services=(needs.services - {"asr"}) | {TEXT_JOBS})


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a new owner needs to go on with a job, beside its audio."""

    brief: Brief
    created_wall_ms: int

    @classmethod
    def of(cls, data: bytes) -> Record:
        """Read a record; CorruptValue when it is none of this version."""
        try:
            return _read(data)
        except msgspec.DecodeError as error:
            raise CorruptValue(f"a job cannot be read: {error}") from None


_read = msgspec.json.Decoder(Record).decode


class Stage(Enum):
    """Where the owner is with a job."""

    WAITING = auto()  # no attempt is out
    OUT = auto()  # an attempt is on a node
    ENDING = auto()  # its result is being written
    ENDED = auto()


@dataclass(eq=False, slots=True)
class Job:
    """The mutable side: attempts, deadlines, who was tried."""

    id: JobId
    session: Session
    brief: Brief
    pairs: tuple[Pair, ...]
    needs: Requirements
    created_at: float
    created_wall_ms: int
    pending_until: float
    stage: Stage = Stage.WAITING
    attempt: int = 0
    failovers: int = 0
    stored: bool = False
    unheard: bool = False  # a reservation was asked for and its answer never came
    accepted: bool = False  # the node of the current attempt has acknowledged it
    running: bool = False  # and works on it
    told_waiting: str = ""  # the code the client was last told while the job waited
    reservation: Reservation | None = None
    tried: set[NodeId] = field(default_factory=set)
    overtaken_on: set[NodeId] = field(default_factory=set)  # nodes that got a later utterance first
    dispatched_wall_ms: int | None = None
    alarm: Alarm | None = None
    stale_result: JobResult | None = None  # of an attempt that was given up; used when no other comes
    answered_by: NodeId | None = None
    ending: Logged | None = None  # what its client was told before its end is written
    afterthought: Callable[[], None] | None = None  # what its node added while its end was being written
    trail: Trail | None = None  # None: it is not traced
    follow: Follow | None = None  # other languages that wait for its words

    @property
    def names(self) -> dict[str, str]:
        """What every log line about it carries."""
        return {"session": self.session.id, "job": self.id, "trace_id": self.brief.trace_id}

    @property
    def index(self) -> int:
        """The utterance's number."""
        return self.brief.cut.index

    @property
    def ended(self) -> bool:
        """Nothing may change any more."""
        return self.stage is Stage.ENDED

    def on_node(self, node_id: NodeId) -> bool:
        """Its current attempt is out on this node."""
        return (
            self.stage is Stage.OUT and self.reservation is not None and self.reservation.node_id == node_id
        )

    def record(self) -> bytes:
        """What a new owner would need to go on with this job."""
        return msgspec.json.encode(
            Record(brief=self.brief.with_audio(b""), created_wall_ms=self.created_wall_ms)
        )

    def forget_work(self) -> None:
        """Let go of what only another attempt would need."""
        self.overtaken_on.clear()
        self.brief = self.brief.with_audio(b"")

    def disarm(self) -> None:
        """Call the running deadline off."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def assignment(self, reservation: Reservation, now: float) -> JobAssign:
        """Word the message for the node of one attempt."""
        brief, session = self.brief, self.session
        cut, languages = brief.cut, brief.languages(session.languages)
        context = session.delivery.context(self, now)
        return JobAssign(
            job_id=self.id,
            attempt_id=reservation.attempt,
            session_id=session.id,
            utterance_index=cut.index,
            src_lang=brief.src_lang,
            tgt_lang=brief.tgt_lang,
            dialect=brief.dialect,
            features=brief.features,
            pipeline=brief.pipeline,
            audio=cut.audio,
            audio_format=brief.audio_format.value,
            sample_rate=brief.sample_rate,
            mode=languages.mode,
            lang_a=languages.lang_a,
            lang_b=languages.lang_b,
            auto_langs=languages.auto_langs or None,
            enable_streaming_asr=brief.streaming_asr,
            partial_update_interval_ms=brief.partial_interval_ms,
            trace_id=brief.trace_id,
            group_id=context.group_id if context else None,
            part_index=context.part_index if context else None,
            context_text=context.context_text if context else None,
            padding_ms=cut.padding_ms,
            text=brief.text,
            traceparent=self.trail.traceparent if self.trail is not None else None,
            is_manual_cut=cut.reason in (CutReason.MANUAL, CutReason.CLOSE),
            is_timeout_triggered=cut.reason in (CutReason.SILENCE, CutReason.GAP),
            is_max_duration_triggered=cut.reason.continues_turn,
            is_pause_triggered=cut.reason is CutReason.GAP,
            turn_id=cut.turn_id,
        )
