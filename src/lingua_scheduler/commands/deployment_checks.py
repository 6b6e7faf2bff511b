"""What `lingua doctor` says about a deployment that runs: what an instance finds wrong, and what to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lingua_scheduler.commands.asking import Admin, Refused
from lingua_scheduler.commands.redis_checks import BAD, NOTE, OK, Check

_ANSWER_S = 5.0
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "instance_not_ready": ("instance {where} takes no new work: {why}", "LinguaInstanceNotReady"),
    "stale": ("instance {where} has not looked at the deployment for more than 10 s", "LinguaEventLoopLate"),
    "instance_unreachable": ("instance {where} cannot be reached", "LinguaInstanceDown"),
    "instance_draining": ("instance {where} is being drained", "LinguaInstanceNotReady"),
    "instance_lost": ("instance {where} has died and is not back", "LinguaInstanceLost"),
    "nodes_lost": ("{count} nodes went away without a word: {names}", "LinguaNodeLost"),
    "no_ready_node": ("no node is ready: {of} are known, {count} sessions wait", "LinguaNoNode"),
    "pair_unserved": ("no node serves {where}, which {count} sessions ask for", "LinguaNoNodeForPair"),
    "pair_full": ("{count} jobs for {where} wait: all {of} slots are taken", "LinguaReservationsRefused"),
    "missing": ("{count} of {of} utterances had no answer in a minute: {why}", "LinguaMissingResults"),
    "refused": ("{count} jobs in a minute found no node at once", "LinguaNoAvailableNode"),
    "nodes_excluded": ("{count} of {of} nodes are not chosen, {why}: {names}", "LinguaNoAvailableNode"),
    "service_gap": ("{where} is not ready on {count} of {of} nodes: {names} {why}", "LinguaModelsMissing"),
    "pool_empty": ("pool {where} has no ready node; {of} are known: {names}", "LinguaPoolMiss"),
    "letters_pending": ("{count} letters wait at instance {where}", "LinguaInboxPending"),
    "dead_letters": ("{count} dead letters, the newest at {where}: {why}", "LinguaDeadLetters"),
    "catalogue": ("the catalogue has failed {count} times: {why}", "LinguaCatalogueStale"),
}
"""The sentence for each kind of trouble, and the alert whose page of the runbook is about it."""


def deployment_findings(url: str, token: str) -> list[Check]:
    """Ask an instance what is wrong with all of them."""
    try:
        with Admin(url, token, answer_s=_ANSWER_S) as admin:
            said = admin.ask("GET", "/api/v1/troubles")
    except Refused as refusal:
        advice = "--url names an instance, --token-file a file with its admin token or an admin key"
        return [Check("deployment", NOTE, f"not looked at: {refusal}", advice)]
    found = [_check(trouble) for trouble in said.get("troubles", ())]
    return found or [Check("deployment", OK, f"{url} names nothing that is wrong")]


def _check(trouble: Mapping[str, Any]) -> Check:
    kind = str(trouble.get("kind", ""))
    sentence, alert = _SENTENCES.get(kind, (f"{kind} {{where}} {{why}} {{names}}", "First look"))
    words = {name: trouble.get(name, "") for name in ("where", "why", "count", "of")}
    names = ", ".join(map(str, trouble.get("names", ())))
    grade = BAD if trouble.get("level") == "bad" else NOTE
    return Check(
        "deployment",
        grade,
        sentence.format(**words, names=names).strip(" :"),
        f"see {alert} in docs/runbook.md",
    )
