"""`lingua drain`: takes an instance or a node out of service over HTTP; the exit code says what happened."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from lingua_scheduler.commands.asking import Admin, Refused, token_of
from lingua_scheduler.log import printable

DONE, FAILED, CUT_OFF = 0, 1, 3
"""Exit codes: drained (or, without waiting, begun), not reachable or refused, cut off by the deadline."""

_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What to drain, and how."""

    url: str
    node_id: str | None = None
    deadline_s: float | None = None
    cancel: bool = False
    wait: bool = False
    token_file: Path | None = None
    as_json: bool = False


def drain(request: DrainRequest) -> int:
    """Give the order, wait if asked to, print how it stands; return the exit code."""
    path = "/api/v1/drain"
    if request.node_id is not None:
        path = f"/api/v1/nodes/{quote(request.node_id, safe='')}/drain"
    try:
        with Admin(request.url, token_of(request.token_file)) as admin:
            said = _ordered(admin, path, request)
            if request.wait and not request.cancel:
                said = (
                    _drained(admin, path, said)
                    if said.get("state")
                    else _followed(admin, path, said, request)
                )
    except Refused as refusal:
        print(f"lingua: {printable(str(refusal))}", file=sys.stderr)
        return FAILED
    print(msgspec.json.encode(said).decode() if request.as_json else _sentence(said))
    return CUT_OFF if said.get("cut_off") else DONE


def _ordered(admin: Admin, path: str, request: DrainRequest) -> dict[str, Any]:
    if request.cancel:
        return admin.ask("DELETE", path)
    return admin.ask("POST", path, {} if request.deadline_s is None else {"deadline_s": request.deadline_s})


def _followed(admin: Admin, path: str, said: dict[str, Any], request: DrainRequest) -> dict[str, Any]:
    """Give the order of a node once more where it is connected, and wait there."""
    url = str(said.get("url", ""))
    if not url or url == admin.url:
        raise Refused(f"the node is held by instance {said.get('instance_id')}: wait there")
    with Admin(url, token_of(request.token_file)) as holder:
        return _drained(holder, path, _ordered(holder, path, request))


def _drained(admin: Admin, path: str, said: dict[str, Any]) -> dict[str, Any]:
    """Look until it is drained."""
    while said.get("state") != "drained":
        if said.get("state") != "draining":
            raise Refused("the drain was taken back, or the node has moved")
        time.sleep(_LOOK_EVERY_S)
        said = admin.ask("GET", path)
    return said


def _sentence(said: dict[str, Any]) -> str:
    what = f"node {said['node_id']}" if "node_id" in said else "instance"
    state = said.get("state") or f"told by instance {said.get('instance_id')}, which holds it"
    left = [f"{said[name]} {name}" for name in ("sessions", "nodes", "jobs") if said.get(name)]
    cut = "; the deadline cut something off" if said.get("cut_off") else ""
    return printable(f"{what}: {state}{', ' if left else ''}{', '.join(left)}{cut}")
