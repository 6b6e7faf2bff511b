"""The checks of a checkout, in the order in which a failure is cheapest to see."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

import lingua_scheduler
from lingua_scheduler.errors import ConfigError

_NEEDED = ("pytest", "ruff", "mypy", "importlinter")

Step = tuple[str, tuple[str, ...]]


def check(pytest_arguments: Sequence[str] = ()) -> int:
    """Run every step until one fails; return its exit code."""
    root = checkout()
    began = time.monotonic()
    passed = []
    for name, command in steps(pytest_arguments):
        print(f"== {name}", flush=True)
        step_began = time.monotonic()
        code = subprocess.run(command, cwd=root, check=False).returncode  # noqa: S603
        if code != 0:
            print(f"== {name} failed with exit code {code}; later steps did not run", flush=True)
            return code if code > 0 else 1
        passed.append(f"{name} {time.monotonic() - step_began:.1f} s")
    print(f"== all passed in {time.monotonic() - began:.0f} s: {', '.join(passed)}", flush=True)
    return 0


def checkout() -> Path:
    """Find the checkout this package runs from; ConfigError when there is none or tools are missing."""
    root = Path(lingua_scheduler.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file() or not (root / "tests").is_dir():
        raise ConfigError(
            "test: this is an installed package; the tests live in a checkout: run ./lingua test there"
        )
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"test: {', '.join(missing)} not installed; run ./lingua test, which installs them")
    return root


def steps(pytest_arguments: Sequence[str]) -> tuple[Step, ...]:
    """Name the steps and their commands."""
    python = (sys.executable, "-m")
    lint_imports = str(Path(sysconfig.get_path("scripts")) / "lint-imports")
    return (
        ("formatting", (*python, "ruff", "format", "--check", ".")),
        ("lint", (*python, "ruff", "check", ".")),
        ("types", (*python, "mypy")),
        ("import contracts", (lint_imports, "--no-logo")),
        ("tests", (*python, "pytest", "-n", "2", *pytest_arguments)),
    )
