"""From what was seen of a run to its figures: rates, latencies, costs and counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from lingua_scheduler.bench import plan
from lingua_scheduler.bench.driver import Outcome, Sample
from lingua_scheduler.bench.latency import Joined, Times, Window, joined
from lingua_scheduler.bench.probe import lag_quantile_s
from lingua_scheduler.bench.quantile import quantile
from lingua_scheduler.bench.report import Better, Curve, Figure, Report
from lingua_scheduler.bench.verdict import checked

LATE_MS = 20.0
"""A generator that sends later than this at p99 measures itself."""
FOREIGN_LOAD = 0.1
"""What others may use of each processor during a run."""

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_PARTS = {
    "cut -> assign": "assign_ms",
    "result -> client": "back_ms",
    "added": "added_ms",
    "whole": "whole_ms",
}
_OF_UTTERANCES = ("job_", "node_reserve", "node_release", "transcript_", "room_speak", "room_read")
_OF_SESSIONS = ("session_", "room_")
_OF_NOBODY = ("instance_", "node_", "inbox_", "auth_")  # heartbeats, looks and letters
_RESULTS, _ROOM_RESULTS = "scheduler_translation_results_total", "scheduler_room_results_total"
_CURVE_POINTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999)
_SATURATED = 0.95


class _Figures(dict[str, Figure]):
    def put(self, name: str, value: float, unit: str, better: Better = "") -> None:
        self[name] = Figure.one(value, unit, better)

    def lag(self, name: str, lag: dict[str, float], share: float) -> None:
        """Put a quantile of a histogram; above its last bound only that bound is known."""
        value_s = lag_quantile_s(lag, share)
        known_s = max((float(bound) for bound in lag if bound != "+Inf"), default=0.0)
        beyond = math.isinf(value_s)
        self[name] = Figure.one(min(value_s, known_s) * 1000, "ms", "less", beyond=beyond)

    def quantiles(self, name: str, values_ms: Sequence[float]) -> None:
        for word, share in _SHARES.items() if values_ms else ():
            self.put(f"{name} {word}", quantile(values_ms, share), "ms", "less")


def reported(name: str, outcome: Outcome) -> Report:
    """Make the report of one run."""
    profile = outcome.profile
    window = Window(outcome.begun_s, outcome.begun_s + profile.warmup_s, outcome.begun_s + profile.end_s)
    found = joined(outcome.spoken, outcome.worked, window)
    figures = _Figures()
    _put_speed(figures, outcome, found)
    _put_costs(figures, outcome, found)
    _put_counts(figures, outcome)
    _put_distances(figures, outcome)
    _put_storm(figures, outcome, found)
    _put_generator(figures, outcome)
    return Report(
        name=name,
        profile=profile,
        machine=outcome.machine,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=dict(figures),
        missing=dict(found.missing),
        refused=dict(Counter(each.why for each in outcome.spoken.refusals)),
        scripts=_scripts_per_job(outcome),
        void=tuple(checked(outcome.spoken, outcome.worked, outcome.left)),
        doubts=tuple(_doubts(figures, outcome)),
        curves=_curves(outcome, found),
    )


def _put_speed(figures: _Figures, outcome: Outcome, found: Joined) -> None:
    if found.said:
        figures.put("utterances answered", found.answered / outcome.profile.duration_s, "/s", "more")
        figures.put("answered share", found.answered / found.said, "", "more")
        figures.put("held for an earlier one", found.held / max(1, len(found.times)), "")
    for name, part in _PARTS.items():
        figures.quantiles(name, [getattr(each, part) for each in found.times])
    figures.quantiles("refusal", [each.after_s * 1000 for each in outcome.spoken.refusals])


def _put_costs(figures: _Figures, outcome: Outcome, found: Joined) -> None:
    """Give what load costs: what the instances and Redis did with nodes alone is taken off."""
    window, background = outcome.window, outcome.background
    frames = window.metrics.get("scheduler_audio_frames_total", 0.0)
    longer = window.at_s / background.at_s
    own_us = window.cpu_us["instances"] - background.cpu_us["instances"] * longer
    figures.put("instance cpu, of one core", window.cpu_us["instances"] / window.at_s / 1e6, "")
    figures.put("background cpu", background.cpu_us["instances"] / background.at_s / 1000, "ms/s", "less")
    figures.put("background redis cpu", background.redis_cpu_us / background.at_s / 1000, "ms/s", "less")
    if found.said:
        redis_us = max(0.0, window.redis_cpu_us - background.redis_cpu_us * longer) / found.said
        script_us = max(0.0, window.redis_script_us - background.redis_script_us * longer) / found.said
        figures.put("cpu for an utterance with its frames", own_us / found.said, "us", "less")
        figures.put("redis cpu for an utterance", redis_us, "us", "less")
        figures.put("redis scripts' time for an utterance", script_us, "us", "less")
        figures.put("the same in nops", script_us / outcome.nop_us if outcome.nop_us else 0.0, "nops", "less")
    elif frames:
        figures.put("cpu for a frame", own_us / frames, "us", "less")
    silent = outcome.profile.sessions.idle
    if silent and not frames:
        figures.put("cpu for a silent session", own_us / silent / window.at_s, "us/s", "less")
    if outcome.spoken.present:
        figures.put("memory for a session", outcome.opening.rss_kb / outcome.spoken.present, "KiB", "less")
    figures.put("frames", frames / window.at_s, "/s")
    figures.lag("loop lag p99", window.lag, 0.99)


def _put_counts(figures: _Figures, outcome: Outcome) -> None:
    """Count over the whole run, so that nothing lies on an edge."""
    whole, jobs = outcome.whole, len(outcome.worked.jobs)
    frames = whole.metrics.get("scheduler_audio_frames_total", 0.0)
    if jobs:
        figures.put("scripts for a job", sum(_scripts_per_job(outcome).values()), "", "less")
    if frames:
        known = (*_OF_UTTERANCES, *_OF_SESSIONS, *_OF_NOBODY)
        strange = sum(calls for name, calls in whole.scripts.items() if not name.startswith(known))
        early = (
            outcome.window if not outcome.window.metrics.get("scheduler_web_task_finalized_total") else None
        )
        if early is not None:  # nothing was cut in the window: whatever utterances cost was for frames
            strange += sum(calls for name, calls in early.scripts.items() if name.startswith(_OF_UTTERANCES))
        figures.put("redis calls for a frame", strange / frames, "", "less")
    in_rooms = whole.metrics.get(_ROOM_RESULTS, 0.0)
    alone = whole.metrics.get(_RESULTS, 0.0) - in_rooms
    for word, ends, encodings in (("result", alone, "result"), ("room's result", in_rooms, "room")):
        made = whole.metrics.get(f"scheduler_{encodings}_encodings_total", 0.0)
        if ends > 0:
            figures.put(f"encodings for a {word}", made / ends, "", "less")


def _put_distances(figures: _Figures, outcome: Outcome) -> None:
    """Tell how far Redis was, and how much work went to nodes of another instance than the speaker's."""
    profile = outcome.profile
    figures.put("redis round trip", outcome.round_trip_ms, "ms")
    if profile.system.instances == 1 or not outcome.worked.jobs:
        return
    of_client = {each.number: each.instance for each in plan.clients(profile)}
    at = {each.session_id: of_client[each.number] for each in outcome.spoken.conversations}
    of_node = {each.number: each.instance for each in plan.nodes(profile)}
    away = sum(at.get(job.session_id) != of_node[job.node] for job in outcome.worked.jobs)
    figures.put("jobs at another instance's node", away / len(outcome.worked.jobs), "")


