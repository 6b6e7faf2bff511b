"""The commands that look and change nothing: their flags, and what they call. Imported when one runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from lingua_scheduler.commands import flags
from lingua_scheduler.errors import ConfigError

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
"""Adds a command by its name, what it calls and what it is for."""


def add_commands(add: Add) -> None:
    """Add the commands that look and change nothing."""
    flags.add_status_flags(
        add("status", _status, "Watch instances, nodes and load; in a pipe, show them once.")
    )
    nodes = add("nodes", partial(_view, "nodes"), "List all nodes, or show one and why it is not chosen.")
    nodes.add_argument("ident", nargs="?", default="", metavar="ID", help="show this node")
    flags.add_list_flags(nodes)
    flags.add_list_flags(add("sessions", partial(_view, "sessions"), "List the sessions of an instance."))
    jobs = add("jobs", partial(_view, "jobs"), "Show one job of an instance's sessions.")
    jobs.add_argument("ident", metavar="ID", help="the job")
    flags.add_admin_flags(jobs)
    flags.add_admin_flags(
        add("pools", partial(_view, "pools"), "List the pools and how many nodes they have.")
    )
    flags.add_simulate_flags(
        add("simulate", partial(_view, "simulate"), "Tell which node a job would get; nothing is taken.")
    )
    flags.add_doctor_flags(add("doctor", _doctor, "Look at all an instance depends on; say what to do."))


def _status(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.status import StatusRequest, status  # noqa: PLC0415

    if given.every <= 0:
        raise ConfigError("--every: must be more than 0")
    return status(StatusRequest(given.url, given.token_file, given.json, given.once, given.every))


def _view(what: str, given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.views import ViewRequest, view  # noqa: PLC0415

    said = vars(given)
    if said.get("limit", 1) < 1:
        raise ConfigError("--limit: must be at least 1")
    return view(
        ViewRequest(
            what=what,
            url=given.url,
            token_file=given.token_file,
            as_json=given.json,
            ident=said.get("ident", ""),
            most=said.get("limit", 1),
            query=_question(given) if what == "simulate" else (),
        )
    )


def _question(given: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    named = {
        "src_lang": given.src,
        "tgt_lang": given.tgt,
        "tenant_id": given.tenant,
        "session_id": given.session,
        "routing_key": given.routing_key,
        "exclude_node_id": given.without,
    }
    said = [(name, value) for name, value in named.items() if value]
    return (*said, *(("required", name) for name in given.required or ()))


def _doctor(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.doctor import DoctorRequest, doctor  # noqa: PLC0415

    return doctor(DoctorRequest(given.config, given.redis_url, given.json, given.url, given.token_file))
