"""A large room: one recognition, one job for each other language, one encoding for all who hear the same."""

from __future__ import annotations

import base64
from collections import Counter

from lingua_scheduler.store.connection import StoreOptions
from party import TEXT, Party, party
from world import Speaker

LANGUAGES = ("en", "ja", "de", "fr", "es", "pt")
LISTENERS = 200
UTTERANCES = 3
VOICE = base64.b64encode(b"\x01\x02" * 400).decode()


def language(at: int) -> str:
    """Tell what a listener wants; each language is wanted on every instance."""
    return LANGUAGES[at // 2 % len(LANGUAGES)]


async def enter(room: Party) -> list[Speaker]:
    """Let all of them in, on each instance the same number for each language."""
    houses = room.houses
    guests = [await houses[at % len(houses)].session(audio_format="pcm16") for at in range(LISTENERS)]
    for at, guest in enumerate(guests):
        lang = language(at)
        await guest.send("room_join", room_code=room.code, preferred_lang=lang)
    for guest in guests:
        await guest.expect("room_create_ack")
    return guests


async def test_two_hundred_listeners_in_six_languages_cost_one_recognition(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances, rooms={"capacity": 250}) as room:
        node = await room.node("zh", *LANGUAGES, features=TEXT)
        await room.open("A")
        listeners = await enter(room)
        recognitions: Counter[int] = Counter()
        for index in range(UTTERANCES):
            await room.say("A")
            for _ in LANGUAGES:
                job = await node.job()
                recognitions[index] += "text" not in job
                await node.answer(job, translated=f"{job['tgt_lang']} {index}", tts_audio=VOICE)
        for at, guest in enumerate(listeners):
            for index in range(UTTERANCES):
                heard = await guest.expect("translation_result")
                assert heard["text_translated"] == f"{language(at)} {index}"
        await room.quiet("A")
        assert not any(guest.seen("translation_result") for guest in listeners)
        assert recognitions == dict.fromkeys(range(UTTERANCES), 1)
        assert not node.seen("job_assign")

        def total(name: str) -> float:
            return sum(house.counted(name) for house in room.houses)

        ends = UTTERANCES * len(LANGUAGES)
        assert total("room_results_total") == ends
        assert total("room_deliveries_total") == UTTERANCES * LISTENERS
        assert total("room_encodings_total") == ends * instances, "one more where text goes beside the voice"
        assert total("room_text_jobs_total") == UTTERANCES * (len(LANGUAGES) - 1)
        for guest in listeners:
            await guest.socket.close()
