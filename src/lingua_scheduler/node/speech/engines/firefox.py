"""Translation by the models of Firefox through fxtranslate: en-pt from a package, others from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from lingua_scheduler.node.speech.carriers import FIREFOX_EN_PT, FIREFOX_PT_EN
from lingua_scheduler.node.speech.engine import Service
from lingua_scheduler.node.speech.weights import Place, check

_PLACE = Place("nmt", "models in [node.nmt] to directories with models of Firefox")
_CARRIED = {("en", "pt"): FIREFOX_EN_PT, ("pt", "en"): FIREFOX_PT_EN}


class FirefoxOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models."""

    models: dict[str, Path] = {}
    """Directory of each pair, such as {"en-de" = "/models/ende"}; empty takes those of the package."""
    sha256: dict[str, str] = {}
    """Digest that the model file of a pair must have; a pair without one accepts any."""

    def __post_init__(self) -> None:
        for pair in (*self.models, *self.sha256):
            if len(pair.split("-")) != 2:  # noqa: PLR2004 source and target
                raise ValueError("a pair is written like en-pt")


class Firefox:
    """One small network per pair, on the CPU."""

    service: ClassVar[Service] = "nmt"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = FirefoxOptions

    def __init__(self, options: FirefoxOptions) -> None:
        folders: dict[tuple[str, str], Path] = {}
        for name, folder in options.models.items():
            src, tgt = name.split("-")
            _check_model(folder.expanduser(), options.sha256.get(name, ""))
            folders[src, tgt] = folder.expanduser()
        if not options.models:
            folders = {pair: carrier.path(_PLACE) for pair, carrier in _CARRIED.items()}
        self._models = {pair: _loaded(folder) for pair, folder in folders.items()}
        self.pairs = frozenset(self._models)

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Translate sentence by sentence."""
        return str(self._models[src, tgt].translate_long(text))


def _check_model(folder: Path, digest: str) -> None:
    remedy = "copy the model there, or change models in [node.nmt]"
    for pattern in ("model*.bin", "*vocab*.spm"):
        if not any(folder.glob(pattern)):
            raise _PLACE.missing(f"{folder} has no file like {pattern}", remedy)
    check(_one(folder, "model*.bin"), digest, _PLACE, remedy)


def _one(folder: Path, pattern: str) -> Path:
    return min(folder.glob(pattern))


def _loaded(folder: Path) -> Any:
    from fxtranslate import Translator  # noqa: PLC0415

    vocabularies = sorted(folder.glob("*vocab*.spm"))  # one for both languages, or srcvocab and trgvocab
    shortlists = sorted(folder.glob("lex*.bin"))
    return Translator(
        model=_one(folder, "model*.bin").read_bytes(),
        src_vocab=vocabularies[0].read_bytes(),
        trg_vocab=vocabularies[-1].read_bytes(),
        shortlist=shortlists[0].read_bytes() if shortlists else None,
    )
