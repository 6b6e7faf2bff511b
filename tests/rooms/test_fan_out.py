"""What is said in a room reaches everybody in their own language (cases 107 to 113)."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.store.connection import StoreOptions
from party import TEXT, party
from world import FakeNode

TEXTS = {"en": "hello", "ja": "konnichiwa", "de": "hallo", "zh": "你好"}


async def jobs(node: FakeNode, *langs: str) -> dict[str, dict[str, Any]]:
    """Take the jobs of one utterance, by language."""
    return {lang: await node.job(tgt_lang=lang) for lang in langs}


async def answer(node: FakeNode, job: dict[str, Any], **fields: Any) -> None:
    """Answer a job in its language."""
    await node.answer(job, translated=TEXTS[job["tgt_lang"]], **fields)


async def test_one_job_for_each_language_that_is_wanted(store_options: StoreOptions, instances: int) -> None:
    """107."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B", "C", "D")
        await room.say("A")
        found = await jobs(node, "en", "ja")
        assert {job["utterance_index"] for job in found.values()} == {0}
        assert len({job["turn_id"] for job in found.values()}) == 1
        assert {job["session_id"] for job in found.values()} == {room["A"].id}
        for _ in range(2):
            await room["A"].expect("ui_event", event="DISPATCHED")
        await room.quiet()
        assert not node.seen("job_assign")


async def test_each_result_goes_to_exactly_its_listeners(store_options: StoreOptions, instances: int) -> None:
    """108."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B", "C", "D")
        await room.say("A")
        for job in (await jobs(node, "en", "ja")).values():
            await answer(node, job)
        for name, lang in (("B", "en"), ("C", "en"), ("D", "ja")):
            result = await room[name].expect("translation_result")
            assert result["text_translated"] == TEXTS[lang]
            assert result["session_id"] == result["speaker_session_id"] == room["A"].id
            assert result["speaker_name"] == "A"
            assert result["tgt_lang"] == lang
        await room["A"].expect("ui_event", event="ASR_FINAL")
        await room["A"].expect("ui_event", event="NMT_DONE")
        await room.quiet()
        for name in "ABCD":
            assert not room[name].seen("translation_result")
            assert name == "A" or not room[name].seen("ui_event")


async def test_languages_that_end_at_the_same_instant_are_never_mixed_up(
    store_options: StoreOptions, instances: int
) -> None:
    """109."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B", "C", "D")
        for index in range(30):
            await room.say("A")
            found = await jobs(node, "en", "ja")
            for lang in ("en", "ja") if index % 2 else ("ja", "en"):
                await node.answer(found[lang], translated=f"{lang} {index}")
        await room.quiet()
        for name, lang in (("B", "en"), ("C", "en"), ("D", "ja")):
            heard = [message["text_translated"] for message in room[name].seen("translation_result")]
            assert heard == [f"{lang} {index}" for index in range(30)]


async def test_who_is_alone_hears_a_translation_as_outside(
    store_options: StoreOptions, instances: int
) -> None:
    """110, 111: and so does who is listened to by nobody who said in which language."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.open("A")
        for _ in range(2):
            await room.say("A")
            job = await node.job()
            assert job["tgt_lang"] == "en"
            await node.answer(job)
            assert (await room["A"].expect("translation_result"))["text_translated"] == "hello"
            if "B" not in room.guests:
                await room.join("B", preferred_lang=None)
        await room.quiet()
        assert not room["B"].seen("translation_result")


async def test_a_language_without_a_node_does_not_stop_the_others(
    store_options: StoreOptions, instances: int
) -> None:
    """112."""
    async with party(store_options, instances) as room:
        node = await room.node("zh", "en")
        await room.everybody("A", "D", "B")
        await room.say("A")
        await node.answer(await node.job(tgt_lang="en"))
        assert (await room["B"].expect("translation_result"))["tgt_lang"] == "en"
        await room["A"].expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        room.house("A").clock.advance(11)
        missing = await room["D"].expect("missing_result")
        assert (missing["reason"], missing["session_id"]) == ("no_available_node", room["A"].id)


async def test_a_failed_language_is_missing_for_its_listeners_only(
    store_options: StoreOptions, instances: int
) -> None:
    """113."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B", "D")
        await room.say("A")
        found = await jobs(node, "en", "ja")
        await node.fail(found["ja"], "PROCESSING_ERROR")
        await answer(node, found["en"])
        await room["A"].expect("ui_event", event="ERROR")
        missing = await room["D"].expect("missing_result", utterance_index=0)
        assert missing["tgt_lang"] == "ja"
        await room["B"].expect("translation_result")
        await room.quiet()
        assert not room["A"].seen("missing_result")
        assert not room["B"].seen("missing_result")


