"""A session that another instance had, as this one finds it in Redis."""

from __future__ import annotations

from lingua_scheduler.core.model import PoolId, SessionId, TurnId
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.core.result_log import ResultLog
from lingua_scheduler.core.stored import Logged, StoredJob, StoredSession
from lingua_scheduler.errors import CorruptValue
from lingua_scheduler.flow.answer import Place
from lingua_scheduler.flow.intake import Progress
from lingua_scheduler.flow.job import Job, Record, Stage
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.surroundings import Surroundings
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.codec import encode

_log = get_logger(__name__)

_FURTHEST = 1000  # no client can have got so many ends that are not written


def revive(
    session_id: SessionId, stored: StoredSession, around: Surroundings, *, received: int
) -> tuple[Session, list[Job]]:
    """Make the session and its open jobs, which are still to be handed over; CorruptValue when it is none.

    `received` is the index up to which the client has the ends of its utterances.
    """
    opening = Opening.of(stored.fields.get("opening", ""))
    if received > stored.next_index + _FURTHEST:
        received = -1
    records = _records(stored)
    log = ResultLog(around.rules.resume, stored.log, received=received)
    session = Session(
        session_id,
        opening,
        around,
        progress=Progress(
            next_index=max(stored.next_index, received + 1),
            last_seq=stored.last_seq,
            turn_id=_open_turn(records, stored.next_index),
        ),
        log=log,
    )
    session.epoch = stored.epoch
    pool = stored.fields.get("preferred_pool", "")
    session.leaning.pool = PoolId(int(pool)) if pool.isdigit() else None
    session.room = stored.fields.get("room") or None
    jobs = [_job(session, stored_job, record) for stored_job, record in records]
    unreadable = [(job.index, job.tgt_lang) for job in stored.jobs if _record(job) is None]
    around.metrics.store_corrupt_value_total.inc(len(unreadable))
    for index, tgt_lang in (*stored.lost, *unreadable):
        if index > received:
            trace_id = f"{opening.trace_id}-{index}"
            _log.warning("utterance_lost", session=session_id, index=index, trace_id=trace_id)
            missing = Place(session_id, index, tgt_lang, trace_id).missing(
                MissingReason.JOB_FAILED, around.clock.wall_ms()
            )
            around.metrics.missing_results_total.inc(MissingReason.JOB_FAILED.value)
            log.keep(Logged(index, tgt_lang, encode(missing)))
    session.delivery.take_up(jobs, log.entries(), received)
    for job in jobs:
        ended = {logged.lang for logged in stored.log if logged.index == job.index}
        open_ = {other.brief.tgt_lang for other in jobs if other.index == job.index}
        around.fan_out.restore(session, job, ended | open_)
    return session, jobs


def _records(stored: StoredSession) -> list[tuple[StoredJob, Record]]:
    found = [(job, _record(job)) for job in stored.jobs]
    return [(job, record) for job, record in found if record is not None]


def _record(job: StoredJob) -> Record | None:
    try:
        return Record.of(job.record)
    except CorruptValue as error:
        _log.warning("job_unreadable", job=job.job_id, index=job.index, reason=str(error))
        return None


def _open_turn(records: list[tuple[StoredJob, Record]], next_index: int) -> TurnId | None:
    """Name the turn that goes on: its pieces are still on a node, which waits for the last one."""
    last = records[-1][1].brief.cut if records else None
    if last is None or not last.reason.continues_turn or last.index != next_index - 1:
        return None
    return last.turn_id


def _job(session: Session, stored: StoredJob, record: Record) -> Job:
    brief = record.brief.with_audio(stored.audio)
    job = session.job(stored.job_id, brief, created_wall_ms=record.created_wall_ms)
    job.stored = True
    job.attempt = stored.attempt
    job.failovers = max(0, stored.attempt - 1)
    if stored.reservation is not None:
        job.reservation = stored.reservation
        job.stage = Stage.OUT
        session.leaning.placed(job)
    return job
