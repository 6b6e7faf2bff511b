"""The configuration of the instances of a chaos run: everything short, so that little time shows much."""

from __future__ import annotations

PRESENCE_TTL_S = 3.0
PENDING_S = 8.0
ATTEMPT_S = 4.0
FAILOVERS = 3
LATE_S = ATTEMPT_S + 1.0
"""When a late node answers: its attempt has been given up."""

T_END_S = PENDING_S + (1 + FAILOVERS) * ATTEMPT_S + 5.0
"""The longest that an utterance may stay without its end when nothing is broken any more."""

RESERVATION_S = ATTEMPT_S + 2.0

_SOCKETS = {"ping_interval_s": "1.5", "silence_s": "4", "send_stall_s": "4", "close_timeout_s": "1"}

SETTINGS: dict[str, str] = {
    "node_health.require_gpu": "false",
    "node_health.heartbeat_timeout_s": "3",
    "nodes.resource_threshold": "100",
    "nodes.memory_threshold": "100",
    "job_timeout.pending_s": f"{PENDING_S:g}",
    "job_timeout.ack_s": "1",
    "job_timeout.base_s": "3",
    "job_timeout.min_s": "3",
    "job_timeout.max_s": f"{ATTEMPT_S:g}",
    "job_timeout.failover_max_attempts": f"{FAILOVERS}",
    "job_timeout.reservation_margin_s": "2",
    # A result that may come after its utterance was reported missing is a second end by intention.
    "results.late_window_ms": "0",
    "results.gap_timeout_ms": "20000",
    "session.close_drain_ms": "4000",
    "lives.session_lease_s": "24",
    "transcript.keep_s": "0",
    "placement.sweep_ms": "1000",
    "redis.command_timeout_s": "1.5",
    "redis.connect_timeout_s": "1.5",
    "company.presence_ttl_s": f"{PRESENCE_TTL_S:g}",
    "company.adoption_s": "5",
    "peers.look_ms": "300",
    "peers.settle_ms": "1000",
    "peers.retake_ms": "1000",
    "peers.dlq_max_deliveries": "20",
    **{f"server.clients.{name}": value for name, value in _SOCKETS.items()},
    **{f"server.nodes.{name}": value for name, value in _SOCKETS.items()},
}


def environment(**more: str) -> dict[str, str]:
    """Word the settings as environment variables; `more` are given by their dotted keys' `__` form."""
    named = {f"LINGUA_{key.upper().replace('.', '__')}": value for key, value in SETTINGS.items()}
    return {**named, **{f"LINGUA_{key.upper()}": value for key, value in more.items()}}