def _put_storm(figures: _Figures, outcome: Outcome, found: Joined) -> None:
    returns, storm = outcome.spoken.returns, outcome.profile.storm
    if not returns:
        return
    back_s = [each.after_s for each in returns]
    figures.put("back after the storm, half", quantile(back_s, 0.5), "s", "less")
    figures.put("back after the storm, all", max(back_s), "s", "less")
    resumed = sum(each.why == "resumed" for each in returns)
    figures.put("of them with their session", resumed / len(returns), "", "more")
    at_s = outcome.profile.warmup_s + storm.at_s
    before = [each.added_ms for each in found.times if each.due_s < at_s]
    during = [each.added_ms for each in found.times if at_s <= each.due_s < at_s + max(back_s)]
    if before and during:
        figures.put("added p99 before the storm", quantile(before, 0.99), "ms", "less")
        figures.put("added p99 during the storm", quantile(during, 0.99), "ms", "less")


def _put_generator(figures: _Figures, outcome: Outcome) -> None:
    window = outcome.window
    for role in ("clients", "fleet"):
        figures.put(f"{role} cpu, of one core", window.cpu_us.get(role, 0.0) / window.at_s / 1e6, "")
    figures.put("redis cpu, of one core", window.redis_cpu_us / window.at_s / 1e6, "")
    foreign_us = window.machine_us - sum(window.cpu_us.values()) - window.redis_cpu_us
    figures.put("others' cpu, of one core", max(0.0, foreign_us) / window.at_s / 1e6, "")
    for who, late in (("clients", outcome.spoken.lateness_s), ("nodes", outcome.worked.lateness_s)):
        if late:
            figures.put(f"{who} late p99", quantile(late, 0.99) * 1000, "ms")


