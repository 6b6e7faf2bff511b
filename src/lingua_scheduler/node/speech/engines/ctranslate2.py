"""Translation by NLLB-200 or M2M100 through CTranslate2, from a converted model on disk."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from lingua_scheduler.node.speech.engine import Service
from lingua_scheduler.node.speech.weights import Place, check

_PLACE = Place("nmt", "folder in [node.nmt]")
_REMEDY = (
    "convert the model with ct2-transformers-converter --quantization int8 "
    "--copy_files sentencepiece.bpe.model, and set folder in [node.nmt] to the result"
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")  # noqa: RUF001
_NLLB = {
    "ar": "arb_Arab",
    "ca": "cat_Latn",
    "cs": "ces_Latn",
    "de": "deu_Latn",
    "en": "eng_Latn",
    "es": "spa_Latn",
    "fr": "fra_Latn",
    "hi": "hin_Deva",
    "id": "ind_Latn",
    "it": "ita_Latn",
    "ja": "jpn_Jpan",
    "ko": "kor_Hang",
    "nl": "nld_Latn",
    "pl": "pol_Latn",
    "pt": "por_Latn",
    "ru": "rus_Cyrl",
    "sv": "swe_Latn",
    "th": "tha_Thai",
    "tr": "tur_Latn",
    "uk": "ukr_Cyrl",
    "vi": "vie_Latn",
    "zh": "zho_Hans",
}


class CTranslate2Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, and on what."""

    folder: Path
    """Directory with `model.bin` and `sentencepiece.bpe.model`."""
    family: Literal["nllb", "m2m100"] = "nllb"
    """How the model wants languages to be named."""
    languages: tuple[str, ...] = ("en", "zh")
    """Languages to offer; all of them in all directions."""
    codes: dict[str, str] = {}
    """The model's own name of a language, where the built-in table lacks it."""
    sha256: str = ""
    """Digest that `model.bin` must have; empty accepts any."""
    device: str = "cpu"
    """cpu, cuda or auto."""
    compute_type: str = "int8"
    """Numbers to compute with: int8 on a CPU, float16 on a GPU."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 2
    """Threads of one translation; 0 takes what CTranslate2 thinks best."""
    beam_size: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Alternatives followed at a time."""

    def __post_init__(self) -> None:
        known = {**_NLLB, **self.codes}
        nameless = [lang for lang in self.languages if lang not in known]
        if self.family == "nllb" and nameless:
            raise ValueError(f"codes must name {', '.join(nameless)}")


class CTranslate2:
    """One network for all pairs."""

    service: ClassVar[Service] = "nmt"
    extra: ClassVar[str] = "speech-ctranslate2"
    Options: ClassVar[type[msgspec.Struct]] = CTranslate2Options

    def __init__(self, options: CTranslate2Options) -> None:
        import ctranslate2  # noqa: PLC0415
        import sentencepiece  # noqa: PLC0415

        folder = options.folder.expanduser()
        check(folder / "model.bin", options.sha256, _PLACE, _REMEDY)
        check(folder / "sentencepiece.bpe.model", "", _PLACE, _REMEDY)
        self._options = options
        self._codes = {lang: _code(options, lang) for lang in options.languages}
        self._pieces: Any = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / "sentencepiece.bpe.model")
        )
        self._model: Any = ctranslate2.Translator(
            str(folder),
            device=options.device,
            compute_type=options.compute_type,
            intra_threads=options.threads,
        )
        self.pairs = frozenset(itertools.permutations(options.languages, 2))

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Translate sentence by sentence, all at once."""
        sentences = [part for part in _SENTENCE_END.split(text) if part.strip()]
        if not sentences:
            return ""
        source = [[self._codes[src], *self._pieces.encode(part, out_type=str), "</s>"] for part in sentences]
        results = self._model.translate_batch(
            source,
            target_prefix=[[self._codes[tgt]]] * len(source),
            beam_size=self._options.beam_size,
        )
        return " ".join(self._text(result.hypotheses[0][1:]) for result in results)

    def _text(self, pieces: list[str]) -> str:
        return str(self._pieces.decode(pieces)).strip()


def _code(options: CTranslate2Options, language: str) -> str:
    if language in options.codes:
        return options.codes[language]
    return _NLLB[language] if options.family == "nllb" else f"__{language}__"
