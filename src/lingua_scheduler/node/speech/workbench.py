"""The engines of one worker: loaded, tried, and used for one call at a time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from lingua_scheduler.core.audio import is_silent
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node.speech import registry, selftest, sound
from lingua_scheduler.node.speech.calls import (
    Hear,
    Report,
    Speak,
    Spoken,
    Translate,
    Translated,
    Trouble,
    Understood,
)
from lingua_scheduler.node.speech.direction import route
from lingua_scheduler.node.speech.engine import (
    SERVICES,
    Captioner,
    Heard,
    Recogniser,
    Repairer,
    Service,
    Speech,
    Tell,
    Translator,
    Vad,
    Voice,
)
from lingua_scheduler.node.speech.errors import EngineError, ModelMissing
from lingua_scheduler.node.speech.options import EngineChoice
from lingua_scheduler.wire.opus import encode_opus

_MARGIN_MS = 200  # kept around speech


@dataclass(slots=True)
class Tool:
    """An engine that is loaded, and which of its abilities passed the test."""

    service: Service
    name: str
    engine: Any
    able: frozenset[Any] = frozenset()  # languages or pairs


class Workbench:
    """All engines of one worker."""

    def __init__(self, engines: Mapping[str, tuple[EngineChoice, ...]]) -> None:
        self._troubles: list[Trouble] = []
        began = time.monotonic()
        self._tools = [
            tool
            for service in SERVICES
            for choice in engines.get(service, ())
            if (tool := self._loaded(choice, service)) is not None
        ]
        loaded = time.monotonic()
        self._troubles += selftest.examine(self._tools)
        tested = time.monotonic()
        self._pairs = frozenset(pair for tool in self._of("nmt") for pair in tool.able)
        self.report = Report(
            services=tuple(dict.fromkeys(tool.service for tool in self._tools if tool.able)),
            heard=self._languages("asr"),
            pairs=tuple(sorted(self._pairs)),
            spoken=self._languages("tts"),
            troubles=tuple(self._troubles),
            load_ms=round((loaded - began) * 1000),
            test_ms=round((tested - loaded) * 1000),
        )

    def hear(self, call: Hear, tell: Tell) -> Understood:
        """Find speech, recognise and repair it."""
        pcm16 = self._speech_in(sound.at_rate(call.speech.pcm16, call.rate))
        if not pcm16:
            return Understood()
        tool = self._recogniser(call.speech.languages)
        understood = tuple(lang for lang in call.speech.languages if lang in tool.able)
        padded = pcm16 + sound.quiet(call.padding_ms)
        speech = msgspec.structs.replace(call.speech, pcm16=padded, languages=understood)
        engine = cast("Recogniser", tool.engine)
        listener = self._captioner(speech) if call.partials else None
        if listener is not None:
            heard = _beside(listener, speech, tell, lambda: engine.recognise(speech, None))
        else:
            heard = engine.recognise(speech, tell if call.partials else None)
        raw = heard.text.strip()
        text = self._repaired(raw, heard.language) if call.repair else raw
        return Understood(text=text, raw_text=raw, language=heard.language, probability=heard.probability)

    def translate(self, call: Translate) -> Translated:
        """Translate, through other languages if need be."""
        way = route(self._pairs, call.src, call.tgt)
        if way is None:
            raise self._missing("nmt", f"nothing translates from {call.src} to {call.tgt}")
        text = call.text
        for pair in itertools.pairwise(way):
            tool = next(tool for tool in self._of("nmt") if pair in tool.able)
            text = cast("Translator", tool.engine).translate(text, *pair).strip()
        return Translated(text=text, route=way)

    def speak(self, call: Speak) -> Spoken:
        """Say a text, in the form wanted."""
        tool = next((tool for tool in self._of("tts") if call.language in tool.able), None)
        if tool is None:
            raise self._missing("tts", f"no voice speaks {call.language}")
        voice = cast("Voice", tool.engine).speak(call.text, call.language)
        pcm16 = sound.at_rate(voice.pcm16, voice.rate)
        return Spoken(audio=encode_opus(pcm16) if call.audio_format == AudioFormat.OPUS else pcm16)

    def _loaded(self, choice: EngineChoice, service: Service) -> Tool | None:
        try:
            return Tool(service, choice.engine, registry.made(choice, service))
        except EngineError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 whatever an engine does, the others shall work
            message = (
                f"{service}: the engine {choice.engine} could not be loaded: {type(error).__name__}: {error}"
            )
        self._troubles.append(Trouble(service=service, engine=choice.engine, message=message))
        return None

    def _of(self, service: Service) -> list[Tool]:
        return [tool for tool in self._tools if tool.service == service]

    def _languages(self, service: Service) -> tuple[str, ...]:
        return tuple(sorted({lang for tool in self._of(service) for lang in tool.able}))

    def _speech_in(self, pcm16: bytes) -> bytes:
        if is_silent(AudioFormat.PCM16, pcm16):
            return b""
        for tool in self._of("vad"):
            spans = cast("Vad", tool.engine).spans(pcm16)
            return sound.trimmed(pcm16, spans, _MARGIN_MS) if spans else b""
        return pcm16

    def _recogniser(self, languages: tuple[str, ...]) -> Tool:
        """Choose the engine that understands most of what may be spoken; of equals, the first."""
        best = max(self._of("asr"), key=lambda tool: len(tool.able & set(languages)), default=None)
        if best is None or not best.able & set(languages):
            raise self._missing("asr", f"nothing understands {' or '.join(languages) or 'any language'}")
        return best

    def _captioner(self, speech: Speech) -> Captioner | None:
        """Choose who shows words early: only when the language is known."""
        known = speech.languages[0] if len(speech.languages) == 1 else None
        tools = [tool for tool in self._of("partials") if known in tool.able]
        return cast("Captioner", tools[0].engine) if tools else None

    def _repaired(self, text: str, language: str) -> str:
        for tool in self._of("repair"):
            text = cast("Repairer", tool.engine).repair(text, language)
        return text

    def _missing(self, service: Service, what: str) -> ModelMissing:
        why = "; ".join(trouble.message for trouble in self._troubles if trouble.service == service)
        return ModelMissing(service, f"{what}: {why}" if why else what)


def _beside(listener: Captioner, speech: Speech, tell: Tell, work: Callable[[], Heard]) -> Heard:
    """Work while a captioner listens in a thread of its own; what it tells too late is dropped."""
    done = threading.Event()

    def tell_in_time(text: str) -> None:
        if not done.is_set():
            tell(text)

    def listen() -> None:
        with suppress(Exception):  # words shown early are a courtesy: without them the result still comes
            listener.listen(speech, tell_in_time, done.is_set)

    listening = threading.Thread(target=listen, name="captions", daemon=True)
    listening.start()
    try:
        return work()
    finally:
        done.set()
        listening.join()
