"""`lingua speak`: a recording is spoken in real time, and what comes back is told as it comes."""

import asyncio
import io
from array import array
from pathlib import Path
from types import SimpleNamespace

import pytest

from client.scripted import ScriptedServer, audio, due_within, timers, welcome
from client.sound import tone, wav
from lingua_scheduler.app import running
from lingua_scheduler.client.audio import Speech, read_wav
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.commands.speak import Speaker, SpeakRequest, speak
from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node.demo import demo_node
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.wire.common import ErrorMessage, NetworkTimings, ServiceTimings
from lingua_scheduler.wire.opus import decode_opus, encode_opus
from lingua_scheduler.wire.session import (
    AsrPartial,
    ClientHeartbeat,
    MissingResult,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    TranslationResult,
    UiEvent,
)
from support import wait_until
from world import configured

PCM = tone(0.2).tobytes()
ABOUT = {"session_id": "s-1", "job_id": "job-1", "trace_id": "t-1"}
RESULT = {
    **ABOUT,
    "utterance_index": 0,
    "text_asr": "hello",
    "text_translated": "olá",
    "tts_audio": PCM,
    "tts_format": "pcm16",
}


@pytest.fixture
async def server():
    async with ScriptedServer() as made:
        yield made


class Stage:
    """A speaker with a clock of its own, the lines it showed, and the server's side."""

    def __init__(self, server: ScriptedServer, seconds: float = 0.3, samples=None, **request) -> None:
        self.clock = VirtualClock()
        self.lines: list[str] = []
        self._server = server
        self._speech = Speech(samples or tone(seconds), 16000)
        asked = SpeakRequest(**{"file": "-", "src": "en", "tgt": "pt", "url": server.url, **request})
        self.speaker = Speaker(asked, clock=self.clock, show=self.lines.append)
        self.peer = None
        self.wish = None

    async def begin(self, **agreed) -> None:
        """Start to speak and be let in."""
        self.saying = asyncio.create_task(self.speaker.say(self._speech))
        self.peer = await self._server.peer()
        self.wish = await welcome(self.peer, **agreed)

    async def speak_all(self) -> None:
        """Let the time of the whole recording pass, frame by frame."""
        while not any(frame.is_final for frame in audio(self.peer)):
            heard = len(audio(self.peer))
            await due_within(self.clock, 0.1)
            self.clock.advance(0.1)
            await wait_until(lambda: len(audio(self.peer)) > heard, description="a frame is heard")  # noqa: B023

    async def settle(self, *messages) -> None:
        """Answer that everything was heard, say more, and let the time to settle pass."""
        await self.peer.hear(ClientHeartbeat)
        await self.peer.say(*messages, ServerHeartbeat(session_id="s-1", timestamp=1))
        await wait_until(lambda: self.speaker._heartbeats, description="the heartbeat is answered")
        await due_within(self.clock, 0.5)
        self.clock.advance(0.5)

    async def end(self, *messages) -> int:
        """Close the session and give the exit code."""
        await self.peer.hear(SessionClose)
        await self.peer.say(*messages, SessionCloseAck(session_id="s-1"))
        return await asyncio.wait_for(self.saying, 5)


def dispatched(index: int = 0) -> UiEvent:
    return UiEvent(**ABOUT, utterance_index=index, event="DISPATCHED", status="ok", elapsed_ms=0)


async def test_it_speaks_in_real_time(server) -> None:
    stage = Stage(server, seconds=0.3, audio_format="pcm16")
    await stage.begin()
    for number in range(3):
        await due_within(stage.clock, 0.1)
        assert len(audio(stage.peer)) == number, "not before its time"
        stage.clock.advance(0.1)
        await wait_until(lambda: len(audio(stage.peer)) > number, description="the frame is heard")  # noqa: B023
    frames = audio(stage.peer)
    assert b"".join(frame.audio for frame in frames) == tone(0.3).tobytes()
    assert all(len(frame.audio) in (0, 3200) for frame in frames)
    await stage.settle(TranslationResult(**RESULT))
    assert await stage.end() == 0


