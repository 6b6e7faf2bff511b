"""Jobs of other instances' sessions that nodes of this one work on, and who wants to hear of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from lingua_scheduler.core.model import InstanceId, JobId, NodeId, SessionId


@dataclass(frozen=True, slots=True)
class Errand:
    """One attempt that was handed to a node here on behalf of another instance."""

    job_id: JobId
    attempt: int
    session_id: SessionId
    node_id: NodeId
    node_epoch: int
    sender: InstanceId
    begun: float


class Errands:
    """Every errand that is under way, by job; one as old as a job can get is forgotten."""

    def __init__(self, *, keep_s: float) -> None:
        self._keep_s = keep_s
        self._errands: OrderedDict[JobId, Errand] = OrderedDict()
        self._by_node: dict[NodeId, set[JobId]] = {}

    def __len__(self) -> int:
        return len(self._errands)

    def add(self, errand: Errand) -> None:
        """Remember an errand; an older one for the same job is over."""
        self.done(errand.job_id)
        self._errands[errand.job_id] = errand
        self._by_node.setdefault(errand.node_id, set()).add(errand.job_id)
        while next(iter(self._errands.values())).begun < errand.begun - self._keep_s:
            self.done(next(iter(self._errands)))

    def get(self, job_id: str) -> Errand | None:
        """Find the errand of a job."""
        return self._errands.get(JobId(job_id))

    def done(self, job_id: str) -> Errand | None:
        """Forget an errand."""
        errand = self._errands.pop(JobId(job_id), None)
        if errand is not None:
            of_node = self._by_node[errand.node_id]
            of_node.discard(errand.job_id)
            if not of_node:
                del self._by_node[errand.node_id]
        return errand

    def lost(self, node_id: NodeId, epoch: int) -> list[Errand]:
        """Take away every errand of a registration that has ended."""
        on_node = [self._errands[job_id] for job_id in self._by_node.get(node_id, ())]
        gone = [errand for errand in on_node if errand.node_epoch == epoch]
        for errand in gone:
            self.done(errand.job_id)
        return gone
