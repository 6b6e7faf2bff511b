"""A session as a program sees it, against a server that does what it is told."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from client.scripted import ScriptedServer, audio, due_within, welcome
from lingua_scheduler.client import (
    ClientOptions,
    ConnectionLost,
    ServerUnreachable,
    SessionClient,
    SessionRefused,
)
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.session import (
    AsrPartial,
    ClientHeartbeat,
    MissingResult,
    ResultAck,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    TranslationResult,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)
from support import wait_until

RESULT = TranslationResult(
    session_id="s-1",
    utterance_index=0,
    job_id="job-1",
    text_asr="hello",
    text_translated="olá",
    tts_audio=b"\x01\x02",
    tts_format="pcm16",
    trace_id="t-1",
    group_id="g-1",
)
PARTIAL = AsrPartial(
    session_id="s-1", utterance_index=0, job_id="job-1", text="hel", is_final=False, trace_id="t-1"
)


@pytest.fixture
async def server():
    async with ScriptedServer() as made:
        yield made


@asynccontextmanager
async def session(server, agreed=None, **wishes):
    """Open a session; give the client and the server's side of it."""
    languages = {"src_lang": "en", "tgt_lang": "pt"}
    opening = asyncio.create_task(server.peer())

    async def accept():
        peer = await opening
        return peer, await welcome(peer, **agreed or {})

    accepting = asyncio.create_task(accept())
    async with SessionClient.connect(server.url, **{**languages, **wishes}) as client:
        peer, wish = await accepting
        peer.wish = wish
        yield client, peer


async def test_it_says_what_it_wishes_and_knows_what_was_agreed(server) -> None:
    async with session(server, audio_format="pcm16", pause_ms=500) as (client, peer):
        assert (peer.wish.src_lang, peer.wish.tgt_lang, peer.wish.pause_ms) == ("en", "pt", 500)
        assert client.session_id == "s-1"
        assert client.audio_format is AudioFormat.PCM16


async def test_a_wish_can_be_given_whole(server) -> None:
    wish = SessionInit(client_version="v", platform="p", src_lang="zh", tgt_lang="en")
    accepting = asyncio.create_task(server.peer())
    opening = asyncio.create_task(_opened(server.url, wish))
    peer = await accepting
    assert await welcome(peer) == wish
    await opening


async def _opened(url, wish) -> None:
    async with SessionClient.connect(url, wish):
        pass


async def test_frames_are_numbered_and_the_final_one_is_empty(server) -> None:
    async with session(server) as (client, peer):
        assert [await client.send_audio(b"one"), await client.send_audio(b"two"), await client.finish()] == [
            0,
            1,
            2,
        ]
        await wait_until(lambda: len(audio(peer)) == 3, description="all frames are heard")
        assert [(frame.seq, frame.audio, frame.is_final) for frame in audio(peer)] == [
            (0, b"one", False),
            (1, b"two", False),
            (2, b"", True),
        ]
        assert peer.texts, "as JSON, because nothing else was agreed"


async def test_binary_frames_are_used_when_the_server_agrees(server) -> None:
    async with session(server, {"use_binary_frame": True}, supports_binary_frame=True) as (client, peer):
        await client.send_audio(b"sound")
        await client.finish()
        await wait_until(lambda: len(audio(peer)) == 2, description="both frames are heard")
        assert [(frame.audio, frame.is_final) for frame in audio(peer)] == [(b"sound", False), (b"", True)]
        assert len(peer.texts) == 1, "only session_init is text"


async def test_whole_utterances_are_numbered_unless_told(server) -> None:
    async with session(server) as (client, peer):
        assert [
            await client.utterance(b"a"),
            await client.utterance(b"b", index=7),
            await client.utterance(b"c"),
        ] == [
            0,
            7,
            8,
        ]
        first = await peer.hear(Utterance)
        assert (first.src_lang, first.tgt_lang, first.audio_format, first.manual_cut) == (
            "en",
            "pt",
            "opus",
            True,
        )


async def test_a_member_of_an_utterance_can_be_changed(server) -> None:
    async with session(server) as (client, peer):
        await client.utterance(b"ab", manual_cut=False, audio_format="pcm16", tgt_lang="zh")
        said = await peer.hear(Utterance)
        assert (said.manual_cut, said.audio_format, said.tgt_lang) == (False, "pcm16", "zh")