async def test_opus_is_spoken_by_default(server) -> None:
    stage = Stage(server, seconds=0.25)
    await stage.begin()
    assert stage.wish.audio_format == "opus"
    await stage.speak_all()
    spoken = b"".join(frame.audio for frame in audio(stage.peer))
    assert duration_ms(AudioFormat.OPUS, 16000, spoken) == 260
    await stage.peer.close(4503)
    assert await asyncio.wait_for(stage.saying, 5) == 1


async def test_a_short_recording_is_spoken_fast_without_waiting(server) -> None:
    stage = Stage(server, seconds=5, fast=True)
    await stage.begin()
    await wait_until(lambda: len(audio(stage.peer)) == 51, description="everything is heard at once")
    await stage.peer.close(4503)
    await asyncio.wait_for(stage.saying, 5)


async def test_a_long_recording_is_spoken_no_faster_than_a_server_allows(server) -> None:
    stage = Stage(server, seconds=31, fast=True, audio_format="pcm16")
    await stage.begin()
    await wait_until(lambda: len(audio(stage.peer)) == 301, description="the first part is heard at once")
    for heard in (306, 311):
        await due_within(stage.clock, 0.02)
        assert len(audio(stage.peer)) == heard - 5
        stage.clock.advance(0.1001)
        await wait_until(lambda: len(audio(stage.peer)) >= heard, description="the next are heard")  # noqa: B023
    await stage.peer.close(4503)
    await asyncio.wait_for(stage.saying, 5)


async def test_a_pause_in_the_recording_ends_the_utterance_and_is_not_sent_in_full(server) -> None:
    silence = array("h", bytes(32000))
    samples = silence + tone(0.5) + silence + silence + tone(0.3) + silence
    stage = Stage(server, samples=samples, fast=True, audio_format="pcm16")
    await stage.begin(negotiated_pause_ms=400)
    await stage.peer.hear(ClientHeartbeat)
    frames = audio(stage.peer)
    assert [at for at, frame in enumerate(frames) if frame.is_final] == [8, 15]
    assert b"".join(frame.audio for frame in frames[:8]) == (tone(0.5) + silence[:4800]).tobytes()
    assert len(b"".join(frame.audio for frame in frames[9:15])) == 9600 + 9600
    await stage.peer.close(4503)
    assert await asyncio.wait_for(stage.saying, 5) == 1


async def test_a_silent_recording_is_not_sent_at_all(server) -> None:
    stage = Stage(server, samples=array("h", bytes(32000)), fast=True)
    await stage.begin()
    await stage.settle()
    assert audio(stage.peer) == []
    assert await stage.end() == 1


async def test_partials_results_and_timings_are_told_as_they_come(server) -> None:
    stage = Stage(server, timings=True)
    await stage.begin()
    await stage.speak_all()
    await stage.peer.say(
        dispatched(),
        AsrPartial(**ABOUT, utterance_index=0, text="hel", is_final=False),
        TranslationResult(
            **RESULT,
            service_timings=ServiceTimings(asr_ms=210, nmt_ms=80.4, tts_ms=150, total_ms=440),
            network_timings=NetworkTimings(scheduler_to_node_ms=3),
        ),
    )
    await wait_until(lambda: len(stage.lines) == 4, description="all is told")
    assert stage.lines == [
        "[0] ... hel",
        "[0] hello",
        "    -> olá  (0.00 s after the end of speech)",
        "    asr 210 ms, nmt 80 ms, tts 150 ms, node 440 ms, to node 3 ms",
    ]
    await stage.settle()
    assert await stage.end() == 0
    assert stage.lines[-1] == "utterances: 1, results: 1"


