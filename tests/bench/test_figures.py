"""Figures are what was seen, divided by what it was for; what instances do anyway is taken off."""

from __future__ import annotations

import os

import pytest

from lingua_scheduler.bench.driver import Outcome, Sample
from lingua_scheduler.bench.figures import reported
from lingua_scheduler.bench.machine import Machine
from lingua_scheduler.bench.probe import Reading, busy_us, cpu_us_of, lag_quantile_s, rss_kb_of
from lingua_scheduler.bench.profile import Profile, Sessions, Storm, System
from lingua_scheduler.bench.records import Conversation, Job, Presence, Refusal, Said, Spoken, Worked
from lingua_scheduler.bench.report import Report
from lingua_scheduler.bench.verdict import Leftovers

FRAMES, CUT = "scheduler_audio_frames_total", "scheduler_web_task_finalized_total"
CPU_US = {"instances": 2_000_000.0, "clients": 500_000.0, "fleet": 100_000.0, "driver": 0.0}


def outcome(window: dict[str, float], **more: object) -> Outcome:
    """Ten seconds of two cores: two seconds of processor time, of which one is what happens anyway."""
    facts: dict[str, object] = {
        "profile": Profile(warmup_s=0, duration_s=10),
        "machine": Machine(cores=2),
        "background": Reading(at_s=1.0, cpu_us={"instances": 100_000.0}, redis_cpu_us=10_000.0),
        "opening": Reading(at_s=1.0, rss_kb=1000.0),
        "window": Reading(
            at_s=10.0,
            cpu_us=CPU_US,
            redis_cpu_us=300_000.0,
            redis_script_us=100_000.0,
            metrics=window,
            lag={"0.001": 90, "0.01": 99, "+Inf": 100},
            machine_us=3_000_000.0,
        ),
        "whole": Reading(at_s=12.0, metrics=window),
        "left": Leftovers(counted={CUT: 2.0}, exit_codes=(0,)),
        "nop_us": 2.0,
    }
    return Outcome(**{**facts, **more})  # type: ignore[arg-type]


def values(report: Report) -> dict[str, float]:
    return {name: figure.value for name, figure in report.figures.items()}


def two_utterances() -> dict[str, object]:
    said = [Said(1.0, 1.0, 9, 2.0, "result"), Said(5.0, 5.0, 9, 7.0, "result")]
    jobs = [
        Job("s", 0, "en", "a", 1, 0, 1.1, answered_s=1.9),
        Job("s", 1, "en", "b", 1, 0, 5.2, answered_s=6.8),
    ]
    return {
        "spoken": Spoken(conversations=[Conversation(0, None, "en", "s", said, closed=True)], present=10),
        "worked": Worked(jobs=jobs, presences=[Presence(0, 0.0, 2)]),
        "whole": Reading(
            at_s=12.0,
            metrics={CUT: 2.0, FRAMES: 20.0, "scheduler_room_results_total": 0.0},
            scripts={"job_create": 2.0, "job_step": 6.0, "node_beat": 50.0, "session_renew": 3.0},
        ),
    }


def test_frames_alone_cost_all_that_is_not_background() -> None:
    found = values(reported("x", outcome({FRAMES: 20_000.0})))
    assert found["cpu for a frame"] == pytest.approx(50.0)
    assert found["frames"] == 2000
    assert found["instance cpu, of one core"] == pytest.approx(0.2)
    assert found["redis calls for a frame"] == 0
    assert found["loop lag p99"] == 10
    assert "cpu for an utterance with its frames" not in found


def test_utterances_cost_what_they_and_their_frames_do() -> None:
    report = reported("x", outcome({FRAMES: 20.0, CUT: 2.0}, **two_utterances()))
    found = values(report)
    assert found["utterances answered"] == pytest.approx(0.2)
    assert found["cpu for an utterance with its frames"] == pytest.approx(500_000)
    assert found["redis cpu for an utterance"] == pytest.approx(100_000)
    assert found["the same in nops"] == pytest.approx(25_000)
    assert found["memory for a session"] == 100
    assert found["cut -> assign p50"] == pytest.approx(150)
    assert found["scripts for a job"] == 4
    assert report.scripts == {"job_create": 1.0, "job_step": 3.0}
    assert found["redis calls for a frame"] == 0


def test_a_script_that_nobody_knows_is_blamed_on_frames() -> None:
    more = two_utterances()
    more["whole"] = Reading(at_s=12.0, metrics={FRAMES: 20.0}, scripts={"frame_seen": 20.0})
    assert values(reported("x", outcome({FRAMES: 20.0}, **more)))["redis calls for a frame"] == 1


