"""What was said, for those who took part: kept while it lives, read by token, gone afterwards."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec
import pytest

from comeback import RESUMES, left, resumed
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.room_ledger import Newcomer
from lingua_scheduler.core.transcript import Line, make_token
from lingua_scheduler.errors import DependencyDown, StoreError
from support import wait_until
from world import FakeNode, Speaker, World, world

SESSION = "/api/v1/transcripts/session"


async def get(house: World, token: str | None, path: str = SESSION, **query: str) -> tuple[int, str, Any]:
    """Ask for a transcript; give status, text and headers."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{house.instance.url}{path}", headers=headers, params=query) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


async def entries(house: World, token: str, path: str = SESSION, **query: str) -> list[dict[str, Any]]:
    status, text, _ = await get(house, token, path, format="json", **query)
    assert status == 200, text
    return msgspec.json.decode(text)["entries"]


async def written(house: World) -> None:
    await wait_until(lambda: not len(house.instance.transcripts), description="the transcript is written")


async def talk(
    house: World, speaker: Speaker, node: FakeNode, *texts: tuple[str, str], **result: Any
) -> None:
    """Say something, and have it translated and kept."""
    for asr, translated in texts:
        await speaker.say()
        await node.answer(await node.job(), asr, translated, **result)
        await speaker.expect("translation_result", text_asr=asr)
    await written(house)


def token_of(speaker: Speaker) -> str:
    return speaker.ack["transcript_token"]


async def transcript_keys(house: World) -> list[str]:
    found = await house.redis("KEYS", f"{house.instance.config.redis.key_prefix}:*transcript*")
    return sorted(key.decode() for key in found)