def _scripts_per_job(outcome: Outcome) -> dict[str, float]:
    jobs = len(outcome.worked.jobs)
    scripts = outcome.whole.scripts.items()
    return {
        name: calls / jobs for name, calls in scripts if calls and jobs and name.startswith(_OF_UTTERANCES)
    }


def _doubts(figures: _Figures, outcome: Outcome) -> list[str]:
    doubts = []
    for who in ("clients", "nodes"):
        late = figures.get(f"{who} late p99")
        if late is not None and late.value > LATE_MS:
            doubts.append(f"{who} were {late.value:.0f} ms late at p99: the generator was too slow")
    shared = sum(figures[f"{role} cpu, of one core"].value for role in ("clients", "fleet", "redis"))
    if outcome.machine.cores <= 3 and shared > _SATURATED:  # noqa: PLR2004 they share one
        doubts.append(f"clients, nodes and Redis used {shared:.0%} of the one core they share")
    foreign = figures["others' cpu, of one core"].value
    if foreign > FOREIGN_LOAD * outcome.machine.cores:
        doubts.append(f"other programs used {foreign:.1f} of {outcome.machine.cores} cores meanwhile")
    doubts += [f"a node complained: {complaint}" for complaint in outcome.worked.complaints[:5]]
    return doubts


# What is drawn


def _curves(outcome: Outcome, found: Joined) -> dict[str, dict[str, Curve]]:
    parts = {
        name: [(share, quantile(values, share)) for share in _CURVE_POINTS]
        for name, part in _PARTS.items()
        if (values := [float(getattr(each, part)) for each in found.times])
    }
    return {
        "milliseconds by share of utterances": parts,
        "milliseconds over time": _over_time(found.times),
        "cores over time": _cores(outcome.samples),
        "MiB of the instances over time": {
            "rss": [(each.at_s, each.rss_kb / 1024) for each in outcome.samples]
        },
    }


def _over_time(times: list[Times]) -> dict[str, Curve]:
    seconds: dict[int, list[float]] = {}
    for each in times:
        seconds.setdefault(int(each.due_s), []).append(each.added_ms)
    lines: dict[str, Curve] = {"added p50": [], "added max": []}
    for second in sorted(seconds):
        lines["added p50"].append((second, quantile(seconds[second], 0.5)))
        lines["added max"].append((second, max(seconds[second])))
    return lines


def _cores(samples: list[Sample]) -> dict[str, Curve]:
    lines: dict[str, Curve] = {}
    for before, after in itertools.pairwise(samples):
        for role, spent_us in after.cpu_us.items():
            share = (spent_us - before.cpu_us[role]) / (after.at_s - before.at_s) / 1e6
            lines.setdefault(role, []).append((after.at_s, share))
    return lines
