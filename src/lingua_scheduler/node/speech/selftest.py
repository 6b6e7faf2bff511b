"""The start-up test: every engine does its work once on a tiny sample; what fails is not offered."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import pi, sin
from typing import TYPE_CHECKING, Any

from lingua_scheduler.node.speech import sound
from lingua_scheduler.node.speech.calls import Trouble
from lingua_scheduler.node.speech.engine import Heard, Sound, Speech
from lingua_scheduler.wire.opus import SPEECH_RATE

if TYPE_CHECKING:
    from lingua_scheduler.node.speech.workbench import Tool

_SENTENCES = {
    "ca": "Bon dia. Com esteu avui?",
    "de": "Guten Morgen. Wie geht es Ihnen heute?",
    "en": "Good morning. How are you today?",
    "es": "Buenos días. ¿Cómo está usted hoy?",
    "fr": "Bonjour. Comment allez-vous aujourd'hui ?",
    "gl": "Bos días. Como está vostede hoxe?",
    "it": "Buongiorno. Come sta oggi?",
    "ja": "おはようございます。",
    "pt": "Bom dia. Como está você hoje?",
    "ru": "Доброе утро. Как ваши дела?",
    "zh": "早上好，你今天好吗？",  # noqa: RUF001
}
_NUMBERS = "1 2 3"  # for languages without a sentence


def examine(tools: Sequence[Tool]) -> list[Trouble]:
    """Try every tool, note in `able` what passed, and tell what did not."""
    troubles: list[Trouble] = []
    for service, trial in (("nmt", _try_translator), ("tts", _try_voice)):
        for tool in _of(tools, service):
            troubles += trial(tool, tools)
    voices = _of(tools, "tts")
    for tool in _of(tools, "asr") + _of(tools, "partials"):
        troubles += _try_ears(tool, tools, voices)
    for tool in _of(tools, "vad") + _of(tools, "repair"):
        troubles += _try_alone(tool)
    return troubles


def sentence(language: str) -> str:
    """Give something short to say in a language."""
    return _SENTENCES.get(language, _NUMBERS)


def _of(tools: Sequence[Tool], service: str) -> list[Tool]:
    return [tool for tool in tools if tool.service == service]


def _try_alone(tool: Tool) -> list[Trouble]:
    """Try what depends on no language."""
    if tool.service == "vad":
        return _tried(
            tool, [True], lambda _: tool.engine.spans(_tone()), lambda spans: isinstance(spans, list)
        )
    return _tried(tool, [True], lambda _: tool.engine.repair(_NUMBERS, "en"), bool)


def _try_translator(tool: Tool, _tools: Sequence[Tool]) -> list[Trouble]:
    return _tried(
        tool,
        sorted(tool.engine.pairs),
        lambda pair: tool.engine.translate(sentence(pair[0]), *pair),
        lambda text: bool(text.strip()),
    )


def _try_voice(tool: Tool, tools: Sequence[Tool]) -> list[Trouble]:
    wanted = _in_pairs(tools)
    languages = tool.engine.languages & wanted if wanted else tool.engine.languages
    return _tried(tool, sorted(languages), lambda lang: tool.engine.speak(sentence(lang), lang), _is_audible)


def _try_ears(tool: Tool, tools: Sequence[Tool], voices: Sequence[Tool]) -> list[Trouble]:
    """Let it hear a voice where there is one; else a tone, of which it need not understand anything."""
    wanted = _in_pairs(tools)
    languages = tool.engine.languages & wanted if wanted else tool.engine.languages
    listen = _listened if tool.service == "partials" else _recognised

    def understands(language: str) -> bool:
        sample = _voice_sample(voices, language)
        text = listen(tool.engine, Speech(pcm16=sample or _tone(), languages=(language,)))
        return sample is None or bool(text)

    if not wanted:  # nothing is translated: one language shows that the engine works
        return _tried(tool, sorted(languages)[:1], understands, bool, then=languages)
    return _tried(tool, sorted(languages), understands, bool)


def _recognised(engine: Any, speech: Speech) -> str:
    heard: Heard = engine.recognise(speech, None)
    return heard.text.strip()


def _listened(engine: Any, speech: Speech) -> str:
    told: list[str] = []
    engine.listen(speech, told.append, lambda: False)
    return told[-1] if told else ""


def _in_pairs(tools: Sequence[Tool]) -> frozenset[str]:
    return frozenset(lang for tool in _of(tools, "nmt") for pair in tool.able for lang in pair)


def _voice_sample(voices: Sequence[Tool], language: str) -> bytes | None:
    for tool in voices:
        if language in tool.able:
            said: Sound = tool.engine.speak(sentence(language), language)
            return sound.at_rate(said.pcm16, said.rate)
    return None


def _tried(
    tool: Tool,
    abilities: Iterable[Any],
    trial: Callable[[Any], Any],
    passes: Callable[[Any], bool],
    then: frozenset[Any] | None = None,
) -> list[Trouble]:
    """Try each ability; `then` is what a success stands for when it is more than what was tried."""
    troubles = []
    for ability in abilities:
        try:
            fault = "" if passes(trial(ability)) else "gave nothing"
        except Exception as error:  # noqa: BLE001 the test is there to find out
            fault = f"{type(error).__name__}: {error}"
        if fault:
            troubles.append(_trouble(tool, ability, fault))
        else:
            tool.able |= then if then is not None else {ability}
    return troubles


def _trouble(tool: Tool, ability: Any, fault: str) -> Trouble:
    what = "" if ability is True else f" for {'-'.join(ability) if isinstance(ability, tuple) else ability}"
    message = f"{tool.service}: the engine {tool.name} failed its test{what}: {fault}"
    return Trouble(service=tool.service, engine=tool.name, message=message)


def _is_audible(said: Sound) -> bool:
    return said.rate > 0 and any(said.pcm16)


def _tone() -> bytes:
    """Give half a second of a sound that nobody takes for a word."""
    wave = (round(4000 * sin(2 * pi * 220 * at / SPEECH_RATE)) for at in range(SPEECH_RATE // 2))
    return array("h", wave).tobytes()
