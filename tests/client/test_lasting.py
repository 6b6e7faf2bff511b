"""A client that stays in its session whatever happens to its connections, against servers of both kinds."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.scripted import ScriptedServer, audio, welcome
from lingua_scheduler.client import ClientOptions, ConnectionLost, LastingClient, SessionRefused
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.session import (
    AudioAck,
    GoingAway,
    MissingResult,
    ResultAck,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from neighbours import shown, two
from support import wait_until
from world import world

QUICK = ClientOptions(reconnect_min_s=0.01, reconnect_max_s=0.02, acknowledge_after_s=0.01)
TOKEN = {"resume_token": "token-1"}


def result(index: int, session_id: str = "s-1") -> TranslationResult:
    return TranslationResult(
        session_id=session_id,
        utterance_index=index,
        job_id=f"job-{index}",
        text_asr=f"said {index}",
        text_translated=f"dito {index}",
        tts_audio=b"",
        tts_format="pcm16",
        trace_id="t-1",
    )


def missing(index: int) -> MissingResult:
    return MissingResult(
        session_id="s-1", utterance_index=index, reason="gap_timeout", created_at_ms=1, trace_id="t-1"
    )


@pytest.fixture
async def server():
    async with ScriptedServer() as made:
        yield made


@asynccontextmanager
async def lasting(*servers, options=QUICK, **agreed):
    """Open a lasting session at the first server; give the client and the server's side of it."""
    urls = [each.url for each in servers]
    accepting = asyncio.create_task(accept(servers[0], **{**TOKEN, **agreed}))
    wishes = {"src_lang": "en", "tgt_lang": "pt", "audio_format": "pcm16"}
    async with LastingClient.connect(urls, options=options, **wishes) as client:
        peer, wish = await accepting
        assert wish.supports_resume
        yield client, peer


async def accept(server, session_id="s-1", **agreed):
    """Take the next connection and its `session_init`."""
    peer = await server.peer()
    return peer, await welcome(peer, session_id, **agreed)


async def back(server, **agreed):
    """Let a client come back into its session."""
    known = {"resumed": True, "resume_token": "token-2", "next_utterance_index": 0}
    return await accept(server, **{**known, **agreed})


async def heard(peer, *numbers: int) -> None:
    await wait_until(
        lambda: [frame.seq for frame in audio(peer)] == list(numbers), description=f"frames {numbers}"
    )


# Coming back


async def test_it_comes_back_with_its_token_and_says_again_what_is_not_safe(server):
    async with lasting(server) as (client, peer):
        for sound in (b"zero", b"one!", b"two!"):
            await client.send_audio(sound)
        await peer.say(AudioAck(session_id="s-1", seq=0), result(0))
        assert await client.expect(TranslationResult) == result(0)
        peer.cut()
        again, wish = await back(server, last_seq=0)
        assert (wish.resume_token, wish.received_through, wish.resume_attempt) == ("token-1", 0, 1)
        await heard(again, 1, 2)
        assert [frame.audio for frame in audio(again)] == [b"one!", b"two!"]
        assert (await client.expect(SessionInitAck)).resumed
        assert client.returns == 1
        await client.send_audio(b"more")
        await heard(again, 1, 2, 3)


async def test_frames_the_server_has_are_kept_until_they_are_safe(server):
    """`last_seq` of a resume says what need not be sent now; only `audio_ack` says what may be forgotten."""
    async with lasting(server) as (client, peer):
        await client.send_audio(b"zero")
        await heard(peer, 0)
        peer.cut()
        second, _ = await back(server, last_seq=0)
        await client.send_audio(b"one!")
        await heard(second, 1)
        second.cut()
        third, wish = await back(server)
        assert wish.resume_token == "token-2"
        await heard(third, 0, 1)


async def test_what_is_said_while_there_is_no_connection_follows_in_order(server):
    async with lasting(server) as (client, peer):
        await client.send_audio(b"zero")
        await heard(peer, 0)
        peer.cut()
        await asyncio.wait_for(peer.ended.wait(), 5)
        coming = await server.peer()
        for sound in (b"one!", b"two!"):
            await client.send_audio(sound)
        await client.finish()
        assert not audio(coming)
        await welcome(coming, resumed=True, last_seq=0, next_utterance_index=0, **TOKEN)
        await heard(coming, 1, 2, 3)
        assert audio(coming)[-1].is_final