async def test_everything_the_server_says_comes_in_order_until_the_end(server) -> None:
    async with session(server) as (client, peer):
        await peer.say(PARTIAL, RESULT)
        await peer.close()
        assert [message async for message in client] == [PARTIAL, RESULT]
        assert client.close_code == 1000


async def test_what_is_expected_is_taken_and_the_rest_stays(server) -> None:
    async with session(server) as (client, peer):
        await peer.say(PARTIAL, RESULT)
        assert await client.expect(TranslationResult, utterance_index=0) == RESULT
        assert await client.expect(AsrPartial) == PARTIAL
        assert client.unread() == []


async def test_a_wait_in_vain_names_what_came_instead_but_not_what_it_said(server) -> None:
    async with session(server) as (client, peer):
        await peer.say(ErrorMessage(code="RATE_LIMITED", message="secret words"), PARTIAL)
        await client.expect(AsrPartial)
        with pytest.raises(TimeoutError, match="ErrorMessage RATE_LIMITED x1") as raised:
            await client.expect(TranslationResult, timeout_s=0.01)
        assert "secret" not in str(raised.value)


async def test_the_end_of_the_connection_ends_a_wait(server) -> None:
    async with session(server) as (client, peer):
        await peer.close(4410)
        with pytest.raises(ConnectionLost) as raised:
            await client.expect(TranslationResult)
        assert raised.value.close_code == 4410
        assert raised.value.retryable
        with pytest.raises(ConnectionLost):
            await client.send_audio(b"x")


async def test_messages_of_another_protocol_are_counted_and_skipped(server) -> None:
    async with session(server) as (client, peer):
        await peer.socket.send_str('{"type":"song","verse":1}')
        await peer.socket.send_str("not JSON")
        await peer.say(RESULT)
        assert await client.expect(TranslationResult) == RESULT
        assert client.unreadable == 2


async def test_anything_can_be_sent_raw(server) -> None:
    async with SessionClient.raw(server.url) as client:
        peer = await server.peer()
        await client.send_raw('{"type":"client_heartbeat","session_id":"s-9","timestamp":1}')
        assert await peer.hear(ClientHeartbeat) == ClientHeartbeat(session_id="s-9", timestamp=1)


async def test_heartbeats_go_by_themselves(server) -> None:
    clock = VirtualClock()
    async with session(server, clock=clock, options=ClientOptions(heartbeat_s=25)) as (client, peer):
        for _ in range(2):
            await due_within(clock, 25)
            clock.advance(25)
            beat = await peer.hear(ClientHeartbeat)
            assert (beat.session_id, beat.timestamp) == ("s-1", clock.wall_ms())
        await client.heartbeat()
        await peer.hear(ClientHeartbeat)


async def test_playback_and_receipt_are_reported(server) -> None:
    async with session(server) as (client, peer):
        await client.playback_started(RESULT)
        await client.playback_ended(RESULT)
        await client.acknowledge(3)
        assert (await peer.hear(TtsStarted)).group_id == "g-1"
        assert (await peer.hear(TtsPlayEnded)).trace_id == "t-1"
        assert await peer.hear(ResultAck) == ResultAck(session_id="s-1", utterance_index=3)


async def test_playback_of_a_result_without_a_group_cannot_be_reported(server) -> None:
    async with session(server) as (client, peer):
        await client.playback_started(TranslationResult(**{**_members(RESULT), "group_id": None}))
        await client.heartbeat()
        await peer.hear(ClientHeartbeat)
        assert not peer.unheard(TtsStarted)


def _members(message) -> dict:
    return {name: getattr(message, name) for name in message.__struct_fields__}


async def test_closing_waits_for_the_acknowledgement_and_keeps_what_came_before(server) -> None:
    async with session(server) as (client, peer):

        async def close_session() -> None:
            assert (await peer.hear(SessionClose)).reason == "done"
            await peer.say(RESULT, SessionCloseAck(session_id="s-1"))

        closing = asyncio.create_task(close_session())
        assert await client.close("done")
        await closing
        assert [type(message) for message in client.unread()] == [TranslationResult, SessionCloseAck]
        await asyncio.wait_for(peer.ended.wait(), 5)