async def test_it_waits_for_every_utterance_the_server_took_on(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.speak_all()
    await stage.settle(dispatched(0), dispatched(1), TranslationResult(**RESULT))
    stage.clock.advance(30)
    assert not stage.peer.unheard(SessionClose)
    await stage.peer.say(TranslationResult(**{**RESULT, "utterance_index": 1}))
    assert await stage.end() == 0


async def test_a_result_that_comes_while_closing_still_counts(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.speak_all()
    await stage.settle()
    assert await stage.end(TranslationResult(**RESULT)) == 0


async def test_speech_without_a_result_is_a_failure(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.speak_all()
    missing = MissingResult(
        session_id="s-1", utterance_index=0, reason="job_timeout", created_at_ms=1, trace_id="t-1"
    )
    await stage.settle(missing)
    assert await stage.end() == 1
    assert "[0] no result: job_timeout" in stage.lines


async def test_patience_ends_when_the_server_keeps_silent(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.speak_all()
    await stage.settle(dispatched())
    await wait_until(lambda: len(timers(stage.clock)) == 2, description="it waits for an answer")
    stage.clock.advance(60)
    assert await stage.end() == 1


async def test_nothing_heard_is_told(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.speak_all()
    await stage.settle()
    assert await stage.end() == 1
    assert stage.lines == ["no speech was heard"]


async def test_a_server_that_wants_no_client_is_told(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.peer.close(4503)
    await wait_until(lambda: stage.speaker._alone, description="the end is noticed")
    stage.clock.advance(0.1)
    assert await asyncio.wait_for(stage.saying, 5) == 1
    assert stage.lines == ["the connection was closed with code 4503", "no speech was heard"]


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_lost_connection_is_told_and_what_was_said_goes_on(server, resumed) -> None:
    stage = Stage(server, audio_format="pcm16")
    await stage.begin(resume_token="token")
    await stage.peer.say(dispatched())
    await stage.speak_all()
    spoken = b"".join(frame.audio for frame in audio(stage.peer))
    stage.peer.cut()
    stage.peer = await server.peer()
    wish = await welcome(stage.peer, resumed=resumed, hint="lost", resume_token="next")
    assert wish.resume_token == "token"
    await wait_until(
        lambda: audio(stage.peer)[-1:] and audio(stage.peer)[-1].is_final, description="all again"
    )
    assert b"".join(frame.audio for frame in audio(stage.peer)) == spoken
    await stage.settle(TranslationResult(**RESULT))
    assert await stage.end() == (0 if resumed else 1)
    assert stage.lines[0] == ("reconnected" if resumed else "reconnected as a new session: lost")
    assert stage.lines[-1] == f"utterances: {1 if resumed else 2}, results: 1"


async def test_what_a_server_says_cannot_move_the_cursor(server) -> None:
    stage = Stage(server)
    await stage.begin()
    await stage.peer.say(ErrorMessage(code="RATE_LIMITED", message="\x1b[2Jgone\nforged"))
    await wait_until(lambda: stage.lines, description="the error is told")
    assert stage.lines == [r"error RATE_LIMITED: \x1b[2Jgone\nforged"]
    await stage.peer.close(4503)
    await wait_until(lambda: stage.speaker._alone, description="the end is noticed")
    stage.clock.advance(0.1)
    await asyncio.wait_for(stage.saying, 5)


async def test_the_voice_is_saved_whatever_its_form(server, tmp_path) -> None:
    out = tmp_path / "voice.wav"
    stage = Stage(server, out=out)
    await stage.begin()
    await stage.speak_all()
    voices = [(PCM, "pcm16"), (encode_opus(PCM), "opus"), (b"\x09", "opus"), (b"x", "mp3")]
    results = [
        TranslationResult(**{**RESULT, "utterance_index": index, "tts_audio": voice, "tts_format": form})
        for index, (voice, form) in enumerate(voices)
    ]
    await stage.settle(*results)
    assert await stage.end() == 0
    assert read_wav(out).pcm16() == PCM + decode_opus(encode_opus(PCM))
    assert "some of the voice came in a form that cannot be saved" in stage.lines


# The command

REQUEST = SpeakRequest(file="absent.wav", src="en", tgt="pt", url="ws://127.0.0.1:9")


def refused(capsys, **changes) -> str:
    """Run the command and give its one line of refusal."""
    members = {name: getattr(REQUEST, name) for name in REQUEST.__slots__}
    assert speak(SpeakRequest(**{**members, **changes})) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def spoken(tmp_path) -> str:
    (tmp_path / "spoken.wav").write_bytes(wav(tone(0.2).tobytes()))
    return str(tmp_path / "spoken.wav")


def test_a_missing_file_is_refused(capsys) -> None:
    assert refused(capsys) == "lingua: absent.wav: No such file or directory\n"


def test_a_folder_is_refused(capsys, tmp_path) -> None:
    assert "Is a directory" in refused(capsys, file=str(tmp_path))


def test_a_file_that_is_no_wav_is_refused(capsys, tmp_path) -> None:
    (tmp_path / "song.ogg").write_bytes(b"OggS")
    assert "song.ogg: not a WAV file" in refused(capsys, file=str(tmp_path / "song.ogg"))


def test_standard_input_is_read(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"hello")))
    assert refused(capsys, file="-") == "lingua: standard input: not a WAV file\n"


def test_a_server_that_is_not_there_is_refused(capsys, spoken) -> None:
    assert refused(capsys, file=spoken) == "lingua: nobody answers at ws://127.0.0.1:9/ws/session\n"


def test_an_address_that_is_none_is_refused(capsys, spoken) -> None:
    assert "--url" in refused(capsys, file=spoken, url="localhost")


def test_a_folder_that_is_not_there_is_refused_before_speaking(capsys, spoken) -> None:
    assert "--out" in refused(capsys, file=spoken, out=Path("nowhere/at/all.wav"))


async def test_a_refused_session_is_told(server, spoken, capsys) -> None:
    request = SpeakRequest(file=spoken, src="en", tgt="pt", url=server.url)
    speaking = asyncio.create_task(asyncio.to_thread(speak, request))
    peer = await server.peer()
    await peer.hear(SessionInit)
    await peer.say(ErrorMessage(code="NO_AVAILABLE_NODE", message="no node for en:pt"))
    assert await asyncio.wait_for(speaking, 5) == 2
    assert capsys.readouterr().err == "lingua: NO_AVAILABLE_NODE: no node for en:pt\n"


@pytest.mark.parametrize("audio_format", ["opus", "pcm16"])
async def test_a_real_instance_and_a_demo_node_answer(store_options, tmp_path, audio_format) -> None:
    async with running(configured(store_options)) as instance:
        node = demo_node(instance.url, usage=lambda: Usage(5.0, 20.0))
        serving = asyncio.create_task(node.run())
        await node.registered.wait()
        clock, lines = VirtualClock(), []
        out = tmp_path / "voice.wav"
        request = SpeakRequest(
            file="-", src="en", tgt="pt", url=instance.url, out=out, fast=True, audio_format=audio_format
        )
        speaker = Speaker(request, clock=clock, show=lines.append)
        saying = asyncio.create_task(speaker.say(Speech(tone(1.0), 16000)))
        await wait_until(lambda: speaker._conversation.results, description="the result came")
        await wait_until(lambda: speaker._heartbeats, description="the heartbeat is answered")
        await due_within(clock, 0.5)
        clock.advance(0.5)
        assert await asyncio.wait_for(saying, 5) == 0
        told = [line for line in lines if not line.startswith("NO_AVAILABLE_NODE")]  # it may not be ready yet
        assert told[0] == "[0] [demo] 1.0 s of speech in en"
        assert read_wav(out).duration_s == pytest.approx(0.3)
        await node.drain()
        await serving


async def test_a_server_without_a_node_for_the_pair_says_so_before_anything_is_spoken(store_options) -> None:
    async with running(configured(store_options)) as instance:
        lines: list[str] = []
        request = SpeakRequest(file="-", src="en", tgt="pt", url=instance.url, fast=True)
        saying = asyncio.create_task(Speaker(request, show=lines.append).say(Speech(tone(0.3), 16000)))
        await wait_until(lambda: lines, description="the warning is shown")
        assert lines[0].startswith("NO_AVAILABLE_NODE: ")
        saying.cancel()
        await asyncio.wait((saying,))