async def test_other_messages_wait_for_the_connection(server):
    async with lasting(server) as (client, peer):
        peer.cut()
        await asyncio.wait_for(peer.ended.wait(), 5)
        await wait_until(lambda: not client._ready.is_set(), description="the loss is noticed")
        waiting = asyncio.create_task(client.acknowledge(7))
        again, _ = await back(server)
        assert (await again.hear(ResultAck)).utterance_index == 7
        await waiting


async def test_whole_utterances_without_an_end_are_said_again(server):
    async with lasting(server) as (client, peer):
        for _ in range(3):
            await client.utterance(b"ab")
        await peer.say(result(0))
        await client.expect(TranslationResult)
        peer.cut()
        again, _ = await back(server, next_utterance_index=2)
        assert (await again.hear(Utterance)).utterance_index == 2
        await client.finish()
        await heard(again, 0)
        assert not again.unheard(Utterance)


async def test_every_attempt_of_one_interruption_carries_the_same_try(server):
    async with lasting(server) as (_, peer):
        peer.cut()
        wishes = []
        for _ in range(2):
            deaf = await server.peer()
            wishes.append(await deaf.hear(SessionInit))
            deaf.cut()
        again, wish = await back(server)
        wishes.append(wish)
        assert len({each.resume_try for each in wishes}) == 1
        assert [each.resume_attempt for each in wishes] == [1, 2, 3]
        again.cut()
        _, wish = await back(server)
        assert wish.resume_try != wishes[0].resume_try


async def test_a_server_that_cannot_check_now_is_asked_again_after_the_time_it_names(server):
    async with lasting(server) as (client, peer):
        peer.cut()
        busy = await server.peer()
        await busy.hear(SessionInit)
        await busy.say(ErrorMessage(code="SCHEDULER_DEPENDENCY_DOWN", message="later", retry_after_ms=20))
        again, _ = await back(server)
        await again.say(result(0))
        await client.expect(TranslationResult)


async def test_another_server_is_tried_when_one_is_gone(server):
    async with ScriptedServer() as other, lasting(server, other) as (client, peer):
        server.status = 503
        peer.cut()
        again, wish = await back(other)
        assert wish.resume_token == "token-1"
        await again.say(result(0))
        await client.expect(TranslationResult)


@pytest.mark.parametrize("how", ["told", "closed"])
async def test_it_leaves_a_server_that_goes_away_for_another(server, how):
    async with ScriptedServer() as other, lasting(server, other) as (client, peer):
        if how == "told":
            await peer.say(GoingAway(retry_after_ms=10))
        else:
            await peer.close(1012)
        await back(other)
        await wait_until(lambda: client.returns == 1, description="it is back")
        await asyncio.wait_for(peer.ended.wait(), 5)


async def test_a_lost_session_is_followed_by_a_new_one_in_which_the_rest_is_said(server):
    async with lasting(server) as (client, peer):
        await client.send_audio(b"zero")
        await peer.say(result(0))
        await client.expect(TranslationResult)
        peer.cut()
        again, _ = await accept(server, "s-2", resumed=False, resume_token="token-9", warning="RESUME_FAILED")
        await heard(again, 0)
        assert audio(again)[0].session_id == "s-2"
        await again.say(result(0, "s-2"))
        assert (await client.expect(TranslationResult)).session_id == "s-2"
        again.cut()
        _, wish = await back(server)
        assert (wish.resume_token, wish.received_through) == ("token-9", 0)


# Hearing once


async def test_nothing_is_heard_twice_but_a_result_may_follow_what_was_missing(server):
    async with lasting(server) as (client, peer):
        await peer.say(missing(0), missing(0), result(0), result(0), missing(0), result(1))
        await client.expect(TranslationResult, utterance_index=1)
        assert client.unread() == [missing(0), result(0)]


async def test_results_are_acknowledged_many_at_once(server):
    options = ClientOptions(acknowledge_results=3, acknowledge_after_s=0.05)
    async with lasting(server, options=options) as (client, peer):
        await peer.say(*(result(index) for index in range(5)))
        assert (await peer.hear(ResultAck)).utterance_index == 4
        await client.expect(TranslationResult, utterance_index=4)
        assert not peer.unheard(ResultAck)


