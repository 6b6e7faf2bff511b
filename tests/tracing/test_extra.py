"""The extra `tracing`: what it lists is locked, and the tests have it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_locks_hold_the_packages_of_the_extra():
    listed = (ROOT / "requirements" / "tracing.in").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extra = project["project"]["optional-dependencies"]["tracing"]
    assert [line for line in listed if not line.startswith("#")] == extra
    assert set(extra) <= set(project["dependency-groups"]["test"])
    tests = _locked("test")
    alone = _locked("tracing")
    assert alone.items() <= tests.items()
    assert {re.split("[=<>]", line)[0] for line in extra} <= alone.keys()


def test_who_does_not_trace_does_not_install_it():
    assert not any(name.startswith("opentelemetry") for name in _locked("run"))


def _locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
