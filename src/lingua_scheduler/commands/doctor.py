"""`lingua doctor`: looks at everything an instance depends on, and says what to do about each finding."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from lingua_scheduler.commands.asking import Admin, Refused, token_of
from lingua_scheduler.commands.deployment_checks import deployment_findings
from lingua_scheduler.commands.hub_checks import hub_findings
from lingua_scheduler.commands.port import kept_port
from lingua_scheduler.commands.redis_checks import redis_findings
from lingua_scheduler.commands.tables import cell
from lingua_scheduler.config import FILE_NAME, FILE_VARIABLE, Config, load
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.errors import ConfigError

_ANSWER_S = 2.0
_SPARE_FILES = 256  # beyond connections: Redis, logs, weights
_ENGINES: Mapping[str, Mapping[str, str]] = {
    "asr": {"whisper": "faster_whisper", "vosk": "vosk"},
    "nmt": {"firefox": "fxtranslate", "ctranslate2": "ctranslate2"},
    "tts": {"espeak": "espeakng_loader", "piper": "piper", "hibari": "hibari", "kokoro": "kokoro_onnx"},
}
"""The engines of each step, and the package that each one needs."""


class Grade(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # good to know
    BAD = "bad"  # something will not work


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in one place, and what to do about it."""

    about: str
    grade: Grade
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """What to look at."""

    config: Path | None = None
    redis_url: str | None = None
    as_json: bool = False
    url: str | None = None  # an instance to ask; None: the one that listens here, if any does
    token_file: Path | None = None


def doctor(request: DoctorRequest, environ: Mapping[str, str] = os.environ) -> int:
    """Look at everything, print it, and return the exit code: 1 when something is wrong."""
    findings = [*_file_findings(request.config, environ)]
    try:
        flags = {"--redis-url": ("redis.url", request.redis_url)}
        config = load(request.config, environ=environ, flags=flags).config
    except ConfigError as refusal:
        findings.append(Finding("configuration", Grade.BAD, str(refusal), "change it, and ask again"))
    else:
        findings += [*_findings(config), *_deployment(request, config)]
    if request.as_json:
        print(json.dumps([asdict(each) for each in findings], indent=2))
    else:
        print("\n".join(line for each in findings for line in _lines(each)))
    return 1 if any(each.grade is Grade.BAD for each in findings) else 0


def _findings(config: Config) -> list[Finding]:
    found = [Finding("configuration", Grade.OK, "every key is known and within its bounds")]
    if config.redis.url:
        checks = asyncio.run(redis_findings(config.redis))
        found += [Finding(each.about, Grade(each.grade), each.found, each.advice) for each in checks]
    else:
        found.append(
            Finding(
                "redis",
                Grade.NOTE,
                "no address is set: the embedded Redis is used, and forgets all when it stops",
                "set redis.url where several instances, or a restart, must know of each other",
            )
        )
    hub = asyncio.run(hub_findings(config.model_hub))
    found += [Finding(each.about, Grade(each.grade), each.found, each.advice) for each in hub]
    return [*found, _port(config.server), _files(config.server), *_engines()]


def _deployment(request: DoctorRequest, config: Config) -> list[Finding]:
    """Ask an instance that runs what is wrong."""
    url = request.url or _instance_here(config.server)
    if url is None:
        return []
    token = token_of(request.token_file) or config.admin.token
    return [
        Finding(each.about, Grade(each.grade), each.found, each.advice)
        for each in deployment_findings(url, token)
    ]


def _lines(finding: Finding) -> list[str]:
    mark = {Grade.OK: "ok  ", Grade.NOTE: "note", Grade.BAD: "BAD "}[finding.grade]
    lines = [f"{mark}  {finding.about}: {cell(finding.found)}"]
    return [*lines, f"      {cell(finding.advice)}"] if finding.advice else lines


def _file_findings(file: Path | None, environ: Mapping[str, str]) -> list[Finding]:
    """Look at who may change the configuration; whether a secret is exposed, loading it tells."""
    path = file or Path(environ.get(FILE_VARIABLE, FILE_NAME))
    try:
        mode = path.stat().st_mode
    except OSError:
        if file is None and FILE_VARIABLE not in environ:
            return [
                Finding("configuration file", Grade.OK, "there is none: defaults and the environment count")
            ]
        return [Finding("configuration file", Grade.BAD, f"{path} cannot be read", "name one that can be")]
    if mode & (stat.S_IWOTH | stat.S_IWGRP):
        who = "everybody" if mode & stat.S_IWOTH else "its group"
        return [Finding("configuration file", Grade.BAD, f"{who} may change {path}", f"chmod 600 {path}")]
    return [Finding("configuration file", Grade.OK, f"{path}: only its owner may change it")]


def _port(options: EdgeOptions) -> Finding:
    """Tell whether an instance could listen, or does."""
    where = f"{options.host}:{options.port}"
    try:
        with kept_port(options):
            return Finding("port", Grade.OK, f"{where} is free")
    except ConfigError as error:
        if _instance_here(options) is not None:
            return Finding("port", Grade.OK, f"an instance listens on {where}")
        advice = "stop the program that listens there, be it an instance that hangs, or set server.port"
        return Finding("port", Grade.BAD, f"{error}; no instance answers there", advice)


def _instance_here(options: EdgeOptions) -> str | None:
    """Give the address of the instance that listens where this one would; None when none answers."""
    host = "127.0.0.1" if options.host in ("", "0.0.0.0") else options.host  # noqa: S104 it is compared
    url = f"{'https' if options.tls_certificate_file else 'http'}://{host}:{options.port}"
    try:
        with Admin(url, "", answer_s=_ANSWER_S) as admin:
            said = admin.ask("GET", "/ready", accept=(503,))
    except (Refused, ConfigError):
        return None
    return url if "ready" in said else None


def _files(options: EdgeOptions) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = options.max_connections + _SPARE_FILES
    found = f"{soft} files may be open at a time, {wanted} are needed for all connections"
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return Finding("open files", Grade.OK, found)
    more = "ulimit -n" if hard == resource.RLIM_INFINITY or hard >= wanted else "LimitNOFILE, or limits.conf,"
    advice = f"raise it with {more} to {wanted}, or lower server.max_connections"
    return Finding("open files", Grade.BAD, found, advice)


def _engines() -> list[Finding]:
    """Tell which steps the reference node could do here; a scheduler needs none of them."""
    present = {
        step: [name for name, package in engines.items() if find_spec(package) is not None]
        for step, engines in _ENGINES.items()
    }
    missing = [step for step, names in present.items() if not names]
    shown = "; ".join(f"{step}: {', '.join(names) or 'none'}" for step, names in present.items())
    if not missing:
        return [Finding("engines", Grade.OK, shown)]
    advice = "pip install 'lingua-scheduler[speech]' to run lingua node here; lingua serve needs no engine"
    return [Finding("engines", Grade.NOTE, shown, advice)]
