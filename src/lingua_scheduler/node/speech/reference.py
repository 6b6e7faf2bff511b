"""The reference node: real engines behind the node SDK, offering only what passed its start-up test."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.errors import ConfigError, NodeRefused
from lingua_scheduler.log import LogOptions, configure, get_logger, printable
from lingua_scheduler.node.announcement import About
from lingua_scheduler.node.node import Node
from lingua_scheduler.node.speech import registry
from lingua_scheduler.node.speech.calls import Report
from lingua_scheduler.node.speech.configuration import load_speech_options
from lingua_scheduler.node.speech.crew import Crew
from lingua_scheduler.node.speech.direction import Offer, offer
from lingua_scheduler.node.speech.errors import EngineError, NothingToOffer
from lingua_scheduler.node.speech.options import SpeechOptions
from lingua_scheduler.node.speech.pipeline import Pipeline
from lingua_scheduler.node.uplink import NodeGaveUp
from lingua_scheduler.secret import Secret
from lingua_scheduler.tracing.tracing import opened
from lingua_scheduler.wire.address import NODE_PATH, endpoint
from lingua_scheduler.wire.machine import Gpu, LanguageCapabilities

_log = get_logger(__name__)

_SERVICE_TYPES = {"asr": "asr", "nmt": "nmt", "tts": "tts", "repair": "semantic"}
_LEFT, _UNWANTED = 0, 1


@dataclass(frozen=True, slots=True)
class Offering:
    """What a node promises after its start-up test."""

    languages: LanguageCapabilities
    services: tuple[str, ...]
    report: Report

    @classmethod
    def of(cls, report: Report) -> Offering:
        """Word the promise; NothingToOffer when there is none to make."""
        voices = "tts" in report.services
        found: Offer = offer(report.heard, report.pairs, report.spoken if voices else None)
        if not found.heard or not found.offered:
            why = "; ".join(trouble.message for trouble in report.troubles) or "no engines are chosen"
            raise NothingToOffer(f"no language passed the start-up test: {why}")
        languages = LanguageCapabilities(
            asr_languages=found.heard,
            semantic_languages=found.offered,
            tts_languages=tuple(lang for lang in report.spoken if lang in found.offered),
            semantic_core_ready=True,
        )
        services = tuple(kind for name, kind in _SERVICE_TYPES.items() if name in report.services)
        return cls(languages, services, report)

    def lines(self) -> list[str]:
        """Tell people what is offered and what is not."""
        heard, offered = self.languages.asr_languages or (), self.languages.semantic_languages or ()
        report = self.report
        took = f"loaded in {report.load_ms / 1000:.1f} s, tested in {report.test_ms / 1000:.1f} s"
        return [
            f"understands {', '.join(heard)}; translates to {', '.join(offered)} ({took})",
            *(f"not offered: {printable(trouble.message)}" for trouble in report.troubles),
        ]


@asynccontextmanager
async def reference_node(
    options: SpeechOptions,
    *,
    clock: Clock | None = None,
    show: Callable[[str], None] | None = None,
) -> AsyncIterator[Node]:
    """Start the engines, try them, and give a node that is ready to `run`; the engines end with the block.

    NothingToOffer when no language passed; EngineError when the workers could not be started.
    """
    clock = clock or SystemClock()
    tracing = opened(options.tracing, options.node_id or f"{platform.node()}-{os.getpid()}")
    crew = Crew(options, clock)
    try:
        offering = Offering.of(await crew.start())
        for trouble in offering.report.troubles:
            _log.warning(
                "engine_unusable", service=trouble.service, engine=trouble.engine, why=trouble.message
            )
        for line in offering.lines():
            (show or _silent)(line)
        gpus = tuple(Gpu(name=gpu.name, memory_gb=gpu.memory_gb) for gpu in options.gpus)
        node = Node(
            handler=Pipeline(crew, options, clock).handle,
            languages=offering.languages,
            capacity=options.jobs_at_a_time,
            url=options.url,
            about=About(
                node_id=options.node_id,
                services=offering.services,
                gpus=gpus,
                public=options.public,
                region=options.region,
                text_jobs=True,
            ),
            options=options.link,
            clock=clock,
        )
        node.tracer = tracing.tracer if tracing else None
        yield node
    finally:
        await crew.stop()
        if tracing is not None:
            await asyncio.to_thread(tracing.stop)


def run_speech_node(
    config_file: Path | None = None,
    *,
    url: str | None = None,
    node_id: str | None = None,
    capacity: int | None = None,
    token: Secret = Secret(""),  # noqa: B008 it is a str
    show: Callable[[str], None] = print,
) -> int:
    """Run the reference node until a signal; 0 when it left in order, 1 when it cannot work or is not wanted.

    What is given here wins over the file. ConfigError when a setting cannot be used.
    """
    given = {"url": url, "node_id": node_id, "capacity": capacity}
    changes = {name: value for name, value in given.items() if value is not None}
    registry.convert(changes, SpeechOptions, "node")
    options = msgspec.structs.replace(load_speech_options(config_file), **changes)
    if token:
        options = msgspec.structs.replace(options, link=msgspec.structs.replace(options.link, token=token))
    try:
        endpoint(options.url, NODE_PATH)
    except ValueError as error:
        raise ConfigError(f"node.url: {error}") from None
    configure(LogOptions())
    try:
        asyncio.run(_run(options, show))
    except (NodeRefused, NodeGaveUp, NothingToOffer, EngineError) as failure:
        show(f"lingua: {printable(str(failure))}")
        return _UNWANTED
    return _LEFT


async def _run(options: SpeechOptions, show: Callable[[str], None]) -> None:
    show("loading and testing the engines ...")
    async with reference_node(options, show=show) as node:
        announcing = asyncio.create_task(_announce(node, options, show))
        try:
            await node.run()
        finally:
            announcing.cancel()


async def _announce(node: Node, options: SpeechOptions, show: Callable[[str], None]) -> None:
    show(f"connecting to {options.url}")
    await node.registered.wait()
    show(f"registered as {node.node_id}; Ctrl-C finishes its jobs and leaves")


def _silent(_line: str) -> None:
    """Show nothing."""
