"""Translation by Apertium, where it is installed: rules instead of networks, good between close languages."""

from __future__ import annotations

import shutil
import subprocess
from typing import ClassVar

import msgspec

from lingua_scheduler.node.speech.engine import Service
from lingua_scheduler.node.speech.errors import EngineFailed
from lingua_scheduler.node.speech.weights import Place

_PLACE = Place("nmt", "engine in [node.nmt]")
_TIMEOUT_S = 10.0
_MODES = {"pt-es": "pt-es", "es-pt": "es-pt"}


class ApertiumOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pairs."""

    modes: dict[str, str] = {}
    """Mode of each pair, such as {"es-ca" = "spa-cat"}; `apertium -l` lists them. Empty: pt-es, es-pt."""
    program: str = "apertium"
    """The program, by name or path."""

    def __post_init__(self) -> None:
        if any(len(pair.split("-")) != 2 for pair in self.modes):  # noqa: PLR2004 source and target
            raise ValueError("a pair is written like pt-es")


class Apertium:
    """The program `apertium`, started for each text."""

    service: ClassVar[Service] = "nmt"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = ApertiumOptions

    def __init__(self, options: ApertiumOptions) -> None:
        program = shutil.which(options.program)
        if program is None:
            raise _PLACE.missing(
                f"the program {options.program} is not installed",
                "apt-get install apertium apertium-es-pt, or take another engine in [node.nmt]",
            )
        self._program = program
        modes = options.modes or _MODES
        self._modes = {(pair.split("-")[0], pair.split("-")[1]): mode for pair, mode in modes.items()}
        known = set(self._run("-l", "").split())
        missing = sorted(set(modes.values()) - known)
        if missing:
            raise _PLACE.missing(
                f"Apertium has no mode {', '.join(missing)}",
                "apt-get install the pair, such as apertium-es-pt, or change modes in [node.nmt]",
            )
        self.pairs = frozenset(self._modes)

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Translate; words it does not know stay as they are."""
        return self._run("-u", self._modes[src, tgt], text=text).strip()

    def _run(self, flag: str, mode: str, *, text: str = "") -> str:
        done = subprocess.run(  # noqa: S603 the program and the modes are the operator's
            [self._program, flag, *filter(None, [mode])],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise EngineFailed("nmt", f"apertium ended with code {done.returncode}")
        return done.stdout