# The end


async def test_it_gives_up_when_the_server_wants_no_client(server):
    async with lasting(server) as (client, peer):
        await peer.close(4503)
        assert [message async for message in client] == []
        assert isinstance(client.failure, ConnectionLost)
        with pytest.raises(ConnectionLost):
            await client.send_audio(b"x")
        with pytest.raises(ConnectionLost):
            await client.heartbeat()


async def test_it_gives_up_when_it_is_refused(server):
    async with lasting(server) as (client, peer):
        peer.cut()
        again = await server.peer()
        await again.hear(SessionInit)
        await again.say(ErrorMessage(code="UNSUPPORTED_FEATURE", message="no"))
        assert [message async for message in client] == []
        assert isinstance(client.failure, SessionRefused)


async def test_it_gives_up_when_nobody_answers_for_long(server):
    options = ClientOptions(reconnect_min_s=0.01, reconnect_max_s=0.01, reconnect_for_s=0.05)
    async with lasting(server, options=options) as (client, peer):
        server.status = 503
        peer.cut()
        assert [message async for message in client] == []
        assert client.failure is not None


async def test_it_ends_its_session_like_any_other(server):
    async with lasting(server) as (client, peer):
        closing = asyncio.create_task(client.close("done"))
        assert (await peer.hear(SessionClose)).reason == "done"
        await peer.say(result(0), SessionCloseAck(session_id="s-1"))
        assert await closing
        assert [type(message) for message in client.unread()] == [TranslationResult, SessionCloseAck]


async def test_it_does_not_come_back_once_it_was_left(server):
    async with lasting(server) as (client, peer):
        await client.disconnect()
        await asyncio.wait_for(peer.ended.wait(), 5)
        assert [message async for message in client] == []
    assert len(server.peers) == 1


async def test_a_full_memory_waits_for_the_connection(server):
    options = ClientOptions(keep_bytes=1024, reconnect_min_s=0.01)
    async with lasting(server, options=options) as (client, peer):
        peer.cut()
        await asyncio.wait_for(peer.ended.wait(), 5)
        coming = await server.peer()
        await client.send_audio(bytes(2000))
        waiting = asyncio.create_task(client.send_audio(b"more"))
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await welcome(coming, resumed=True, **TOKEN)
        assert await waiting == 1
        await heard(coming, 0, 1)


# Against the real thing


async def test_a_real_server_loses_its_connection_and_the_client_notices_nothing(store_options):
    async with world(store_options) as house:
        node = await house.node()
        url = house.instance.url
        async with LastingClient.connect(url, options=QUICK, src_lang="zh", tgt_lang="en") as client:
            await client.send_audio(b"\xff" * 600)
            await client.heartbeat()
            session = house.instance.sessions.get(client.session_id)
            await wait_until(lambda: session.last_seq == 0, description="the frame is there")
            await client.drop()
            await wait_until(lambda: client.returns == 1, description="it is back")
            await client.send_audio(b"\xff" * 300)
            await client.finish()
            job = await node.job()
            assert len(job["audio"]) == 900
            await node.answer(job)
            assert (await client.expect(TranslationResult)).utterance_index == 0
            await wait_until(lambda: len(session.delivery.log) == 0, description="the result is acknowledged")


async def test_a_stopped_instance_is_left_for_another_and_nothing_is_lost(store_options):
    async with two(store_options) as (a, b):
        node = await b.node()
        await shown(a, 1)
        urls = [a.instance.url, b.instance.url]
        async with LastingClient.connect(urls, options=QUICK, src_lang="zh", tgt_lang="en") as client:
            await client.send_audio(b"\xff" * 600, final=True)
            job = await node.job()
            await client.send_audio(b"\xff" * 120)
            stopping = asyncio.create_task(a.instance.stop())
            await wait_until(lambda: client.returns == 1, description="it is back")
            await stopping
            await node.answer(job)
            await client.finish()
            second = await node.job(utterance_index=1)
            assert len(second["audio"]) == 120
            await node.answer(second)
            for index in (0, 1):
                assert (await client.expect(TranslationResult)).utterance_index == index
            assert await client.close()