async def test_closing_without_an_acknowledgement_says_so(server) -> None:
    async with session(server) as (client, peer):
        closing = asyncio.create_task(client.close())
        await peer.hear(SessionClose)
        peer.cut()
        assert await closing is False


@pytest.mark.parametrize("how", ["disconnect", "drop"])
async def test_it_comes_back_into_its_session_when_asked(server, how) -> None:
    async with session(server, {"resume_token": "secret"}) as (client, peer):
        await client.send_audio(b"one")
        await getattr(client, how)()
        await asyncio.wait_for(peer.ended.wait(), 5)
        assert client.close_code is not None
        coming = asyncio.create_task(client.reconnect())
        again = await server.peer()
        wish = await welcome(again, resumed=True, last_seq=0)
        assert (await coming).resumed
        assert wish.resume_token == "secret"
        assert await client.send_audio(b"two") == 1, "numbers go on"


async def test_it_may_come_back_to_another_server_as_somebody_new(server) -> None:
    async with session(server, {"resume_token": "secret"}) as (client, _), ScriptedServer() as other:
        coming = asyncio.create_task(client.reconnect(other.url, resume=False))
        wish = await welcome(await other.peer(), "s-2")
        await coming
        assert wish.resume_token is None
        assert client.session_id == "s-2"


async def test_a_refused_session_tells_the_code(server) -> None:
    opening = asyncio.create_task(_open(server))
    peer = await server.peer()
    await peer.hear(SessionInit)
    await peer.say(ErrorMessage(code="NO_AVAILABLE_NODE", message="no node", retry_after_ms=500))
    with pytest.raises(SessionRefused, match="NO_AVAILABLE_NODE") as raised:
        await opening
    assert (raised.value.code, raised.value.retry_after_ms, raised.value.retryable) == (
        "NO_AVAILABLE_NODE",
        500,
        True,
    )


async def _open(server) -> None:
    async with SessionClient.connect(server.url, src_lang="en", tgt_lang="pt"):
        raise AssertionError("not reached")


async def test_a_connection_closed_instead_of_an_answer_is_a_refusal(server) -> None:
    opening = asyncio.create_task(_open(server))
    peer = await server.peer()
    await peer.hear(SessionInit)
    await peer.close(4500)
    with pytest.raises(SessionRefused, match="4500"):
        await opening


async def test_a_server_that_never_answers_is_unreachable(server) -> None:
    options = ClientOptions(connect_timeout_s=0.05)
    with pytest.raises(ServerUnreachable, match="does not answer"):
        async with SessionClient.connect(server.url, options=options, src_lang="en", tgt_lang="pt"):
            raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("status", "error"), [(503, ServerUnreachable), (404, ServerUnreachable), (403, SessionRefused)]
)
async def test_an_http_answer_is_told(server, status, error) -> None:
    server.status = status
    with pytest.raises(error, match=str(status)):
        await _open(server)


async def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(ServerUnreachable, match="nobody answers"):
        async with SessionClient.connect("ws://127.0.0.1:9", src_lang="en", tgt_lang="pt"):
            raise AssertionError("not reached")


async def test_clients_may_share_one_http_session(server) -> None:
    async with aiohttp.ClientSession() as http:
        async with session(server, http=http) as (client, peer):
            await peer.say(RESULT)
            await client.expect(TranslationResult)
        assert not http.closed


async def test_an_unread_inbox_stops_reading_and_loses_nothing(server) -> None:
    async with session(server, options=ClientOptions(inbox_bytes=1024)) as (client, peer):
        sending = asyncio.create_task(peer.say(*[MISSING] * 2000))
        taken = [await client.expect(MissingResult) for _ in range(2000)]
        await sending
        assert len(taken) == 2000


MISSING = MissingResult(
    session_id="s-1", utterance_index=0, reason="x" * 128, created_at_ms=1, trace_id="t-1"
)


async def test_a_heartbeat_is_answered_to_the_reader(server) -> None:
    async with session(server) as (client, peer):
        await peer.say(ServerHeartbeat(session_id="s-1", timestamp=5))
        assert (await client.expect(ServerHeartbeat)).timestamp == 5