def test_calls_for_utterances_while_none_is_cut_are_blamed_on_frames() -> None:
    seen = outcome({FRAMES: 20.0}, whole=Reading(at_s=12.0, metrics={FRAMES: 20.0}))
    seen.window = Reading(
        at_s=10.0, cpu_us=CPU_US, metrics={FRAMES: 20.0}, scripts={"job_step": 10.0, "node_beat": 9.0}
    )
    assert values(reported("x", seen))["redis calls for a frame"] == 0.5


def test_silent_sessions_share_the_cost() -> None:
    profile = Profile(warmup_s=0, duration_s=10, sessions=Sessions(count=0, idle=1000))
    found = values(reported("x", outcome({}, profile=profile)))
    assert found["cpu for a silent session"] == pytest.approx(100)


def test_a_storm_is_over_when_the_last_one_is_back() -> None:
    returns = [Refusal(3.0, after_s, "resumed") for after_s in (0.1, 0.5, 4.0)] + [Refusal(3.0, 1.0, "new")]
    more = two_utterances()
    more["spoken"].returns = returns  # type: ignore[attr-defined]
    profile = Profile(warmup_s=0, duration_s=10, storm=Storm(at_s=3.0))
    found = values(reported("x", outcome({CUT: 2.0}, profile=profile, **more)))
    assert found["back after the storm, all"] == 4.0
    assert found["of them with their session"] == 0.75
    assert found["added p99 before the storm"] == pytest.approx(200)
    assert found["added p99 during the storm"] == pytest.approx(400)


def test_a_late_generator_a_busy_machine_and_nodes_that_complain_make_figures_doubtful() -> None:
    assert reported("x", outcome({FRAMES: 1.0})).doubts == ()
    seen = outcome(
        {FRAMES: 1.0},
        spoken=Spoken(lateness_s=[0.001] * 50 + [0.1] * 50),
        worked=Worked(complaints=["closed with 4429"]),
    )
    seen.window = Reading(
        at_s=10.0, cpu_us={**CPU_US, "clients": 9_900_000.0}, machine_us=19_000_000.0, metrics={FRAMES: 1.0}
    )
    late, full, busy, complaint = reported("x", seen).doubts
    assert "clients were 100 ms late" in late
    assert "100% of the one core" in full
    assert "other programs used 0.7 of 2 cores" in busy
    assert "4429" in complaint


def test_an_unfinished_run_is_void() -> None:
    more = two_utterances()
    more["spoken"].conversations[0].said[1].end = ""  # type: ignore[attr-defined]
    assert reported("x", outcome({CUT: 2.0}, **more)).void == ("client 0: index 1 was never answered",)


def test_curves_are_drawn_from_what_was_seen() -> None:
    samples = [Sample(float(at), {"instances": at * 5e5}, 1024.0 * at) for at in range(3)]
    curves = reported("x", outcome({CUT: 2.0}, samples=samples, **two_utterances())).curves
    assert curves["cores over time"]["instances"] == [(1.0, 0.5), (2.0, 0.5)]
    assert curves["MiB of the instances over time"]["rss"] == [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]
    assert curves["milliseconds over time"]["added max"] == [
        (1, pytest.approx(200)),
        (5, pytest.approx(400)),
    ]


def test_what_lies_above_the_last_bound_is_more_than_that() -> None:
    late = outcome({})
    late.window = Reading(at_s=10.0, cpu_us=CPU_US, lag={"0.5": 90, "5.0": 95, "+Inf": 100})
    found = reported("x", late).figures["loop lag p99"]
    assert (found.value, found.beyond) == (5000, True)
    assert found.words() == "more than 5000"


def test_work_at_nodes_of_another_instance_is_counted() -> None:
    profile = Profile(warmup_s=0, duration_s=10, system=System(instances=2), sessions=Sessions(count=2))
    facts = two_utterances()
    found = values(reported("x", outcome({FRAMES: 20.0, CUT: 2.0}, **{**facts, "profile": profile})))
    assert found["jobs at another instance's node"] == 0
    facts["worked"].jobs[1].node = 1  # type: ignore[attr-defined]
    found = values(reported("x", outcome({FRAMES: 20.0, CUT: 2.0}, **{**facts, "profile": profile})))
    assert found["jobs at another instance's node"] == 0.5


def test_the_machine_can_be_read() -> None:
    assert cpu_us_of(os.getpid()) > 0
    assert rss_kb_of(os.getpid()) > 1000
    assert busy_us() > 0
    assert cpu_us_of(2**22 + 1) == rss_kb_of(2**22 + 1) == 0
    assert Machine.here("redis 1").cores >= 1
    assert lag_quantile_s({}, 0.99) == 0
