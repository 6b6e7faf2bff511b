"""The spans of one job, from its cut until its end has left: the walk of one utterance, for people to see.

    utterance            from the cut until the answer leaves; failovers are its events
    ├── wait             until a node had room
    ├── placement        reserving the slot and writing the attempt
    ├── node             from the assignment to the result; its id travels with the job
    │   ├── hop          by letter to the instance that holds the node (flow/letters.py)
    │   └── job          what the node itself tells (node/)
    └── delivery         until the answer may leave, in its order

Another attempt has its own wait, placement and node, and names the node before it by a link. The span of the
utterance has an id that follows from the job's, so that a later owner of the session goes on under it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.company import Letter
from lingua_scheduler.core.ordering import Delivered, Missing, MissingReason, Outcome
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.tracing.context import Context, read_traceparent, span_of, trace_of
from lingua_scheduler.tracing.spans import Fact, Facts, Span, Timeline, Tracer
from lingua_scheduler.wire.node import JobAssign

if TYPE_CHECKING:
    from lingua_scheduler.flow.job import Job

T = TypeVar("T")

_RIGHT = (MissingReason.SILENCE_DETECTED, MissingReason.NO_TEXT)  # there was nothing to translate


class Trail:
    """Follows one job; there is none when its trace is not recorded."""

    __slots__ = ("_answered_ns", "_before", "_job", "_node", "_root", "_time", "_tracer", "_waits_ns")

    def __init__(self, tracer: Tracer, job: Job, place: tuple[Context, Context | None], clock: Clock) -> None:
        self._tracer = tracer
        self._job = job
        self._time = Timeline(clock)
        self._waits_ns = began_ns = self._time.at(job.created_at)
        self._node: Span | None = None  # the attempt that is out
        self._before: Context | None = None  # the node of the attempt before
        self._answered_ns: int | None = None
        brief = job.brief
        own, parent = place
        self._root = tracer.root(
            own,
            parent,
            "utterance",
            began_ns,
            {
                "trace_id": brief.trace_id,
                "session_id": job.session.id,
                "job_id": job.id,
                "utterance_index": job.index,
                "src_lang": brief.src_lang,
                "tgt_lang": brief.tgt_lang,
                "cut": brief.cut.reason.value,
                "audio_ms": brief.cut.duration_ms,
                "in_room": brief.room is not None,
            },
        )

    @classmethod
    def of(cls, tracer: Tracer, job: Job, clock: Clock) -> Trail | None:
        """Begin to follow a job; None when its trace is not recorded."""
        trace_id, parent = _trace(job)
        if not tracer.follow_clients:
            parent = None
        if not tracer.samples(trace_id, parent):
            return None
        return cls(tracer, job, (Context(trace_id, span_of(job.id)), parent), clock)

    @property
    def traceparent(self) -> str | None:
        """What the node of the current attempt is told; None while no attempt is out."""
        return self._node.context.traceparent if self._node is not None else None

    def waits(self, code: str) -> None:
        """No node can take the job now."""
        self._root.event("waiting", self._time.now(), {"code": code})

    def placed(self, reservation: Reservation, began: float, now: float) -> None:
        """A slot is reserved, asked for when it `began`: the job is handed to its node now."""
        began_ns, now_ns = self._time.at(began), self._time.at(now)
        of, job = self._root.context, self._job
        wait = self._tracer.child(of, "wait", self._waits_ns, {"attempt": reservation.attempt})
        wait.end(began_ns)
        facts: Facts = {
            "node_id": reservation.node_id,
            "attempt": reservation.attempt,
            "pool": reservation.pool,
            "pair": " ".join(map(str, job.pairs)),
            "instance": reservation.owner,
        }
        placement = self._tracer.child(of, "placement", began_ns, facts)
        self._node = self._tracer.child(of, "node", now_ns, facts, kind="client")
        if self._before is not None:
            placement.links = self._node.links = (self._before,)
        placement.end(now_ns)

    def step(self, name: str) -> None:
        """The node says how far it is."""
        if self._node is not None:
            self._node.event(name, self._time.now())

    def given_up(self, why: str, code: str) -> None:
        """The attempt has failed, or its node was never reached; another one may follow."""
        node, self._node = self._node, None
        self._waits_ns = now_ns = self._time.now()
        if node is not None:
            node.end(now_ns, {"why": why}, error=code)
            self._before = node.context
            facts: Facts = {
                "why": why,
                "code": code,
                "attempt": self._job.attempt,
                "node_id": node.facts["node_id"],
            }
            self._root.event("failover", now_ns, facts)

    def answered(self, outcome: str, code: str = "") -> None:
        """The current attempt's node is done with the job."""
        self._answered_ns = now_ns = self._time.now()
        node, self._node = self._node, None
        if node is not None:
            node.end(now_ns, {"outcome": outcome}, error=code)

    def left(self, end: Outcome[T]) -> None:
        """The utterance's end leaves for its client, or its room, in its order."""
        now_ns = self._time.now()
        if self._answered_ns is not None:
            delivery = self._tracer.child(self._root.context, "delivery", self._answered_ns)
            delivery.end(now_ns)
        facts: dict[str, Fact] = {"attempts": self._job.attempt, "failovers": self._job.failovers}
        if isinstance(end, Missing):
            error = "" if end.reason in _RIGHT else end.reason.value.upper()
            facts |= {"outcome": "missing", "reason": end.reason.value}
            self._root.end(now_ns, facts, error=error)
        else:
            facts["outcome"] = "translation" if isinstance(end, Delivered) else "no_text"
            self._root.end(now_ns, facts)

    def abandoned(self) -> None:
        """The session has ended: nobody waits for the answer."""
        now_ns = self._time.now()
        if self._node is not None:
            self._node.end(now_ns, error="SESSION_CLOSED")
        self._root.end(now_ns, {"outcome": "abandoned", "attempts": self._job.attempt})


def tell_hop(tracer: Tracer, letter: Letter, assign: JobAssign, clock: Clock) -> None:
    """A job of another instance's session has come by letter, to a node that is connected here."""
    parent = read_traceparent(assign.traceparent)
    if parent is not None:
        time = Timeline(clock)
        sent_ns = time.at(clock.now() - letter.age_ms / 1000)
        hop = tracer.child(parent, "hop", sent_ns, {"sent_by": letter.source, "attempt": assign.attempt_id})
        hop.end(time.now())


def _trace(job: Job) -> tuple[str, Context | None]:
    """Tell which trace a job belongs to, and the client's span in it."""
    trace_id, opening = job.brief.trace_id, job.session.opening
    if trace_id != f"{opening.trace_id}-{job.index}":  # the client has named one for this utterance
        return trace_of(trace_id), None
    parent = read_traceparent(opening.traceparent)
    return (parent.trace_id if parent else trace_of(opening.trace_id)), parent
