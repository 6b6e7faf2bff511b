"""One recognition for several languages: jobs that wait for the words of another one.

They exist from the cut on, so that their utterance has its place in the order of each language. When the
words are known they become jobs about text. When there are none, they end as the first one did; and when the
first one failed, they become jobs about the audio. Who speaks the speaker's language is shown the words.
"""

from __future__ import annotations

from typing import Protocol

from lingua_scheduler.core.ordering import Delivered, Missing, MissingReason, Silent
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.flow.delivery import End
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.wire.node import JobResult

_NODE = "scheduler"  # what stands where a result names its node


class Start(Protocol):
    """Who makes waiting jobs go on."""

    def as_text(self, job: Job, text: str, src_lang: str) -> None:
        """Hand a job over that is about words; as one about its audio when no node takes words."""

    def as_audio(self, job: Job) -> None:
        """Hand a job over as if it had never waited."""


class Follow:
    """The jobs that wait for the words of one job; each goes on once."""

    def __init__(self, first: Job, followers: list[Job], start: Start) -> None:
        self._first = first
        self._translate = [job for job in followers if not job.brief.reads]
        self._read = [job for job in followers if job.brief.reads]
        self._start = start

    def heard(self, text: str, src_lang: str | None = None) -> None:
        """The words are known, before the first job has ended; in which language they are may not be."""
        spoken = self._first.brief.languages(self._first.session.languages).spoken()
        src_lang = spoken[0] if len(spoken) == 1 else src_lang
        if not text.strip() or src_lang not in spoken:
            return
        waiting, self._translate = self._translate, []
        for job in waiting:
            if not job.ended:
                self._start.as_text(job, text, src_lang)

    def answered(self, result: JobResult) -> None:
        """The first job has a result, which is about to be written."""
        said = (result.extra or {}).get("detected_src_lang")
        self.heard(result.text_asr or "", said.lower() if isinstance(said, str) else None)

    def ended(self, end: End) -> None:
        """The first job has ended: nobody waits any longer."""
        first, self._first.follow = self._first, None
        translate, self._translate = self._translate, []
        read, self._read = self._read, []
        if isinstance(end, Silent) or (isinstance(end, Missing) and end.reason is _SILENCE):
            for job in (*translate, *read):
                _conclude(job, end)
            return
        words = _words(end)
        if read and not words and translate:
            translate[0].follow = Follow(translate[0], read, self._start)
            read = []
        for job in translate:
            if not job.ended:
                self._start.as_audio(job)
        for job in read:
            _conclude(job, _shown(job, words) if words else Missing(MissingReason.JOB_FAILED))
        first.session.changed()


_SILENCE = MissingReason.SILENCE_DETECTED


def _words(end: End) -> str:
    if isinstance(end, Delivered) and isinstance(end.payload, Answer):
        return (end.payload.result.text_asr or "").strip()
    return ""


def _shown(job: Job, text: str) -> End:
    result = JobResult(
        job_id=job.id,
        attempt_id=1,
        node_id=_NODE,
        session_id=job.session.id,
        utterance_index=job.index,
        success=True,
        trace_id=job.brief.trace_id,
        text_asr=text,
    )
    return job.session.delivery.answer(job, result)


def _conclude(job: Job, end: End) -> None:
    """End a job that was never handed over."""
    if job.ended:
        return
    delivery = job.session.delivery
    job.stage = Stage.ENDED
    job.forget_work()
    job.session.jobs.pop(job.id, None)
    delivery.conclude(job, end, delivery.word(job, end))
