"""Sessions and jobs of this instance for people: ids, languages, states and counts, never what was said."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from lingua_scheduler.admin.autoscale import pair_label
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import Languages
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.session import Session

_TWO_WAY = "two_way_auto"
_MOST_LANGUAGES = 64
_MOST_PAIRS = 64
_SRC, _TGT, _PAIR, _SEPARATOR = "src", "tgt", "pair", "/"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as people see it."""

    session_id: str
    state: str  # speaking to a client, `away` without one, or `closing`
    tenant_id: str | None
    src_lang: str
    tgt_lang: str
    mode: str | None
    languages: list[str]  # that the speaker may use, when the node is to find out
    paired_node_id: str | None
    preferred_pool: int | None
    epoch: int
    utterances: int
    jobs_open: int
    resumable: bool


class SessionPage(msgspec.Struct, frozen=True):
    """Sessions in the order of their ids; `next` is the cursor of the page after, null on the last one."""

    total: int
    sessions: list[SessionRow]
    next: str | None


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as people see it."""

    job_id: str
    session_id: str
    utterance_index: int
    src_lang: str
    tgt_lang: str
    stage: str
    accepted: bool
    running: bool
    attempt: int
    failovers: int
    node_id: str | None
    instance_id: str | None  # that holds the node
    pool_id: int | None
    tried_node_ids: list[str]
    waiting_because: str | None
    audio_ms: int
    created_at_ms: int
    dispatched_at_ms: int | None
    age_ms: int


def session_page(sessions: Iterable[Session], limit: int, cursor: str) -> SessionPage:
    """Show some sessions, from the one after the cursor on."""
    known = list(sessions)
    after = heapq.nsmallest(
        limit + 1, (each for each in known if each.id > cursor), key=lambda session: session.id
    )
    shown = after[:limit]
    return SessionPage(
        total=len(known),
        sessions=[_session(each) for each in shown],
        next=shown[-1].id if len(after) > limit else None,
    )


def _session(session: Session) -> SessionRow:
    languages = session.languages
    return SessionRow(
        session_id=session.id,
        state="closing" if session.closing else "attached" if session.attached else "away",
        tenant_id=session.opening.tenant_id,
        src_lang=languages.src,
        tgt_lang=languages.tgt,
        mode=languages.mode,
        languages=list(languages.spoken()) if languages.automatic else [],
        paired_node_id=session.opening.paired_with,
        preferred_pool=session.preferred_pool,
        epoch=session.epoch,
        utterances=session.next_index,
        jobs_open=len(session.jobs),
        resumable=session.opening.resumes,
    )


def job_row(job: Job, clock: Clock) -> JobRow:
    """Show one job."""
    reservation, brief = job.reservation, job.brief
    return JobRow(
        job_id=job.id,
        session_id=job.session.id,
        utterance_index=job.index,
        src_lang=brief.src_lang,
        tgt_lang=brief.tgt_lang,
        stage=job.stage.name.lower(),
        accepted=job.accepted,
        running=job.running,
        attempt=job.attempt,
        failovers=job.failovers,
        node_id=reservation.node_id if reservation else job.answered_by,
        instance_id=reservation.owner if reservation else None,
        pool_id=reservation.pool if reservation else None,
        tried_node_ids=sorted(job.tried),
        waiting_because=job.told_waiting or None,
        audio_ms=brief.cut.duration_ms,
        created_at_ms=job.created_wall_ms,
        dispatched_at_ms=job.dispatched_wall_ms,
        age_ms=max(0, clock.wall_ms() - job.created_wall_ms),
    )


def language_about(asked: Mapping[Languages, int]) -> dict[str, int]:
    """Tell the other instances how often each language and pair is asked for; the most frequent only."""
    counted: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for each, sessions in asked.items():
        for use in _uses(each):
            counted[_SEPARATOR.join(use)] += sessions
        pairs[_SEPARATOR.join((_PAIR, pair_label(each.pairs(each.tgt))))] += sessions
    return dict([*counted.most_common(_MOST_LANGUAGES), *pairs.most_common(_MOST_PAIRS)])


def read_languages(about: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Read what an instance told: how often each language is spoken, and how often it is wanted."""
    found: dict[str, tuple[int, int]] = {}
    for name, count in about.items():
        side, separator, lang = name.partition(_SEPARATOR)
        spoken, wanted = found.get(lang, (0, 0))
        if separator and side == _SRC:
            found[lang] = (spoken + count, wanted)
        elif separator and side == _TGT:
            found[lang] = (spoken, wanted + count)
    return found


def read_pairs(about: dict[str, int]) -> dict[str, int]:
    """Read what an instance told: how many sessions ask for each pair, or for several at once."""
    start = _PAIR + _SEPARATOR
    return {name.removeprefix(start): count for name, count in about.items() if name.startswith(start)}


def _uses(languages: Languages) -> Iterable[tuple[str, str]]:
    if not languages.automatic:
        yield _SRC, languages.src
    yield _TGT, languages.tgt
    if languages.mode == _TWO_WAY:
        for lang in filter(None, (languages.lang_a, languages.lang_b)):
            yield _SRC, lang
            yield _TGT, lang
