"""The reference node promises only what it has tried, and serves it to a scheduler."""

from __future__ import annotations

import asyncio

import pytest

from client.scripted import ScriptedServer
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.node import LinkOptions
from lingua_scheduler.node.speech import NothingToOffer, SpeechOptions, reference_node, run_speech_node
from lingua_scheduler.node.speech.calls import Report, Trouble
from lingua_scheduler.node.speech.options import GpuOptions
from lingua_scheduler.node.speech.reference import Offering
from lingua_scheduler.wire.codec import decode_node
from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
)
from node.jobs import assign
from node.speech import tiny
from node.speech.conftest import TINY

LINK = LinkOptions(handle_signals=False)


def options(**settings) -> SpeechOptions:
    return SpeechOptions(**{**TINY, "link": LINK, **settings})


@pytest.fixture
async def scheduler():
    async with ScriptedServer("/ws/node", decode_node) as made:
        yield made


async def test_a_job_goes_from_the_scheduler_through_the_engines_and_back(scheduler) -> None:
    async with reference_node(options(url=scheduler.url, node_id="node-1", capacity=3)) as node:
        running = asyncio.create_task(node.run())
        peer = await scheduler.peer()
        register = await peer.hear(NodeRegister)
        assert (register.node_id, register.max_concurrent_jobs) == ("node-1", 3)
        languages = register.language_capabilities
        assert (
            languages.asr_languages == languages.semantic_languages == languages.tts_languages == ("en", "pt")
        )
        assert [service.type for service in register.installed_services] == ["asr", "nmt", "tts"]
        await peer.say(NodeRegisterAck(node_id="node-1", message="ok"))
        await peer.hear(NodeHeartbeat)
        await peer.say(assign(audio=tiny.spoken("hello world"), partial_update_interval_ms=60_000))
        await peer.hear(JobAck)
        await peer.hear(JobStarted)
        assert (await peer.hear(AsrPartial)).text == "hello"
        result = await peer.hear(JobResult)
        assert (result.success, result.text_asr, result.text_translated) == (True, "hello world", "olá mundo")
        assert set(result.extra["service_timings"]) == {"asr_ms", "nmt_ms", "tts_ms", "total_ms"}
        node.stop()
        await running


async def test_what_failed_its_test_is_not_offered_and_told(scheduler) -> None:
    """Without a voice the node still takes jobs that want none; the scheduler sees that it has no tts."""
    lines: list[str] = []
    settings = options(
        url=scheduler.url, tts=tiny.choice(tiny.Mute), gpus=(GpuOptions(name="card", memory_gb=8),)
    )
    async with reference_node(settings, show=lines.append) as node:
        running = asyncio.create_task(node.run())
        register = await (await scheduler.peer()).hear(NodeRegister)
        node.stop()
        await running
    assert [service.type for service in register.installed_services] == ["asr", "nmt"]
    assert register.language_capabilities.tts_languages == ()
    assert register.hardware.gpus[0].memory_gb == 8
    assert lines[0].startswith("understands en, pt; translates to en, pt (loaded in ")
    assert [line.partition(":Mute ")[2] for line in lines[1:]] == [
        "failed its test for en: gave nothing",
        "failed its test for pt: gave nothing",
    ]


def test_a_voice_that_failed_takes_its_language_out_of_the_offer() -> None:
    trouble = Trouble(service="tts", engine="espeak", message="tts: the engine espeak failed")
    offering = Offering.of(
        Report(
            services=("asr", "nmt", "tts", "repair"),
            heard=("en",),
            pairs=(("en", "pt"), ("en", "es")),
            spoken=("en", "pt"),
            troubles=(trouble,),
        )
    )
    assert offering.languages.semantic_languages == ("en", "pt")
    assert offering.services == ("asr", "nmt", "tts", "semantic")
    assert offering.lines()[1] == "not offered: tts: the engine espeak failed"


def test_a_report_without_languages_offers_nothing() -> None:
    with pytest.raises(NothingToOffer, match="no engines are chosen"):
        Offering.of(Report())


def test_a_missing_engine_is_named_and_ends_the_command(tmp_path) -> None:
    lines: list[str] = []
    file = tmp_path / "node.toml"
    file.write_text(
        "[node]\nvad = []\nnmt = []\ntts = []\n"
        f"[node.asr]\nengine = '{tiny.__name__}:FragileEars'\nfile = '{tmp_path}/no'"
    )
    assert run_speech_node(file, show=lines.append) == 1
    assert (
        lines[-1]
        == f"lingua: no language passed the start-up test: asr: {tmp_path}/no is missing: put it back"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("url", "http//nowhere"), ("url", "ftp://host"), ("node_id", "two words"), ("capacity", -1)],
)
def test_what_cannot_be_used_is_refused_by_name(name, value) -> None:
    with pytest.raises(ConfigError, match=rf"node\.{name}"):
        run_speech_node(**{name: value})
