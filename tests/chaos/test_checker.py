"""Every check can fail: for each invariant, a small history that violates it and is caught."""

import itertools

import msgspec
import pytest

from lingua_scheduler.chaos.aftermath import Aftermath, Left
from lingua_scheduler.chaos.checker import INVARIANTS, checked
from lingua_scheduler.chaos.evidence import LAST_LOOK, QUIET, RECOVERY, Evidence
from lingua_scheduler.chaos.history import Event, Op
from lingua_scheduler.chaos.injection import TWIN
from lingua_scheduler.chaos.setting import T_END_S

clock = itertools.count(1)


def at(op: Op, t: float | None = None, **facts) -> Event:
    """Make an event; without a time, one after all others made so far."""
    who = {"who": "c0"} if op in CLIENT else {"who": facts.get("node", "driver")}
    mine = {"session": "s", "client": 0} if op in CLIENT else {}
    return Event(t=next(clock) / 100 if t is None else t, op=op, **{**who, **mine, **facts})


CLIENT = (Op.OPENED, Op.LOST, Op.RESUMED, Op.SPOKE, Op.ACKED, Op.RESULT, Op.MISSING, Op.LEFT, Op.CLOSED)


def translated(index: int, frames: str, **facts) -> list[Event]:
    """One utterance that went well: handed out, answered, delivered."""
    job = {"index": index, "job": f"job-{index}", "attempt": 1, "node": "n0-0", "frames": frames}
    return [
        at(Op.ASSIGNED, session="s", client=0, **job),
        at(Op.ANSWERED, session="s", client=0, **job),
        at(Op.RESULT, **{**job, **facts}),
    ]


def conversation(*events: Event) -> list[Event]:
    """Give a whole session with these events in it, in this order."""
    whole = [
        at(Op.REGISTERED, node="n0-0", count=2),
        at(Op.OPENED),
        *events,
        at(Op.CLOSED),
        at(Op.PHASE, reason=LAST_LOOK),
    ]
    return [msgspec.structs.replace(event, t=next(clock) / 100) for event in whole]


QUIET_END = Aftermath(
    left=Left(letters={"i0-1": 0}, unsettled={"i0-1": 0}, present=("i0-1",)),
    living=("i0-1",),
    metrics={
        "i0-1": {
            "scheduler_web_task_finalized_total": 2,
            "scheduler_translation_results_total": 2,
            "scheduler_nodes_connected": 1,
        }
    },
    exit_codes={"i0-1": 0},
)


def good() -> list[Event]:
    return conversation(
        at(Op.SPOKE, first=0, seq=3),
        at(Op.ACKED, seq=3),
        *translated(0, "0-3"),
        at(Op.SPOKE, first=4, seq=6),
        *translated(1, "4-6"),
    )


def test_a_history_without_fault_is_accepted():
    assert checked(Evidence.of(*good(), aftermath=QUIET_END)) == []


def violated(*events: Event, aftermath: Aftermath | None = None, lossless: bool = False) -> set[str]:
    return {each.invariant for each in checked(Evidence.of(*events, aftermath=aftermath, lossless=lossless))}


SPOKE = {"first": 0, "seq": 3}