async def test_a_client_reads_what_it_said_and_what_became_of_it(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        house.clock.advance(3)
        await node.beat()
        await talk(house, speaker, node, ("你好", "hello"), ("再见", "bye"))
        first, second = await entries(house, token_of(speaker))
        assert (first["index"], first["lang"], first["text"]) == (0, "zh", "你好")
        assert (first["speaker"], first["translations"]) == (speaker.id, {"en": "hello"})
        assert 2000 <= first["began_ms"] <= first["ended_ms"] <= 3000
        assert (second["index"], second["text"]) == (1, "再见")


@pytest.mark.parametrize(
    ("kind", "content_type", "begins"),
    [
        ("txt", "text/plain", "Transcript of a session\n"),
        ("json", "application/json", "{"),
        ("srt", "application/x-subrip", "1\n00:00:00,"),
        ("vtt", "text/vtt", "WEBVTT\n"),
    ],
)
async def test_every_kind_of_file_is_given_as_a_download_that_nothing_keeps(
    store_options, kind, content_type, begins
):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        status, text, headers = await get(house, token_of(speaker), format=kind, lang="EN")
        assert status == 200
        assert text.startswith(begins)
        assert "hello" in text
        assert headers["Content-Type"] == f"{content_type}; charset=utf-8"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Disposition"].startswith('attachment; filename="session-')
        assert headers["Content-Disposition"].endswith(f'-en.{kind}"')
        assert not [name for name in headers if name.startswith("Access-Control") or name == "Set-Cookie"]


async def test_source_and_translation_can_be_had_alone(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        source = (await get(house, token_of(speaker), show="source"))[1]
        translated = (await get(house, token_of(speaker), show="translated"))[1]
        assert ("你好" in source, "hello" in source) == (True, False)
        assert ("你好" in translated, "hello" in translated) == (False, True)


async def test_who_has_no_right_to_it_learns_nothing(store_options):
    """No token, a wrong one, one of another secret, of a session unknown or silent: all are told the same."""
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        silent = await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        secret, mine = house.instance.sessions.secret, token_of(speaker)
        wrong = [
            None,
            "",
            "x",
            mine[:-1],
            make_token(b"other", SessionId(speaker.id)),
            make_token(secret, SessionId("s-unknown")),
            token_of(silent),
            speaker.ack["resume_token"],
            speaker.id,
        ]
        answers = [await get(house, token) for token in wrong]
        assert {(status, text) for status, text, _ in answers} == {(404, answers[0][1])}
        alike = [{name: value for name, value in each.items() if name != "Date"} for _, _, each in answers]
        assert all(each == alike[0] for each in alike)
        assert alike[0]["Content-Type"] == "application/problem+json"
        assert alike[0]["Cache-Control"] == "no-store"


async def test_a_token_in_the_address_or_a_cookie_counts_for_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        assert (await get(house, None, access_token=token_of(speaker)))[0] == 400
        headers = {"Cookie": f"token={token_of(speaker)}"}
        async with aiohttp.ClientSession() as http:
            url = f"{house.instance.url}{SESSION}"
            assert (await http.get(url, headers=headers)).status == 404


@pytest.mark.parametrize(
    "query", [{"format": "pdf"}, {"show": "all"}, {"lang": 'x"y'}, {"lang": "x" * 36}, {"size": "1"}]
)
async def test_a_wish_that_makes_no_sense_is_refused_with_a_problem(store_options, query):
    async with world(store_options) as house:
        speaker = await house.session()
        status, text, headers = await get(house, token_of(speaker), **query)
        assert (status, headers["Content-Type"]) == (400, "application/problem+json")
        assert msgspec.json.decode(text)["title"] == "Bad Request"


async def test_who_asks_too_often_waits_a_minute(store_options):
    """Each token has its own count; all that are wrong share one for each address."""
    async with world(store_options, transcript={"reads_per_minute": 2}) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        mine = token_of(speaker)
        assert [(await get(house, mine))[0] for _ in range(3)] == [200, 200, 429]
        assert [(await get(house, token))[0] for token in ("a", "b", "c")] == [404, 404, 429]
        assert (await get(house, mine))[2]["Retry-After"] == "60"
        house.clock.advance(60)
        assert (await get(house, mine))[0] == 200


async def test_off_there_is_no_token_no_key_and_nothing_to_read(store_options):
    async with world(store_options, transcript={"enabled": False}) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        assert "transcript_token" not in speaker.ack
        assert await transcript_keys(house) == []
        assert house.counted("store_call_total", script="transcript_keep", result="ok") == 0
        token = make_token(house.instance.sessions.secret, SessionId(speaker.id))
        assert (await get(house, token))[0] == 404


async def test_it_can_be_read_for_a_while_after_the_session_ended(store_options):
    async with world(store_options, transcript={"keep_s": 120}) as house:
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await speaker.expect("session_close_ack")
        await wait_until(lambda: not len(house.instance.sessions.records), description="it is erased")
        assert len(await entries(house, token_of(speaker))) == 1
        longest_ms = (120 + house.instance.config.lives.session_lease_s) * 1000
        for key in await transcript_keys(house):
            assert 0 < await house.redis("PTTL", key) <= longest_ms


async def test_a_session_that_goes_on_elsewhere_keeps_its_transcript(store_options):
    """Results that are told again there are not kept twice, and any instance gives the whole."""
    async with world(store_options) as house, world(store_options) as neighbour:
        node = await house.node()
        speaker = await house.session(**RESUMES)
        await talk(house, speaker, node, ("你好", "hello"))
        await left(house, speaker)
        back = await resumed(neighbour, speaker)
        assert back.ack["resumed"] is True
        assert token_of(back) == token_of(speaker)
        await back.expect("translation_result", utterance_index=0)
        await written(neighbour)
        there = await neighbour.node()
        await back.say()
        node_asked, job = await neighbour.taken(node, there)
        await node_asked.answer(job, "再见", "bye")
        await back.expect("translation_result", utterance_index=1)
        await written(neighbour)
        for each in (house, neighbour):
            told = await entries(each, token_of(speaker))
            assert [(entry["index"], entry["text"]) for entry in told] == [(0, "你好"), (1, "再见")]
            assert told[0]["lang"] == "zh"


async def test_a_result_the_first_owner_could_not_keep_is_kept_by_the_next(store_options):
    async with world(store_options) as house, world(store_options) as neighbour:

        async def refuse(*_: Any, **__: Any) -> None:
            raise StoreError("no")

        house.instance.stores.transcripts.keep = refuse
        node = await house.node()
        speaker = await house.session(**RESUMES)
        await talk(house, speaker, node, ("你好", "hello"))
        await left(house, speaker)
        back = await resumed(neighbour, speaker)
        await back.expect("translation_result", utterance_index=0)
        await written(neighbour)
        told = await entries(neighbour, token_of(back))
        assert [(entry["text"], entry["translations"]) for entry in told] == [("你好", {"en": "hello"})]


async def test_while_redis_cannot_take_a_line_results_are_delivered_and_it_is_kept_later(store_options):
    async with world(store_options) as house:
        ledger = house.instance.stores.transcripts
        real, refused = ledger.keep, 0

        async def away_once(line: Line, **values: Any) -> None:
            nonlocal refused
            refused += 1
            if refused == 1:
                raise DependencyDown("away")
            await real(line, **values)

        ledger.keep = away_once
        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("你好", "hello"))
        assert refused == 2
        assert len(await entries(house, token_of(speaker))) == 1


async def test_when_it_cannot_be_read_now_that_is_said(store_options):
    async with world(store_options) as house:
        speaker = await house.session()

        async def away(*_: Any) -> None:
            raise DependencyDown("away")

        house.instance.stores.transcripts.of_session = away
        status, text, _ = await get(house, token_of(speaker))
        assert (status, msgspec.json.decode(text)["title"]) == (503, "Service Unavailable")


async def test_what_was_said_is_in_no_log(store_options, capfd):
    async with world(store_options, log={"level": "debug"}) as house:

        async def refuse(*_: Any, **__: Any) -> None:
            raise StoreError("no")

        node, speaker = await house.node(), await house.session()
        await talk(house, speaker, node, ("canary-one", "canary-two"))
        await get(house, token_of(speaker))
        house.instance.stores.transcripts.keep = refuse
        await talk(house, speaker, node, ("canary-three", "canary-four"))
    said = "".join(capfd.readouterr())
    assert "transcript_line_lost" in said
    assert "canary" not in said


async def test_of_two_languages_each_line_says_which_was_spoken(store_options):
    async with world(store_options) as house:
        node = await house.node()
        both = {"src_lang": "auto", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
        speaker = await house.session(**both)
        await talk(house, speaker, node, ("你好", "hello"), extra={"detected_src_lang": "zh"})
        await talk(house, speaker, node, ("yes", "是"), extra={"detected_src_lang": "en"})
        await talk(house, speaker, node, ("hm", "hm!"), extra={"detected_src_lang": 7})
        told = await entries(house, token_of(speaker))
        assert [(entry["lang"], entry["translations"]) for entry in told] == [
            ("zh", {"en": "hello"}),
            ("en", {"zh": "是"}),
            (None, {"en": "hm!"}),
        ]


async def test_what_was_said_in_a_room_is_for_those_who_were_there(store_options):
    async with world(store_options) as house:
        anna, bo, chen = [await house.session() for _ in range(3)]
        owner, rooms = house.instance.id, house.instance.stores.rooms
        room = await rooms.create(Newcomer(SessionId(anna.id), owner, 1))
        await rooms.join(room.code, Newcomer(SessionId(bo.id), owner, 1))
        said = Line(
            speaker=SessionId(anna.id),
            index=0,
            at_ms=room.spoken_ms + 1000,
            lang="zh",
            text="你好",
            tgt_lang="en",
            translation="hello",
            name="Anna",
        )
        house.instance.transcripts.said_in_room(room.code, room.room_id, said)
        await written(house)
        await rooms.leave(room.code, SessionId(bo.id), epoch=1)
        path = f"/api/v1/transcripts/room/{room.code}"
        for member in (anna, bo):
            told = await entries(house, token_of(member), path)
            assert [(entry["name"], entry["text"]) for entry in told] == [("Anna", "你好")]
        stranger = await get(house, token_of(chen), path)
        nowhere = await get(house, token_of(chen), "/api/v1/transcripts/room/000000")
        nonsense = await get(house, token_of(anna), "/api/v1/transcripts/room/x")
        assert stranger[:2] == nowhere[:2] == nonsense[:2]
        assert stranger[0] == 404
        assert (await get(house, token_of(anna)))[0] == 404, "it is kept with the room only"
        await rooms.leave(room.code, SessionId(anna.id), epoch=1)
        assert (await get(house, token_of(anna), path))[0] == 404
        assert await transcript_keys(house) == []


async def test_a_room_that_is_spoken_in_has_a_transcript_with_every_language(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en", "fr")
        anna = await house.session()
        await anna.send("room_create", client_ts=1, display_name="Anna", preferred_lang="zh")
        code = (await anna.expect("room_create_ack"))["room_code"]
        listeners = []
        for lang in ("en", "fr"):
            listener = await house.session(src_lang=lang, tgt_lang="zh")
            await listener.send("room_join", room_code=code, preferred_lang=lang)
            await listener.expect("room_create_ack")
            listeners.append(listener)
        await anna.say()
        for _ in range(2):
            job = await node.job()
            await node.answer(job, "你好", f"hello {job['tgt_lang']}")
        for listener in listeners:
            await listener.expect("translation_result")
        await written(house)
        path = f"/api/v1/transcripts/room/{code}"
        for member in (anna, *listeners):
            told = await entries(house, token_of(member), path)
            assert [(each["name"], each["lang"], each["translations"]) for each in told] == [
                ("Anna", "zh", {"en": "hello en", "fr": "hello fr"})
            ]
        assert (await get(house, token_of(anna)))[0] == 404, "it is kept with the room only"
        for member in (*listeners, anna):
            await member.send("room_leave", room_code=code)
            await member.sync()

        async def closed() -> bool:
            return (await get(house, token_of(anna), path))[0] == 404

        await wait_until(closed, description="the transcript ends with the room")
        assert await transcript_keys(house) == []
