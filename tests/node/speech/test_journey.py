"""The story of a person who speaks English for ten seconds, through the scheduler and the default engines."""

from __future__ import annotations

import asyncio
import base64

import pytest

from lingua_scheduler.core.audio import pack, packets
from lingua_scheduler.node import LinkOptions
from lingua_scheduler.node.speech import EngineChoice, SpeechOptions, reference_node
from lingua_scheduler.wire.opus import decode_opus, encode_opus
from node.speech.conftest import needs
from node.speech.recordings import BECKETT, recording, word_errors, words
from node.speech.test_chain import CHAIN
from world import world

pytestmark = [needs(*CHAIN, "moonshine_voice"), pytest.mark.usefixtures("engines_installed")]

PACKETS_IN_A_FRAME = 5


def frames(opus: bytes) -> list[bytes]:
    """Cut Opus into frames of 100 ms, as a client sends them."""
    found = packets(opus) or ()
    return [pack(found[at : at + PACKETS_IN_A_FRAME]) for at in range(0, len(found), PACKETS_IN_A_FRAME)]


async def test_ten_seconds_of_english_come_back_in_portuguese_piece_by_piece(store_options) -> None:
    """The scheduler cuts every four seconds; still every word is translated once, in order, with a voice."""
    person = recording("beckett.wav", BECKETT)
    async with world(store_options, segmentation={"max_duration_ms": 4000}) as house:
        options = SpeechOptions(
            url=house.instance.url,
            asr=(EngineChoice("whisper", {"model": "tiny.en"}),),
            link=LinkOptions(handle_signals=False),
        )
        async with reference_node(options) as node:
            running = asyncio.create_task(node.run())
            await node.registered.wait()
            speaker = await house.session(src_lang="en", tgt_lang="pt", audio_format="opus")
            for frame in frames(encode_opus(person.pcm16)):
                await speaker.chunk(frame)
            await speaker.final()
            results = [
                await speaker.expect("translation_result", utterance_index=index) for index in range(3)
            ]
            await speaker.sync()
            node.stop()
            await running
    heard = " ".join(result["text_asr"] for result in results)
    assert word_errors(BECKETT, heard) <= 0.2, heard
    translated = words(" ".join(result["text_translated"] for result in results))
    assert {"falhou", "importa", "tente"} <= set(translated), translated
    for result in results:
        assert result["tts_format"] == "opus"
        assert len(decode_opus(base64.b64decode(result["tts_audio"]))) > 16000
        assert set(result["service_timings"]) == {"asr_ms", "nmt_ms", "tts_ms", "total_ms"}
