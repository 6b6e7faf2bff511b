"""Alerts and dashboard ask for what an instance counts, and every alert has its page in the runbook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.instruments import PREFIX, CounterAlias, GaugeTable, OneOf
from lingua_scheduler.metrics import Metrics

ROOT = Path(__file__).parent.parent.parent
PROMETHEUS = ROOT / "ops/prometheus"
RULES = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "ops/grafana/lingua.json").read_text(encoding="utf-8"))
RUNBOOK = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")

SEED = {  # the alerts and metrics that runbooks of the first generation know
    "LinguaRedisErrors": "scheduler_phase2_redis_op_total",
    "LinguaInboxPending": "scheduler_phase2_inbox_pending",
    "LinguaDeadLetters": "scheduler_phase2_dlq_moved_total",
    "LinguaPoolMiss": "scheduler_phase3_pool_selected_total",
}
EVERYWHERE = {"instance", "job"}  # labels that Prometheus adds


def alerts() -> dict[str, str]:
    """Give the text of each rule by the name of its alert."""
    found = re.split(r"^      - alert: (\w+)$", RULES, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def queries() -> list[str]:
    """Give every query of the dashboard, its variables included."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return asked + [each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each]


@cache
def exported() -> dict[str, str]:
    """Give the name of every series of an instance, and the metric it belongs to."""
    types = re.findall(r"^# TYPE (\w+) (\w+)$", Metrics().render().decode(), re.MULTILINE)
    series = {}
    for name, kind in types:
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        series.update({name + end: name for end in ends})
    return series


@cache
def labels() -> dict[str, dict[str, Any]]:
    """Give the labels of each metric, and what values they may take where that is written down."""
    found: dict[str, dict[str, Any]] = {}
    for name, instrument in vars(Metrics()).items():
        if isinstance(instrument, CounterAlias):
            values = dict(zip(instrument.labels, instrument._of.values.values(), strict=True))
        elif isinstance(instrument, GaugeTable):
            values = dict.fromkeys(instrument.labels)
        else:
            values = getattr(instrument, "values", {})
        found[PREFIX + name] = values
    return found


def promtool(*arguments: str) -> None:
    """Run promtool beside the rules; what it complains about is the failure."""
    program = shutil.which("promtool")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "needs promtool (package prometheus)"
        )
    done = subprocess.run(
        [program, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_rules_and_configuration() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_every_alert_fires_when_it_should_and_is_quiet_when_not() -> None:
    promtool("test", "rules", "alerts_test.yml")


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    exprs = [query for query in queries() if not query.startswith("label_values")]
    rules = [
        {"record": f"query:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, expr in enumerate(exprs)
    ]
    file = tmp_path / "queries.yml"  # JSON is YAML too
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_every_alert_has_both_cases() -> None:
    cases = (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8")
    named = re.findall(r"^  - name: (\w+) (fires|is quiet)$", cases, re.MULTILINE)
    assert sorted(named) == sorted((alert, case) for alert in alerts() for case in ("fires", "is quiet"))


@pytest.mark.parametrize(
    "text",
    [*alerts().values(), *queries()],
    ids=[*alerts(), *(f"query-{number}" for number in range(len(queries())))],
)
def test_every_metric_that_is_asked_for_is_counted(text: str) -> None:
    """Names, labels and label values: an alert on something that is never there can never fire."""
    for series, matchers in re.findall(rf"\b({PREFIX}\w+)(?:\{{([^}}]*)\}})?", text):
        assert series in exported()
        known = labels().get(exported()[series], {})
        for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
            assert label in {*known, *EVERYWHERE}, f"{series} has no label {label}"
            values = known.get(label)
            if isinstance(values, OneOf) and operator in ("=", "!="):
                assert value in values.known, f"{series}: {label} is never {value}"


def test_labels_that_results_are_split_by_exist() -> None:
    for text in [*alerts().values(), *queries()]:
        for named, rest in re.findall(r"\bby \(([\w, ]+)\) \(([^\n]*)", text):
            first = re.search(rf"\b{PREFIX}\w+|\bup\b", rest)
            assert first is not None
            known = labels().get(exported().get(first[0], ""), {})
            assert {name.strip() for name in named.split(",")} <= {*known, *EVERYWHERE, "le"}, text


def test_the_alerts_of_the_first_generation_are_there_with_their_metrics() -> None:
    for alert, metric in SEED.items():
        assert metric in alerts()[alert]


def test_every_alert_says_how_urgent_it_is_what_it_means_and_where_to_read_on() -> None:
    for alert, rule in alerts().items():
        assert re.search(r"^          severity: (warning|critical)$", rule, re.MULTILINE), alert
        for word in ("summary", "description"):
            assert re.search(rf"^          {word}: \S", rule, re.MULTILINE), (alert, word)
        assert f"runbook: docs/runbook.md#{alert.lower()}\n" in f"{rule}\n", alert


def test_the_runbook_has_a_heading_for_every_alert_and_for_no_other() -> None:
    assert re.findall(r"^### (Lingua\w+)$", RUNBOOK, re.MULTILINE) == list(alerts())


def test_the_runbook_begins_with_a_row_for_every_alert_and_for_no_other() -> None:
    """Its name, how urgent it is, how long it has to last and what it says are those of the rule."""
    row = r"^\| \[(Lingua\w+)\]\(#(\w+)\) \| (\w+) \| (\w+) \| (.+) \|$"
    shown = re.findall(row, RUNBOOK, re.MULTILINE)
    known = []
    for alert, rule in alerts().items():
        urgent = re.search(r"severity: (\w+)", rule)[1]
        lasts = re.search(r"^        for: (\w+)$", rule, re.MULTILINE)
        says = re.search(r"^          summary: (.+)$", rule, re.MULTILINE)[1].strip('"')
        says = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", says)
        known.append((alert, alert.lower(), urgent, lasts[1] if lasts else "0s", says))
    assert shown == known


@pytest.mark.parametrize("part", ["means", "see it", "do", "over when"])
def test_every_page_of_the_runbook_says_the_same_four_things(part: str) -> None:
    pages = re.split(r"^### Lingua\w+$", RUNBOOK, flags=re.MULTILINE)[1:]
    assert all(f"\n| {part} | " in page for page in pages)


def test_the_dashboard_can_be_imported_and_chooses_jobs_and_instances() -> None:
    names = [each["name"] for each in DASHBOARD["templating"]["list"]]
    assert names == ["datasource", "job", "instance"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            assert 'job=~"$job", instance=~"$instance"' in target["expr"], panel["title"]


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                assert x < 24
                taken[x, y] = panel["title"]