HISTORIES = {
    "I1 two results": (
        "I1",
        lambda: conversation(at(Op.SPOKE, **SPOKE), *translated(0, "0-3"), at(Op.RESULT, index=0)),
    ),
    "I1 a result after a missing one": (
        "I1",
        lambda: conversation(at(Op.SPOKE, **SPOKE), at(Op.MISSING, index=0), *translated(0, "0-3")),
    ),
    "I1 no end although acknowledged": (
        "I1",
        lambda: [at(Op.OPENED), at(Op.SPOKE, **SPOKE), at(Op.ACKED, seq=3)],
    ),
    "I1 no end although the session was closed by agreement": (
        "I1",
        lambda: conversation(at(Op.SPOKE, **SPOKE)),
    ),
    "I1 one missing result for two utterances": (
        "I1",
        lambda: conversation(at(Op.SPOKE, **SPOKE), at(Op.SPOKE, first=4, seq=5), at(Op.MISSING, index=0)),
    ),
    "I2 out of order": (
        "I2",
        lambda: conversation(*translated(1, "4-6"), *translated(0, "0-3")),
    ),
    "I2 a hole": ("I2", lambda: conversation(*translated(0, "0-3"), *translated(2, "4-6"))),
    "I3 somebody else's speech": (
        "I3",
        lambda: conversation(*translated(0, "0-3", client=7)),
    ),
    "I3 speech without proof": ("I3", lambda: conversation(*translated(0, ""))),
    "I3 speech that was answered before": (
        "I3",
        lambda: conversation(*translated(0, "0-3"), *translated(1, "2-5")),
    ),
    "I3 torn speech": ("I3", lambda: conversation(*translated(0, "0-1,3"))),
    "I3 two utterances in one": (
        "I3",
        lambda: conversation(at(Op.SPOKE, **SPOKE), at(Op.SPOKE, first=4, seq=5), *translated(0, "0-5")),
    ),
    "I3 a job that no node had": (
        "I3",
        lambda: conversation(at(Op.RESULT, index=0, job="job-x", attempt=1, node="n9", frames="0-3")),
    ),
    "I4 three jobs on two slots": (
        "I4",
        lambda: conversation(*(at(Op.ASSIGNED, node="n0-0", job=f"j{n}", attempt=1) for n in range(3))),
    ),
    "I5 one attempt on two nodes": (
        "I5",
        lambda: [at(Op.ASSIGNED, node=node, job="j", attempt=1) for node in ("n0-0", "n1-0")],
    ),
    "I5 attempts backwards": (
        "I5",
        lambda: [at(Op.ASSIGNED, node="n0-0", job="j", attempt=attempt) for attempt in (2, 1)],
    ),
    "I5 two jobs for one utterance": (
        "I5",
        lambda: [at(Op.ASSIGNED, node="n0-0", job=job, attempt=1, session="s", index=0) for job in "ab"],
    ),
    "I5 handed out after its end": (
        "I5",
        lambda: [
            *(early := conversation(*translated(0, "0-3"))),
            at(Op.ASSIGNED, early[-1].t + 5, node="n0-0", job="job-0", attempt=2),
        ],
    ),
    "I6 a session that was gone": ("I6", lambda: [at(Op.OPENED), at(Op.LOST), at(Op.OPENED, session="t")]),
    "I6 waited in vain": ("I6", lambda: conversation(at(Op.LEFT))),
    "I6 an end far too late": (
        "I6",
        lambda: [
            at(Op.OPENED, 0.0),
            at(Op.SPOKE, 1.0, **SPOKE),
            at(Op.RESULT, T_END_S + 2, index=0, frames="0-3"),
        ],
    ),
    "I6 missing ones after all was healed": (
        "I6",
        lambda: conversation(
            at(Op.PHASE, reason=RECOVERY),
            at(Op.SPOKE, **SPOKE),
            at(Op.MISSING, index=0),
            at(Op.PHASE, reason=QUIET),
        ),
    ),
    "I6 silence after all was healed": (
        "I6",
        lambda: conversation(at(Op.PHASE, reason=RECOVERY), at(Op.PHASE, reason=QUIET)),
    ),
    "I7 memory": (
        "I7",
        lambda: [at(Op.MEASURED, instance="i0-1", rss_kb=size, fds=9) for size in (50_000, 90_000)],
    ),
    "I7 open files": (
        "I7",
        lambda: [at(Op.MEASURED, instance="i0-1", rss_kb=50_000, fds=fds) for fds in (20, 40)],
    ),
    "I9 a twin that was let in": ("I9", lambda: [at(Op.ENDED, instance=f"{TWIN}i0-1", count=-9)]),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_a_history_that_violates_an_invariant_is_caught(case):
    invariant, events = HISTORIES[case]
    assert invariant in violated(*events())


def left(**facts) -> Aftermath:
    return Aftermath(left=Left(present=("i0-1",), **facts), living=("i0-1",))


AFTERMATHS = {
    "I4 a slot reserved for ever": ("I4", left(reservations=1)),
    "I8 a letter nobody took": ("I8", left(letters={"i0-1": 1})),
    "I8 a letter nobody settled": ("I8", left(unsettled={"i0-1": 1})),
    "I8 an inbox nobody adopted": ("I8", left(letters={"i7-1": 0})),
    "I8 a dead letter without poison": ("I8", left(dead_letters=1)),
    "I9 a dead instance that is believed to live": (
        "I9",
        Aftermath(left=Left(present=("i0-1", "i1-1")), living=("i0-1",)),
    ),
    "I9 a session that nobody ended": (
        "I9",
        Aftermath(metrics={"i0-1": {"scheduler_sessions_open": 1}}),
    ),
    "I9 keys of ended sessions": ("I9", left(session_keys={"audio": 2})),
    "I9 a node with two owners": (
        "I9",
        Aftermath(
            metrics={"i0-1": {"scheduler_nodes_connected": 1}, "i1-1": {"scheduler_nodes_connected": 1}}
        ),
    ),
    "I10 more accepted than ended": (
        "I10",
        Aftermath(metrics={"i0-1": {"scheduler_web_task_finalized_total": 1}}),
    ),
    "I10 more counted than seen": (
        "I10",
        Aftermath(
            metrics={
                "i0-1": {
                    "scheduler_web_task_finalized_total": 1,
                    "scheduler_translation_results_total": 1,
                }
            }
        ),
    ),
    "I12 speech in a log": ("I12", Aftermath(spoke_in_logs=("i0-1.log:7",))),
    "errors a crashed task": ("errors", Aftermath(crashed_in_logs=("i0-1.log:7: task_crashed",))),
    "errors a stop without an end": ("errors", Aftermath(exit_codes={"i0-1": None})),
    "errors a stop that failed": ("errors", Aftermath(exit_codes={"i0-1": 1})),
}


@pytest.mark.parametrize("case", AFTERMATHS)
def test_an_aftermath_that_violates_an_invariant_is_caught(case):
    invariant, aftermath = AFTERMATHS[case]
    assert invariant in violated(aftermath=aftermath)


def test_no_invariant_is_without_a_history_that_violates_it():
    assert {case.split()[0] for case in (*HISTORIES, *AFTERMATHS)} == set(INVARIANTS)


def test_poison_that_is_no_dead_letter_is_caught():
    poisoned = [at(Op.FAULT, reason="inbox_poison", index=0)]
    assert "I8" in violated(*poisoned, aftermath=left(dead_letters=0))
    assert "I8" not in violated(*poisoned, aftermath=left(dead_letters=3))


def test_in_a_lossless_run_nothing_may_be_missing():
    events = conversation(at(Op.SPOKE, **SPOKE), at(Op.MISSING, index=0, reason="no_available_node"))
    assert "I1" not in violated(*events)
    assert "I1" in violated(*events, lossless=True)


def test_speech_that_the_server_never_took_is_not_missed():
    assert "I1" not in violated(at(Op.OPENED), at(Op.SPOKE, **SPOKE), at(Op.ACKED, seq=1))


def test_a_job_that_was_long_under_way_to_a_slow_node_is_not_held_against_anybody():
    slow = [at(Op.FAULT, reason="node_freeze", index=0)]
    handed = [at(Op.ASSIGNED, node="n0-0", job="j", attempt=attempt) for attempt in (2, 1)]
    assert "I5" not in violated(*slow, *handed)
