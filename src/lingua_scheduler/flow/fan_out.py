"""What is said in a room, into every language that others there want.

Into which languages is decided from the room as Redis knows it at the cut: one call. While Redis is away it
is decided from what was known last. What a session says goes through its lane in order, together with what it
does about rooms; outside of rooms there is no lane and no call.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from lingua_scheduler.core.model import JobId, Pair, SessionId, new_job_id
from lingua_scheduler.core.modules import TEXT_JOBS
from lingua_scheduler.core.rooms import Room, Speech, Target, plan, readers
from lingua_scheduler.flow.follow import Follow
from lingua_scheduler.flow.job import Brief, InRoom, Job
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.snapshot import Need, Snapshot
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.common import Pipeline

if TYPE_CHECKING:
    from lingua_scheduler.flow.session import Session


class Rooms(Protocol):
    """The rooms, as fan-out needs them."""

    async def speaking(self, session: Session) -> Room | None:
        """Give the room of a session that has said something; None when it is in none."""
        ...


class FanOut:
    """Makes the jobs of sessions that are in rooms."""

    def __init__(self, rooms: Rooms, snapshot: Snapshot, lanes: Lanes, metrics: Metrics) -> None:
        self._rooms = rooms
        self._snapshot = snapshot
        self._lanes = lanes
        self._metrics = metrics

    def busy(self, session_id: SessionId) -> bool:
        """Something the session did before is not decided yet."""
        return self._lanes.busy(session_id)

    def cut(self, session: Session, first: JobId, brief: Brief) -> None:
        """Make the jobs of an utterance, after those of what was said before; one of them has this id."""
        self._lanes.put(session.id, partial(self._cut, session, first, brief))

    async def _cut(self, session: Session, first: JobId, brief: Brief) -> None:
        room = await self._rooms.speaking(session)
        if session.ended:
            return
        session.decided()
        if room is None:
            session.begin(first, brief)
        else:
            self._spread(session, first, brief, room)
        session.changed()

    def _spread(self, session: Session, first: JobId, brief: Brief, room: Room) -> None:
        spoken = dataclasses.replace(session.languages, src=brief.src_lang)
        speech = Speech.of(session.id, spoken)
        fan = plan(room, speech, brief.tgt_lang)
        session.breadth = max(1, len(fan.targets))
        if not fan.targets:
            session.forgo(first)
            return
        if fan.targets[0].own:
            voice = brief.pipeline.use_tts and fan.targets[0].voice
            pipeline = replace(brief.pipeline, use_tts=voice)
            session.begin(first, replace(brief, pipeline=pipeline))
            return
        member = room.member(session.id)
        here = InRoom(room.code, room.room_id, speech.src, member.display_name if member else None)
        brief = replace(brief, room=here)
        self._begin(session, first, brief, fan.targets, reading=bool(readers(room, speech)))

    def _begin(
        self, session: Session, first: JobId, brief: Brief, targets: tuple[Target, ...], *, reading: bool
    ) -> None:
        """Let the job of one language recognise the speech; those that can wait for its words do."""
        lead = next((each for each in targets if self._served(session, brief, each)), targets[0])
        others = [each for each in targets if each is not lead]
        waiting = [each for each in others if self._takes_words(session, brief, each)]
        here = brief.room
        if reading and here is not None and here.src is not None:
            waiting.append(Target(here.src, voice=False))
        leading = replace(brief, room=here and replace(here, lead=True, others=tuple(waiting)))
        job = session.begin(first, _towards(leading, lead), launch=False)
        self.follow(
            job, [session.begin(new_job_id(), _towards(brief, each), launch=False) for each in waiting]
        )
        session.launch(job)
        for each in others:
            if each not in waiting:
                session.begin(new_job_id(), _towards(brief, each))

    def follow(self, job: Job, followers: list[Job]) -> None:
        """Let jobs wait for the words of another one."""
        if followers:
            job.follow = Follow(job, followers, self)

    def restore(self, session: Session, job: Job, known: set[str]) -> None:
        """Make the jobs anew that waited for one which an earlier owner has made; some may have gone on."""
        here = job.brief.room
        missing = [each for each in (here.others if here else ()) if each.lang not in known]
        if here is not None and missing:
            brief = replace(job.brief, room=replace(here, lead=False, others=()))
            self.follow(
                job, [session.begin(new_job_id(), _towards(brief, each), launch=False) for each in missing]
            )

    # How waiting jobs go on

    def as_text(self, job: Job, text: str, src_lang: str) -> None:
        """Hand a job over that is about words; as one about its audio when no node takes words."""
        target = Target(job.brief.tgt_lang, voice=job.brief.pipeline.use_tts)
        if self._takes_words(job.session, replace(job.brief, src_lang=src_lang), target):
            job.session.reword(job, job.brief.with_text(text, src_lang))
            self._metrics.room_text_jobs_total.inc()
        job.session.launch(job)

    def as_audio(self, job: Job) -> None:
        """Hand a job over as if it had never waited."""
        job.session.launch(job)

    def _served(self, session: Session, brief: Brief, target: Target) -> bool:
        return self._open(session, brief, target, {"asr"})

    def _takes_words(self, session: Session, brief: Brief, target: Target) -> bool:
        return self._open(session, brief, target, {TEXT_JOBS})

    def _open(self, session: Session, brief: Brief, target: Target, types: set[str]) -> bool:
        towards = _towards(brief, target)
        pairs: tuple[Pair, ...] = towards.languages(session.languages).pairs(target.lang)
        services = types | {"nmt"} | ({"tts"} if target.voice else set())
        return self._snapshot.open_for(Need(pairs, frozenset(services), session.opening.paired_with))


def _towards(brief: Brief, target: Target) -> Brief:
    steps: Pipeline = replace(brief.pipeline, use_asr=True, use_nmt=True, use_tts=target.voice)
    return replace(brief, tgt_lang=target.lang, pipeline=steps)
