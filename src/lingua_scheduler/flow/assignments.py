"""What one node was given and has not answered, whichever instance's session it is for.

The owner of a session may change while its job is out; the connection that the job went through does not.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lingua_scheduler.wire.node import JobAssign, JobCancel, JobResult, ModelNotAvailable

_FORGOTTEN_S = 600.0  # older than any job can get


@dataclass(frozen=True, slots=True)
class _Assignment:
    attempt: int
    session_id: str
    index: int
    given_at: float


class Assignments:
    """The attempts that are out on one connection."""

    def __init__(self) -> None:
        self._out: OrderedDict[str, _Assignment] = OrderedDict()  # by job, oldest first

    def __len__(self) -> int:
        """Count the attempts that may still be answered."""
        return len(self._out)

    def given(self, message: JobAssign, now: float) -> None:
        """A job went to the node."""
        self._out.pop(message.job_id, None)
        self._out[message.job_id] = _Assignment(
            message.attempt_id, message.session_id, message.utterance_index, now
        )
        while next(iter(self._out.values())).given_at < now - _FORGOTTEN_S:
            self._out.popitem(last=False)

    def answered(self, message: JobResult | ModelNotAvailable, *, in_order: bool) -> None:
        """The node is done with a job; one that works in order is done with what came before it, too."""
        self._out.pop(message.job_id, None)
        if not in_order or not isinstance(message, JobResult):
            return
        for job_id, assignment in list(self._out.items()):
            if assignment.session_id == message.session_id and assignment.index < message.utterance_index:
                del self._out[job_id]

    def cancelled(self, message: JobCancel) -> None:
        """The node was asked to stop."""
        assignment = self._out.get(message.job_id)
        if assignment is not None and assignment.attempt == message.attempt_id:
            del self._out[message.job_id]

    def clear(self) -> None:
        """Nothing is expected of the node any more."""
        self._out.clear()