async def test_who_leaves_while_the_job_runs_hears_nothing(
    store_options: StoreOptions, instances: int
) -> None:
    """115, F25; who has come meanwhile hears it."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B")
        await room.say("A")
        job = await node.job()
        await room["B"].send("room_leave", room_code=room.code)
        await room["B"].sync()
        await room.quiet()
        late = await room.arrive("C")
        await late.send("room_join", room_code=room.code, preferred_lang="en")
        await late.expect("room_create_ack")
        await node.answer(job)
        await late.expect("translation_result")
        await room.quiet()
        assert not room["B"].seen("translation_result")


async def test_a_speaker_who_has_left_is_still_heard(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B")
        await room.say("A")
        job = await node.job()
        await room["A"].send("room_leave", room_code=room.code)
        await room["A"].sync()
        await node.answer(job)
        assert (await room["B"].expect("translation_result"))["speaker_name"] == "A"
        await room.say("A")
        job = await node.job()
        await node.answer(job)
        await room["A"].expect("translation_result")
        await room.quiet()
        assert not room["B"].seen("translation_result")


async def test_everybody_speaks_and_hears_the_others(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B", "D")
        for speaker, langs in (("A", ("en", "ja")), ("B", ("zh", "ja")), ("D", ("zh", "en"))):
            await room.say(speaker)
            for job in (await jobs(node, *langs)).values():
                await answer(node, job)
            for listener, lang in (("A", "zh"), ("B", "en"), ("D", "ja")):
                if listener != speaker:
                    heard = await room[listener].expect("translation_result")
                    assert (heard["speaker_name"], heard["tgt_lang"]) == (speaker, lang)
        await room.quiet()
        assert not any(guest.seen("translation_result") for guest in room.guests.values())


# One recognition


async def test_other_languages_get_the_words_the_first_one_recognised(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node(features=TEXT)
        await room.everybody("A", "B", "C", "D")
        await room.say("A")
        first = await node.job()
        assert first["tgt_lang"] == "en"
        assert "text" not in first
        await room.quiet()
        assert not node.seen("job_assign")
        await answer(node, first, asr="大家好")
        second = await node.job()
        assert (second["tgt_lang"], second["text"], second["audio"]) == ("ja", "大家好", b"")
        assert second["pipeline"]["use_asr"] is False
        assert second["turn_id"] == first["turn_id"]
        await answer(node, second, text_asr=None)
        assert (await room["B"].expect("translation_result"))["text_translated"] == "hello"
        heard = await room["D"].expect("translation_result")
        assert (heard["text_asr"], heard["text_translated"]) == ("大家好", "konnichiwa")


async def test_words_are_passed_on_before_they_are_translated(store_options: StoreOptions) -> None:
    """As soon as the node says that it has understood everything."""
    async with party(store_options, 1) as room:
        node = await room.node(features=TEXT)
        await room.everybody("A", "B", "D")
        await room.say("A")
        first = await node.job()
        about = {key: first[key] for key in ("job_id", "session_id", "utterance_index", "trace_id")}
        await node.send("asr_partial", node_id=node.id, text="大", is_final=False, **about)
        await node.send("asr_partial", node_id=node.id, text="大家", is_final=True, **about)
        second = await node.job()
        assert second["text"] == "大家"
        await answer(node, second)
        await room["D"].expect("translation_result")
        await answer(node, first, asr="大家")
        await room["B"].expect("translation_result")
        await room.quiet()
        assert not node.seen("job_assign")


async def test_when_nothing_was_said_nobody_translates_it(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node(features=TEXT)
        await room.everybody("A", "B", "D")
        await room.say("A")
        await node.answer(await node.job(), asr="", translated="")
        for name in "BD":
            assert (await room[name].expect("missing_result"))["reason"] == "silence_detected"
        await room.quiet()
        assert not node.seen("job_assign")
        assert not room.house("A").instance.sessions.get(room["A"].id).jobs


async def test_when_the_first_language_fails_the_others_hear_for_themselves(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node(features=TEXT)
        await room.everybody("A", "B", "D")
        await room.say("A")
        await node.fail(await node.job(tgt_lang="en"), "PROCESSING_ERROR")
        second = await node.job(tgt_lang="ja")
        assert "text" not in second
        assert second["audio"] == b"\xff" * 600
        await answer(node, second)
        await room["D"].expect("translation_result")
        await room["B"].expect("missing_result")


async def test_who_speaks_the_speakers_language_reads_the_words(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B")
        await room.join("E", preferred_lang="zh")
        for index in range(3):
            await room.say("A")
            await node.answer(await node.job(), asr=f"话 {index}")
        for index in range(3):
            shown = await room["E"].expect("translation_result")
            assert (shown["text_asr"], shown["text_translated"]) == (f"话 {index}", "")
            assert (shown["tgt_lang"], shown["tts_audio"], shown["utterance_index"]) == ("zh", "", index)
            await room["B"].expect("translation_result")
        await room.quiet()
        assert not node.seen("job_assign")
        assert not room["E"].seen("translation_result")
        assert len(room["A"].seen("ui_event", event="ASR_FINAL")) == 3


async def test_among_people_of_one_language_nothing_is_translated(store_options: StoreOptions) -> None:
    async with party(store_options, 1) as room:
        node = await room.node()
        await room.open("A")
        await room.join("E", preferred_lang="zh")
        await room.say("A")
        await room.quiet()
        assert not node.seen("job_assign")
        assert not room["E"].seen("missing_result")
        await room["A"].send("session_close", session_id=room["A"].id, reason="bye")
        await room["A"].expect("session_close_ack")


async def test_someone_who_may_speak_two_languages_is_understood_in_both(store_options: StoreOptions) -> None:
    """The node is asked for what each listener wants, never for the other language of a two-way talk."""
    two_way = {"src_lang": "auto", "tgt_lang": "en", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
    async with party(store_options, 1) as room:
        node = await room.node(features=TEXT)
        await room.open("A", wish=two_way)
        await room.join("B")
        await room.join("E", preferred_lang="zh")
        await room.say("A")
        first = await node.job()
        assert (first["tgt_lang"], first["src_lang"], first["auto_langs"]) == ("en", "auto", ["zh", "en"])
        assert "lang_a" not in first
        await answer(node, first, extra={"detected_src_lang": "zh"})
        second = await node.job()
        assert (second["tgt_lang"], second["src_lang"], second["text"]) == ("zh", "zh", "你好")


async def test_closing_waits_for_what_was_said_in_the_room(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node(features=TEXT)
        await room.everybody("A", "B", "D")
        await room["A"].chunk(600)
        await room["A"].send("session_close", session_id=room["A"].id, reason="bye")
        await answer(node, await node.job(tgt_lang="en"))
        await answer(node, await node.job(tgt_lang="ja"))
        await room["A"].expect("session_close_ack")
        await room["B"].expect("translation_result")
        await room["D"].expect("translation_result")
