"""`lingua status`: the deployment in one view, again and again on a terminal, once for a pipe."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lingua_scheduler.commands.asking import Admin, Refused, token_of
from lingua_scheduler.commands.tables import cell, duration, table
from lingua_scheduler.commands.views import node_table
from lingua_scheduler.log import printable

Said = dict[str, Any]

_UNAVAILABLE = 503
_NODES = 50
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Whom to watch, and how."""

    url: str
    token_file: Path | None = None
    as_json: bool = False
    once: bool = False
    every_s: float = 2.0


def status(request: StatusRequest, pause: Callable[[float], None] = time.sleep) -> int:
    """Show how everything stands until somebody has seen enough; return the exit code."""
    live = sys.stdout.isatty() and not request.once and not request.as_json
    with Admin(request.url, token_of(request.token_file)) as admin:
        if not live:
            said = look(admin)
            print(json.dumps(said, indent=2) if request.as_json else "\n".join(shown(said)))
            return 0
        return _watch(admin, request, pause)


def _watch(admin: Admin, request: StatusRequest, pause: Callable[[float], None]) -> int:
    """Draw over what was drawn before; an instance that is away for a while is waited for."""
    try:
        while True:
            try:
                lines = shown(look(admin))
            except Refused as refusal:
                lines = [printable(str(refusal)), "trying again ..."]
            size = shutil.get_terminal_size()
            fitting = [line[: size.columns] for line in lines[: max(1, size.lines - 1)]]
            print(_CLEAR + "\n".join(fitting), flush=True)
            pause(request.every_s)
    except KeyboardInterrupt:
        return 0


def look(admin: Admin) -> Said:
    """Ask for all that is shown."""
    return {
        "ready": admin.ask("GET", "/ready", accept=(_UNAVAILABLE,)),
        "cluster": admin.ask("GET", f"/api/v1/cluster?limit={_NODES}"),
        "autoscale": admin.ask("GET", "/api/v1/autoscale"),
    }


def shown(said: Said) -> list[str]:
    """Write it for people."""
    ready, cluster, scaling = said["ready"], said["cluster"], said["autoscale"]
    wait = f"95 of 100 jobs wait at most {scaling['wait_p95_ms']} ms for a node"
    refused = f"{cell(scaling['refusals_per_min'])} a minute find none at once"
    lines = [
        "ready" if ready["ready"] else f"NOT READY: {', '.join(cell(each) for each in ready['complaints'])}",
        (
            f"instances {cluster['online_instances']}/{cluster['total_instances']}"
            f"   nodes {cluster['ready_nodes']} ready, {cluster['online_nodes']} online"
            f"   sessions {cluster['total_sessions']}   jobs {cluster['total_jobs']}"
            f"   dead letters {cluster['total_dlq']}"
        ),
        (
            f"slots {scaling['free_slots']} free of {scaling['total_slots']}"
            f"   waiting jobs {scaling['waiting_jobs']}   {wait}, {refused}"
        ),
        f"nodes that the load asks for: {scaling['desired_nodes']}",
        "",
        *_instances(cluster["instances"]),
        "",
        *node_table(cluster["nodes"]),
    ]
    left = cluster["total_nodes"] - len(cluster["nodes"])
    return [*lines, f"{left} more: lingua nodes"] if left > 0 else lines


def _instances(instances: list[Said]) -> list[str]:
    heads = (
        "INSTANCE",
        "STATE",
        "UP",
        "SESSIONS",
        "NODES",
        "JOBS",
        "INBOX",
        "PENDING",
        "DEAD",
        "VERSION",
        "AT",
    )
    return table(
        heads,
        (
            (
                each["instance_id"],
                "draining" if each["draining"] else "online" if each["is_online"] else "away",
                duration(each["uptime_seconds"]),
                each["sessions_owned"],
                each["nodes_owned"],
                each["jobs_open"],
                each["inbox_length"],
                each["inbox_pending"],
                each["dlq_length"],
                each["version"],
                each["url"],
            )
            for each in instances
        ),
    )
