"""A node's side of `/ws/node` without the socket: messages and time in, messages and events out.

The shell in `node.py` moves the bytes, runs the handlers and tells this object what happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.log import get_logger
from lingua_scheduler.node.answers import Answers, Key
from lingua_scheduler.node.backoff import Backoff
from lingua_scheduler.node.events import Abort, Begin, Event, Leave, Refused, Registered, Settled, Stalled
from lingua_scheduler.node.job import FAILED, OVERLOADED, JobFailed, Translation
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.node.wording import (
    Timing,
    ack_of,
    fitting_result,
    full,
    heartbeat_of,
    partial_of,
    started_of,
)
from lingua_scheduler.node.workload import Admission, Work, Workload
from lingua_scheduler.wire.common import ErrorMessage, plain_code
from lingua_scheduler.wire.machine import HeldJob
from lingua_scheduler.wire.node import (
    FromNode,
    JobAssign,
    JobCancel,
    JobResult,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    ToNode,
)

_log = get_logger(__name__)

_NOT_REGISTERED = "NODE_UNAVAILABLE"
_TRY_AGAIN = frozenset({_NOT_REGISTERED, "SCHEDULER_DEPENDENCY_DOWN", "INTERNAL_ERROR", "RATE_LIMITED"})
_TAKEN_ID = "NODE_ID_CONFLICT"
_DRAIN_ORDERS = {"drain": True, "resume": False}


class LinkState(Enum):
    """How far a connection has come."""

    CLOSED = auto()
    REGISTERING = auto()
    LIVE = auto()


class NodeProtocol:
    """The state of one node over any number of connections."""

    def __init__(
        self, register: NodeRegister, options: LinkOptions, *, clock: Clock, usage: Callable[[], Usage]
    ) -> None:
        self._register = register
        self._options = options
        self._clock = clock
        self._usage = usage
        self._outbox: deque[FromNode] = deque()
        self._answers = Answers(options)
        self._retry = Backoff(options.reconnect_min_s, options.reconnect_max_s)
        self._beat_at: float | None = None
        self._register_at: float | None = None
        self._answer_by: float | None = None
        self._known = False  # has been registered before
        self.work = Workload(register.max_concurrent_jobs or 1)
        self.state = LinkState.CLOSED
        self.node_id = register.node_id
        self.draining = False  # takes no new jobs
        self.leaving = False  # and ends when those it has are done

    # The connection

    def opened(self) -> None:
        """There is a new connection: register first."""
        self._outbox.clear()
        self._queue_register()

    def lost(self) -> None:
        """The connection is gone; jobs go on, and what may not have arrived will be sent again."""
        self.state = LinkState.CLOSED
        self._outbox.clear()
        self._answers.lost(self._clock.now())
        self._beat_at = self._register_at = self._answer_by = None

    def next_message(self) -> FromNode | None:
        """Give what must be sent next; tell `sent` once that is done."""
        return self._outbox.popleft() if self._outbox else None

    def sent(self, message: FromNode) -> None:
        """A message was written to the connection."""
        if isinstance(message, JobResult):
            self._answers.sent(message, self._clock.now())

    def receive(self, message: ToNode) -> list[Event]:
        """Take one message of the scheduler."""
        match message:
            case NodeRegisterAck():
                return self._registered(message)
            case JobAssign():
                return self._assigned(message)
            case JobCancel():
                return [Abort(work.key) for work in self.work.cancel(message)]
            case ErrorMessage():
                return self._told_error(message)
            case NodeControl():
                return self._ordered(message)
            case _:
                return []

    # Time

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        wanted = self.work.wanted()
        moments = [self._beat_at, self._register_at, self._answer_by]
        moments += [work.expires_at for work in wanted]
        if self.state is LinkState.LIVE:
            moments += [work.partial_due for work in wanted if work.partial is not None]
        return min((moment for moment in moments if moment is not None), default=None)

    def tick(self) -> list[Event]:
        """Do what time asks for."""
        now = self._clock.now()
        if self._answer_by is not None and self._answer_by <= now:
            self._answer_by = None
            return [Stalled()]
        if self._register_at is not None and self._register_at <= now:
            self._queue_register()
        if self._beat_at is not None and self._beat_at <= now:
            self._beat()
        for work in self.work.wanted():
            if work.partial is not None and work.partial_due <= now:
                self._tell_partial(work)
        if self.leaving and self.settled:
            return [Settled()]
        return [self._expire(work) for work in self.work.wanted() if work.expires_at <= now]

    # The work

    def started(self, key: Key) -> None:
        """A handler has begun."""
        work = self.work.get(key)
        if work is not None and self.node_id is not None:
            self._post(started_of(work.assign, self.node_id))

    def partial(self, key: Key, text: str, *, final: bool) -> None:
        """A handler understood something so far."""
        work = self.work.get(key)
        if work is None or work.assign.enable_streaming_asr is False:
            return
        work.partial = (text, final)
        if final or work.partial_due <= self._clock.now():
            self._tell_partial(work)

    def finished(self, key: Key, outcome: Translation | JobFailed) -> None:
        """A handler has ended; nobody hears of it when the job was cancelled meanwhile."""
        work = self.work.ended(key)
        if work is not None:
            self._answer(work, outcome)

    def drain(self, *, draining: bool = True) -> None:
        """Take no new jobs, or take them again; the scheduler is told at once."""
        if draining != self.draining:
            self.draining = draining
            if self.state is LinkState.LIVE:
                self._beat()

    def leave(self) -> None:
        """Take no new jobs; `tick` says when nothing is left."""
        self.leaving = True
        self.drain()

    @property
    def settled(self) -> bool:
        """Nothing is being worked on, and nothing waits to be sent."""
        return not len(self.work) and not self._outbox and not self._answers.unsent(self._clock.now())

    # Inside

    def _post(self, message: FromNode) -> None:
        if self.state is LinkState.LIVE:
            self._outbox.append(message)

    def _queue_register(self) -> None:
        now = self._clock.now()
        held = [work.key for work in self.work.wanted()]
        held += [(result.job_id, result.attempt_id) for result in self._answers.unsent(now)]
        self.state = LinkState.REGISTERING
        self._register_at, self._beat_at = None, None
        self._answer_by = now + self._options.registration_timeout_s
        jobs = tuple(HeldJob(job_id=job_id, attempt_id=attempt) for job_id, attempt in held)
        message = msgspec.structs.replace(self._register, node_id=self.node_id, held_jobs=jobs or None)
        self._outbox.append(message)

    def _registered(self, message: NodeRegisterAck) -> list[Event]:
        self.node_id = message.node_id
        self.state, self._known = LinkState.LIVE, True
        self._register_at = self._answer_by = None
        self._retry.reset()
        self._beat()
        for result in self._answers.unsent(self._clock.now()):
            self._post(msgspec.structs.replace(result, node_id=message.node_id))
        return [Registered()]

    def _told_error(self, message: ErrorMessage) -> list[Event]:
        _log.warning("scheduler_error", code=plain_code(message.code), node=self.node_id)
        if self.state is LinkState.LIVE and message.code != _NOT_REGISTERED:
            return []
        mine = message.code == _TAKEN_ID and self._known  # by a connection that the scheduler holds for alive
        if message.code in _TRY_AGAIN or mine:
            pause_s = max(self._retry.pause_s(), (message.retry_after_ms or 0) / 1000)
            self.state = LinkState.REGISTERING
            self._beat_at = self._answer_by = None
            self._register_at = self._clock.now() + pause_s
            return []
        return [Refused(NodeRefused(message.code, message.message, details=message.details))]

    def _ordered(self, message: NodeControl) -> list[Event]:
        _log.info("scheduler_order", command=message.command, node=self.node_id)
        if message.command == "shutdown":
            return [Leave()]
        if message.command in _DRAIN_ORDERS:
            self.drain(draining=_DRAIN_ORDERS[message.command])
        return []

    def _assigned(self, assign: JobAssign) -> list[Event]:
        if self.node_id is None:
            return []
        finished = self._answers.find((assign.job_id, assign.attempt_id))
        if finished is not None:
            self._post(finished)
            return []
        if self.draining and self.work.get((assign.job_id, assign.attempt_id)) is None:
            self._refuse(assign, "the node is leaving")
            return []
        verdict, given_up = self.work.admit(assign, self._clock.now(), self._options.handler_timeout_s)
        if verdict is Admission.FULL:
            self._refuse(assign, f"the node works on {len(self.work)} jobs and takes no more")
        elif verdict is not Admission.STALE:
            self._post(ack_of(assign, self.node_id))
        begin: list[Event] = [Begin(assign)] if verdict is Admission.TAKEN else []
        return [*(Abort(work.key) for work in given_up), *begin]

    def _refuse(self, assign: JobAssign, why: str) -> None:
        now = self._clock.now()
        work = Work(assign, now, now)
        self._post(self._result(work, JobFailed(OVERLOADED, why)))

    def _answer(self, work: Work, outcome: Translation | JobFailed) -> None:
        result = self._result(work, outcome)
        self._answers.keep(result, self._clock.now())
        self._post(result)

    def _result(self, work: Work, outcome: Translation | JobFailed) -> JobResult:
        timing = Timing(round((self._clock.now() - work.began_at) * 1000), self._clock.wall_ms())
        result, fits = fitting_result(work.assign, outcome, self.node_id or "", timing)
        if not fits:
            _log.error("result_unfit", job=work.assign.job_id, trace_id=work.assign.trace_id)
        return result

    def _expire(self, work: Work) -> Event:
        work.wanted = False
        self._answer(work, JobFailed(FAILED, "the node did not finish in time"))
        return Abort(work.key)

    def _tell_partial(self, work: Work) -> None:
        if work.partial is None or self.node_id is None:
            return
        (text, final), work.partial = work.partial, None
        work.partial_at = self._clock.now()
        self._post(partial_of(work.assign, self.node_id, text, final=final))

    def _beat(self) -> None:
        self._beat_at = self._clock.now() + self._options.heartbeat_s
        usage = self._usage()
        if self.node_id is None or any(isinstance(message, NodeHeartbeat) for message in self._outbox):
            return
        running, now_ms = len(self.work), self._clock.wall_ms()
        beat = heartbeat_of(self._register, self.node_id, usage, running_jobs=running, now_ms=now_ms)
        self._post(full(beat) if self.draining else beat)
