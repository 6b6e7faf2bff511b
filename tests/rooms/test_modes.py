"""How members take in what others say: voice, captions, text; and who can play which voice."""

from __future__ import annotations

import base64
from typing import Any

from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.wire.opus import decode_opus, encode_opus
from party import party
from world import FakeNode

PCM = b"\x10\x20" * 1600


async def spoken(node: FakeNode, job: dict[str, Any], voice: bytes = PCM, tts_format: str = "pcm16") -> None:
    """Answer a job with a voice."""
    audio = base64.b64encode(voice).decode()
    await node.answer(job, translated=f"in {job['tgt_lang']}", tts_audio=audio, tts_format=tts_format)


async def test_nobody_speaks_for_those_who_only_read(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B", mode="captions")
        await room.join("D", mode="text")
        await room.join("E", preferred_lang="de")
        await room.say("A")
        steps = {}
        for lang in ("en", "ja", "de"):
            job = await node.job(tgt_lang=lang)
            steps[lang] = job["pipeline"]["use_tts"]
            await spoken(node, job, PCM if steps[lang] else b"")
        assert steps == {"en": False, "ja": False, "de": True}
        for name, voice in (("B", b""), ("D", b""), ("E", PCM)):
            heard = await room[name].expect("translation_result")
            assert base64.b64decode(heard["tts_audio"]) == voice


async def test_who_reads_gets_no_voice_that_others_hear(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B")
        await room.join("C", mode="text")
        await room.join("F", preferred_lang="en")
        await room.say("A")
        job = await node.job()
        assert job["pipeline"]["use_tts"] is True
        await spoken(node, job)
        for name, voice in (("B", PCM), ("C", b""), ("F", PCM)):
            heard = await room[name].expect("translation_result")
            assert base64.b64decode(heard["tts_audio"]) == voice
            assert heard["text_translated"] == "in en"


async def test_a_mode_can_be_changed_in_the_room(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B")
        for mode, voiced in (("text", False), ("voice", True)):
            await room["B"].send("room_change", room_code=room.code, mode=mode)
            await room.quiet()
            await room.say("A")
            job = await node.job()
            assert job["pipeline"]["use_tts"] is voiced
            await node.answer(job)
            await room["B"].expect("translation_result")


async def test_who_reads_captions_sees_what_is_being_said(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B", mode="captions")
        await room.join("C")
        await room.join("D", mode="captions")
        await room.say("A")
        for lang in ("en", "ja"):
            job = await node.job(tgt_lang=lang)
            about = {key: job[key] for key in ("job_id", "session_id", "utterance_index", "trace_id")}
            await node.send("asr_partial", node_id=node.id, text="大", is_final=False, **about)
        for name in "BD":
            seen = await room[name].expect("asr_partial")
            assert (seen["text"], seen["session_id"]) == ("大", room["A"].id)
        await room.quiet()
        assert len(room["A"].seen("asr_partial")) == 1
        assert not any(room[name].seen("asr_partial") for name in "BCD")


async def test_clients_that_name_no_format_get_samples(store_options: StoreOptions, instances: int) -> None:
    """The web client of the first generation plays every voice in a room as samples of 16 kHz."""
    voice = encode_opus(bytes(16000))
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B")
        await room.join("C", wish={"audio_format": "opus"})
        await room.join("F", preferred_lang="en")
        await room.say("A")
        await spoken(node, await node.job(), voice, "opus")
        for name in "BF":
            heard = await room[name].expect("translation_result")
            assert heard["tts_format"] == "pcm16"
            assert base64.b64decode(heard["tts_audio"]) == decode_opus(voice)
        heard = await room["C"].expect("translation_result")
        assert (heard["tts_format"], base64.b64decode(heard["tts_audio"])) == ("opus", voice)


async def test_a_voice_that_cannot_be_read_is_left_out(store_options: StoreOptions) -> None:
    async with party(store_options, 1) as room:
        node = await room.node()
        await room.everybody("A", "B")
        await room.say("A")
        await spoken(node, await node.job(), b"\xff\xffno", "opus")
        heard = await room["B"].expect("translation_result")
        assert (heard["text_translated"], heard["tts_audio"]) == ("in en", "")


async def test_voices_do_not_travel_in_letters(store_options: StoreOptions) -> None:
    async with party(store_options, 2) as room:
        node = await room.node()
        bodies: list[bytes] = []
        for house in room.houses:
            inbox = house.instance.stores.inbox
            send = inbox.send

            async def spy(to: Any, body: bytes, send: Any = send) -> Any:
                bodies.append(body)
                return await send(to, body)

            inbox.send = spy  # type: ignore[method-assign]
        await room.everybody("A", "B", "C")
        await room.say("A")
        await spoken(node, await node.job(), PCM * 20)
        for name in "BC":
            assert base64.b64decode((await room[name].expect("translation_result"))["tts_audio"]) == PCM * 20
        assert max(map(len, bodies)) < 2000
        assert sum(b"peer_heard" in body for body in bodies) == 1
