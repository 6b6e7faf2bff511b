"""What a node's protocol asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.node.answers import Key
from lingua_scheduler.wire.node import JobAssign


@dataclass(frozen=True, slots=True)
class Begin:
    """Run the handler."""

    assign: JobAssign


@dataclass(frozen=True, slots=True)
class Abort:
    """Cancel the handler: nobody waits for its outcome."""

    key: Key


@dataclass(frozen=True, slots=True)
class Registered:
    """The scheduler knows the node."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The scheduler will never take this node as it is."""

    error: NodeRefused


@dataclass(frozen=True, slots=True)
class Stalled:
    """The scheduler does not answer: connect anew."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The operator wants the node to finish and go."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A node that leaves has nothing left to do or to tell."""


Event = Begin | Abort | Registered | Refused | Stalled | Leave | Settled
