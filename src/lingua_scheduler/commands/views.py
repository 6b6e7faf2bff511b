"""`lingua nodes`, `sessions`, `jobs`, `pools` and `simulate`: what the HTTP API says, as tables or JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from lingua_scheduler.commands.asking import Admin, token_of
from lingua_scheduler.commands.tables import cell, duration, table

Said = dict[str, Any]

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """What somebody wants to see."""

    what: str  # nodes, sessions, jobs, pools or simulate
    url: str
    token_file: Path | None = None
    as_json: bool = False
    ident: str = ""  # of one node or one job
    most: int = 100
    query: tuple[tuple[str, str], ...] = field(default=())  # of a simulation


def view(request: ViewRequest) -> int:
    """Ask, print, and return the exit code."""
    with Admin(request.url, token_of(request.token_file)) as admin:
        said, lines = _VIEWS[request.what](admin, request)
    print(json.dumps(said, indent=2, ensure_ascii=False) if request.as_json else "\n".join(lines))
    return 0


def _nodes(admin: Admin, request: ViewRequest) -> tuple[Said, list[str]]:
    if request.ident:
        said = admin.ask("GET", f"/api/v1/nodes/{quote(request.ident, safe='')}")
        return said, _node(said)
    said = _pages(admin, "nodes", request.most)
    return said, [*node_table(said["nodes"]), *_more(said, "nodes")]


def node_table(nodes: list[Said], *, now_ms: float | None = None) -> list[str]:
    """Write nodes as a table."""
    now_ms = time.time() * 1000 if now_ms is None else now_ms
    heads = ("NODE", "STATUS", "NOT CHOSEN", "JOBS", "CPU%", "GPU%", "MEM%", "HEARD", "POOL", "INSTANCE")
    return table(
        heads,
        (
            (
                each["node_id"],
                each["status"] if each["online"] else "offline",
                each["excluded"],
                f"{each['current_jobs']}/{each['max_concurrent_jobs']}",
                each["cpu_usage"],
                each["gpu_usage"],
                each["memory_usage"],
                _ago(each["last_heartbeat"], now_ms),
                each["pool_id"],
                each["instance_id"],
            )
            for each in nodes
        ),
    )


def _node(said: Said) -> list[str]:
    node = said["node"]
    facts = {
        "node": node["node_id"],
        "platform": node["platform"],
        "version": node["version"],
        "status": node["status"],
        "not chosen": said["why"] or "it may be chosen",
        "instance": node["instance_id"],
        "pool": node["pool_id"],
        "jobs": f"{node['current_jobs']} of {node['max_concurrent_jobs']}",
        "hears": said["asr_languages"],
        "translates into": said["semantic_languages"],
        "ready": said["ready_types"],
        "private": said["private"],
        "region": said["region"],
        "gpu tier": said["gpu_tier"],
    }
    return _facts(facts)


def _sessions(admin: Admin, request: ViewRequest) -> tuple[Said, list[str]]:
    said = _pages(admin, "sessions", request.most)
    heads = ("SESSION", "STATE", "FROM", "TO", "UTTERANCES", "OPEN JOBS", "POOL", "TENANT")
    rows = (
        (
            each["session_id"],
            each["state"],
            each["src_lang"],
            each["tgt_lang"],
            each["utterances"],
            each["jobs_open"],
            each["preferred_pool"],
            each["tenant_id"],
        )
        for each in said["sessions"]
    )
    return said, [*table(heads, rows), *_more(said, "sessions")]


def _jobs(admin: Admin, request: ViewRequest) -> tuple[Said, list[str]]:
    said = admin.ask("GET", f"/api/v1/jobs/{quote(request.ident, safe='')}")
    return said, _facts({name.replace("_", " "): value for name, value in said.items()})


def _pools(admin: Admin, _request: ViewRequest) -> tuple[Said, list[str]]:
    said = admin.ask("GET", "/api/v1/phase3/pools")
    heads = ("POOL", "NAME", "NODES", "ONLINE", "READY", "REQUIRES")
    rows = (
        (
            each["pool_id"],
            each.get("pool_name"),
            each["total_nodes"],
            each["online_nodes"],
            each["ready_nodes"],
            each.get("pool_required_services"),
        )
        for each in said["pools"]
    )
    return said, table(heads, rows)


def _simulate(admin: Admin, request: ViewRequest) -> tuple[Said, list[str]]:
    said = admin.ask("GET", f"/api/v1/phase3/simulate?{urlencode(request.query)}")
    steps = said["debug"]
    chosen = said["selected_node_id"]
    lines = [f"node {cell(chosen)} of pool {steps['selected_pool']}" if chosen else "no node would be chosen"]
    lines += [f"  pool {pool}: {cell(reason)}, {count} nodes" for pool, reason, count in steps["attempts"]]
    why = {reason: count for reason, count in said["breakdown"].items() if count}
    if why and not chosen:
        lines.append("  " + ", ".join(f"{cell(reason)} {count}" for reason, count in why.items()))
    return said, lines


_VIEWS: dict[str, Callable[[Admin, ViewRequest], tuple[Said, list[str]]]] = {
    "nodes": _nodes,
    "sessions": _sessions,
    "jobs": _jobs,
    "pools": _pools,
    "simulate": _simulate,
}


def _pages(admin: Admin, what: str, most: int) -> Said:
    """Ask for page after page until there are enough rows."""
    said: Said = {}
    rows: list[Said] = []
    cursor = ""
    while True:
        query = {"limit": str(min(_PAGE, most - len(rows)))}
        if cursor:
            query["cursor"] = cursor
        said = admin.ask("GET", f"/api/v1/{what}?{urlencode(query)}")
        rows += said[what]
        cursor = said["next"] or ""
        if not cursor or len(rows) >= most:
            return {**said, what: rows}


def _more(said: Said, what: str) -> list[str]:
    left = said["total"] - len(said[what])
    if not said["total"]:
        return [f"no {what}"]
    return [f"{left} more: ask with a higher --limit"] if left > 0 else []


def _facts(facts: Said) -> list[str]:
    width = max(map(len, facts))
    return [f"{name.ljust(width)}  {cell(value)}" for name, value in facts.items()]


def _ago(at_ms: float, now_ms: float) -> str:
    return f"{duration(max(0.0, now_ms - at_ms) / 1000)} ago" if at_ms else "-"
