"""The invariants that are seen in the last look at a run: memory, inboxes, owners, counters and logs."""

from __future__ import annotations

from collections.abc import Iterator

from lingua_scheduler.chaos.evidence import LAST_LOOK, Evidence
from lingua_scheduler.chaos.faults import TRAITS, Fault
from lingua_scheduler.chaos.history import Event, Op
from lingua_scheduler.chaos.injection import NOT_REACHED, POISONED_LETTERS, TWIN

GROWTH_SHARE = 1.25
GROWTH_KB = 8 * 1024
MORE_FILES = 10

_KILLED = -9


def memory_is_bounded(evidence: Evidence) -> Iterator[str]:
    """I7: memory and open files of every instance are in the end what they were before the first fault."""
    before: dict[str, Event] = {}
    after: dict[str, Event] = {}
    for event in evidence.of_kind(Op.MEASURED):
        before.setdefault(event.instance, event)
        after[event.instance] = event
    for instance, first in before.items():
        last = after[instance]
        if last.rss_kb > first.rss_kb * GROWTH_SHARE + GROWTH_KB:
            yield f"{instance} grew from {first.rss_kb} to {last.rss_kb} KiB"
        if last.fds > first.fds + MORE_FILES:
            yield f"{instance} had {first.fds} open files and has {last.fds}"


def inboxes_are_empty(evidence: Evidence) -> Iterator[str]:
    """I8: every letter had its effect or is a dead letter; inboxes of dead instances are gone."""
    left, living = evidence.aftermath.left, evidence.aftermath.living
    for instance, letters in left.letters.items():
        if letters:
            yield f"{letters} letters lie in the inbox of {instance}"
        if instance not in living:
            yield f"the inbox of {instance}, which is dead, was not adopted"
    for instance, letters in left.unsettled.items():
        if letters:
            yield f"{letters} letters to {instance} were handed out and never settled"
    poison = POISONED_LETTERS * len(evidence.faults(Fault.INBOX_POISON.value))
    if left.dead_letters > poison:
        yield f"{left.dead_letters} dead letters, of which only {poison} had to be"
    if left.dead_letters < poison and not _letters_were_lost(evidence):
        yield f"{poison} letters could not be read and {left.dead_letters} are dead letters"


def _letters_were_lost(evidence: Evidence) -> bool:
    forgetting = [fault.value for fault, trait in TRAITS.items() if trait.forgets]
    return bool(evidence.faults(*forgetting, Fault.INBOX_DELETED.value, Fault.REDIS_PRIMARY_LOST.value))


def ownership_is_single(evidence: Evidence) -> Iterator[str]:
    """I9: one process per id, one owner per node, and of ended sessions no owner."""
    for event in evidence.of_kind(Op.ENDED):
        if event.instance.startswith(TWIN) and event.count in (0, _KILLED):
            yield f"the {event.instance} was not refused (exit code {event.count})"
    aftermath = evidence.aftermath
    if aftermath.left.present != tuple(sorted(aftermath.living)):
        yield f"{aftermath.living} live, and Redis knows {aftermath.left.present}"
    closed = all(each.closed for each in evidence.conversations.values())
    sessions = _total(evidence, "scheduler_sessions_open")
    if closed and sessions:
        yield f"{sessions:g} sessions are owned although all have ended"
    if closed and aftermath.left.session_keys:
        kinds = ", ".join(f"{count} {kind}" for kind, count in aftermath.left.session_keys.items())
        yield f"keys are left of sessions that have ended: {kinds}"
    nodes = _registered_nodes(evidence)
    connected = _total(evidence, "scheduler_nodes_connected")
    if aftermath.metrics and connected != len(nodes):
        yield f"{connected:g} nodes are connected according to the instances, and {len(nodes)} in truth"


def _registered_nodes(evidence: Evidence) -> set[str]:
    nodes: set[str] = set()
    until = evidence.phase(LAST_LOOK)
    for event in evidence.of_kind(Op.REGISTERED, Op.DISCONNECTED):
        if until is not None and event.t > until:
            break
        (nodes.add if event.op is Op.REGISTERED else nodes.discard)(event.node)
    return nodes


def accounting_adds_up(evidence: Evidence) -> Iterator[str]:
    """I10: accepted = results + missing + open, and both are what the clients saw.

    Only while no instance and no session was lost: what an instance had counted ended with it, and of a
    session that nobody comes back to nothing more is told. When sessions changed hands, at least as many must
    be accepted as were seen to end: what the former owner had cut and not written is sent and cut again, and
    what it held back and the next one tells out of the log is counted by neither.
    """
    complete = all(each.closed for each in evidence.conversations.values())
    if not evidence.aftermath.metrics or not complete or _somebody_ended(evidence):
        return
    accepted = _total(evidence, "scheduler_web_task_finalized_total")
    results = _total(evidence, "scheduler_translation_results_total")
    missing = _total(evidence, "scheduler_missing_results_total")
    still_open = _total(evidence, "scheduler_jobs_open")
    seen = len(evidence.of_kind(Op.RESULT)), len(evidence.of_kind(Op.MISSING))
    moved = bool(evidence.of_kind(Op.RESUMED))
    if accepted < sum(seen) + still_open or (accepted > sum(seen) + still_open and not moved):
        yield f"{accepted:g} accepted, but {sum(seen)} ends were seen"
    if moved:
        return
    if accepted != results + missing + still_open:
        yield f"{accepted:g} accepted, but {results:g} results, {missing:g} missing, {still_open:g} open"
    if (results, missing) != seen:
        yield f"{results:g} results and {missing:g} missing were counted, {seen[0]} and {seen[1]} seen"


def _somebody_ended(evidence: Evidence) -> bool:
    until = evidence.phase(LAST_LOOK) or float("inf")
    ended = {event.instance for event in evidence.of_kind(Op.ENDED) if event.t < until}
    started = {event.instance for event in evidence.of_kind(Op.STARTED)}
    instances = {name for name in started if name in evidence.aftermath.metrics or name.startswith("i")}
    return bool(ended & instances)


def _total(evidence: Evidence, name: str) -> float:
    return sum(values.get(name, 0.0) for values in evidence.aftermath.metrics.values())


def logs_are_quiet(evidence: Evidence) -> Iterator[str]:
    """I12: no speech, no secret and no control character in any log."""
    for place in evidence.aftermath.spoke_in_logs:
        yield f"{place} holds what no log may hold"


def nothing_crashed(evidence: Evidence) -> Iterator[str]:
    """No unforeseen error in any log, and every instance stops in order when asked."""
    yield from evidence.aftermath.crashed_in_logs
    for event in evidence.of_kind(Op.ERROR):
        if event.reason == NOT_REACHED:
            yield f"{event.instance} never came to its crash point"
    for instance, code in evidence.aftermath.exit_codes.items():
        if code != 0:
            yield f"{instance} ended with {'no exit code in time' if code is None else f'exit code {code}'}"
