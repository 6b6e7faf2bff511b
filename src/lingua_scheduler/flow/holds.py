"""Who wants one node to be given no new jobs: its operator, its instance, or both.

An order of the operator is for the node too: it is told. When an instance drains, the node is not: it is to
go on working, for another instance.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from lingua_scheduler.aio import Deadline
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.flow.assignments import Assignments
from lingua_scheduler.flow.membership import LinkHome, Membership
from lingua_scheduler.wire.node import NodeControl


class Hold(Enum):
    """Who holds a node back, as people read it."""

    OPERATOR = "drained by the operator"
    INSTANCE = "its instance drains"


class Holds:
    """What holds one connection's node back; nothing does at first."""

    def __init__(
        self, sink: Sink, home: LinkHome, member: Callable[[], Membership | None], work: Assignments
    ) -> None:
        self._sink = sink
        self._work = work
        self._clock = home.clock
        self._member = member
        self._holds: set[Hold] = set()
        self._overdue = Deadline(home.alarms, self._drain_over)
        self.cut_off = False  # the operator's deadline came before the node was done

    def __bool__(self) -> bool:
        """The node is given no new jobs."""
        return bool(self._holds)

    @property
    def by_operator(self) -> bool:
        """The operator has drained the node."""
        return Hold.OPERATOR in self._holds

    def drain(self, deadline_s: float) -> None:
        """Obey the operator: no new jobs, and those it has move on when the deadline comes."""
        self._sink.post(NodeControl(command="drain", reason=Hold.OPERATOR.value))
        self.hold(Hold.OPERATOR)
        self.cut_off = False
        self._overdue.clear()
        self._overdue.move(self._clock.now() + deadline_s)

    def resume(self) -> None:
        """Obey the operator: jobs again. The node is told in any case; it may remember an earlier order."""
        self._sink.post(NodeControl(command="resume"))
        self._overdue.clear()
        self.let_go(Hold.OPERATOR)

    def hold(self, why: Hold) -> None:
        """Give the node no new jobs; what it has may finish."""
        self._holds.add(why)
        member = self._member()
        if member is not None:
            member.drain(why.value)

    def let_go(self, why: Hold) -> None:
        """Take a hold back; the node stands as before once nobody holds it."""
        self._holds.discard(why)
        member = self._member()
        if member is not None and not self._holds:
            member.cancel_drain("drain taken back")

    def apply(self, member: Membership) -> None:
        """Hold a new registration back like the one before it."""
        for why in self._holds:
            member.drain(why.value)

    def clear(self) -> None:
        """Forget everything: the connection is gone."""
        self._overdue.clear()
        self._holds.clear()

    def _drain_over(self) -> None:
        member = self._member()
        if member is not None and self._work:
            self.cut_off = True
            self._work.clear()
            member.move_jobs()
