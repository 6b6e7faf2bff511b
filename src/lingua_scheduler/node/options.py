"""How a node keeps its link to the scheduler, and what it remembers for it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lingua_scheduler.secret import Secret

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a node keeps its link to the scheduler."""

    token: Secret = Secret("")
    """Key to show to the scheduler; empty: none."""
    heartbeat_s: _Seconds = 15.0
    """Time between two heartbeats; the scheduler is told, and gives up after three missing ones."""
    ping_s: _Seconds = 20.0
    """Time between two pings; a connection that answers none is taken for dead."""
    connect_timeout_s: _Seconds = 10.0
    """Time for a connection to be made."""
    registration_timeout_s: _Seconds = 10.0
    """Time for the scheduler to answer a registration; then the node connects anew."""
    reconnect_min_s: _Seconds = 0.5
    """First pause before connecting again; it doubles with every failure."""
    reconnect_max_s: _Seconds = 30.0
    """Longest pause before connecting again."""
    handler_timeout_s: _Seconds = 120.0
    """A handler that takes longer is cancelled, and its job reported as failed."""
    drain_s: _Seconds = 30.0
    """Time for running jobs when the node is asked to leave."""
    kept_results: _Count = 64
    """Most finished results remembered, to be sent again after a lost connection."""
    kept_results_bytes: _Count = 16 * 2**20
    """Most bytes of finished results remembered."""
    kept_results_s: _Seconds = 60.0
    """How long finished results are remembered; nobody waits for older ones."""
    doubtful_s: _Seconds = 2.0
    """Results sent this shortly before a connection was lost are sent again."""
    handle_signals: bool = True
    """Drain on SIGTERM and SIGINT, stop at once on a second one; switch off inside another program."""

    def __post_init__(self) -> None:
        if self.reconnect_max_s < self.reconnect_min_s:
            raise ValueError("reconnect_max_s must not be smaller than reconnect_min_s")
