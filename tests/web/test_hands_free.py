"""Hands-free: sentences are told apart by their pauses, and the page does not listen to its own voice."""

from __future__ import annotations

import pytest

from lingua_scheduler.node.job import Translation
from support import wait_until
from web.roommate import gathering
from web.sound import speech, voice
from web.talker import house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def microphone(tmp_path_factory):
    """Make what the browser's microphone hears: a sentence, a pause, and so on."""
    return speech(tmp_path_factory.mktemp("sound") / "sentences.wav", 1.2, pause_s=1.8)


async def test_hands_free_translates_sentence_after_sentence(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.click("#mode-free")
        await person.start()
        assert person.wire.said("session_init")[0]["endpointing"] == "adaptive"

        for _ in range(2):
            await node.answer(await node.next_job(timeout_s=20))

        await person.sees('.line[data-state="done"]', count=2)
        await person.page.click("#talk")
        await person.reads("#talk-text", "Paused")
        assert await person.page.get_attribute("#talk", "aria-pressed") == "false"


async def test_hands_free_does_not_listen_to_its_own_voice(browser, store_options):
    """While the voice is heard, for longer than from one sentence to the next, nothing is sent."""
    sound = Translation(text_asr="a", text_translated="b", tts_audio=voice(3.2), tts_format="opus")
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.click("#mode-free")
        await person.start()
        await node.answer(await node.next_job(timeout_s=20), sound)
        await person.reads("#talk-text", "Playing")
        await person.reads("#hint", "Not listening")
        await wait_until(lambda: person.said("tts_play_ended"), description="the voice was heard")

        [started], [ended] = person.said("tts_started"), person.said("tts_play_ended")

        assert ended["frames before"] - started["frames before"] <= 3  # what was under way, and its end


async def test_hands_free_with_headphones_listens_all_the_time(browser, store_options):
    """The server is not told that a voice begins: it would take silence for playback."""
    sound = Translation(text_asr="a", text_translated="b", tts_audio=voice(3.2), tts_format="opus")
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.click("#mode-free")
        await person.page.click("#headphones")
        await person.start()
        await node.answer(await node.next_job(timeout_s=20), sound)
        await person.sees("#skip:enabled")
        heard = person.frames

        await wait_until(lambda: person.said("tts_play_ended"), description="the voice was heard")

        assert person.said("tts_play_ended")[0]["frames before"] > heard + 5
        assert not person.said("tts_started")
        assert await person.page.inner_text("#talk-text") == "Listening"


async def test_hands_free_in_a_room_others_hear_sentence_after_sentence(browser, store_options):
    """The way of talking changes within one session, and a break silences the own voice, too."""
    people = [{"name": "Ann", "lang": "en"}, {"name": "Bo", "lang": "pt"}]
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, *people) as (ann, bo),
    ):
        await ann.connected(1)
        await ann.page.click("#mode-free")
        for _ in range(2):
            await node.answer(await node.next_job(timeout_s=20))
        await bo.reads_line("Ann", "utterance 1 in pt", "utterance 1")
        assert len(ann.said("session_init")) == 1

        await ann.page.click("#talk")
        await ann.reads("#talk-text", "Paused")
        enabled = "() => calls[0].getSenders()[0].track.enabled"
        assert await ann.page.evaluate(enabled) is False
        await ann.page.click("#talk")
        assert await ann.page.evaluate(enabled) is True
