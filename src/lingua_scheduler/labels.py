"""The words that labels of metrics may take, and the bounds of histograms."""

from __future__ import annotations

ANSWER_BUCKETS_S = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0)
STAGE_BUCKETS_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

CUT_REASONS = ("manual", "silence", "gap", "max_duration", "max_length", "close")
EXCLUSIONS = (
    "no_nodes",
    "offline",
    "status_not_ready",
    "not_in_public_pool",
    "gpu_unavailable",
    "model_not_available",
    "capacity_exceeded",
    "resource_threshold_exceeded",
    "lang_pair_unsupported",
)
MISSING_REASONS = ("unknown", "not_found", "checksum_mismatch", "load_failed", "timeout", "oom")
PATHS = ("placement", "read_model", "request")
"""Sections whose slowness is counted and logged."""
LOCKS = ("presence", "room_join")
"""What somebody may have to wait for because another one has it."""
