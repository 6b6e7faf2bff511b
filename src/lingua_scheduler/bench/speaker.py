"""One client of a run: it connects, says what is planned when it is planned, and notes what it hears."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from lingua_scheduler.bench import messages, plan, sound
from lingua_scheduler.bench.messages import RESULT
from lingua_scheduler.bench.reactor import Connection, Reactor
from lingua_scheduler.bench.records import Conversation, Heard, Refusal, Said, Settings, Spoken
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.wire.address import SESSION_PATH
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.session import SessionInit

_GIVEN_UP = MissingReason.GAP_TIMEOUT.value
_ACKNOWLEDGE = 10  # results at once, in a closed loop
_FROM_ONE_ADDRESS = 10_000  # clients, of the 28,000 ports that an address has for one server
_PAUSE_MS = 10_000  # utterances end by their last frame, never because something stalled


class Crowd(Protocol):
    """What a speaker needs of all of them together."""

    reactor: Reactor
    settings: Settings
    spoken: Spoken
    frames: dict[plan.Form, sound.Frames]
    pieces: list[sound.BinaryFrames]
    piece_bytes: int
    frame_bytes: dict[plan.Form, int]
    jitter: plan.Draws
    begun_s: float  # when the run began; 0 before

    def late(self, seconds: float) -> None:
        """Note how late a frame was."""

    def opened(self, speaker: Speaker) -> None:
        """A speaker has its session."""

    def turned_away(self, speaker: Speaker, retry_after_s: float | None) -> None:
        """A speaker has none."""

    def in_room(self, speaker: Speaker, code: str) -> None:
        """A speaker has opened or joined its room."""


class Speaker:
    """One client and its session."""

    def __init__(self, crowd: Crowd, client: plan.Client) -> None:
        profile = crowd.settings.profile
        self._crowd = crowd
        self.client = client
        lang = client.tgt if client.room is None else client.src
        self.conversation = Conversation(client.number, client.room, lang)
        self.active = False  # has a session
        self.returning = False  # lost its connection in a storm
        self.quiet = True  # has nothing more to say
        self.due_s = 0.0  # when it was to connect
        self._lost_s = 0.0  # when a storm took its connection
        self.beats = False  # sends heartbeats
        self._connection: Connection | None = None
        self._plan: Iterator[plan.Spoken] = plan.utterances(profile, client)
        self._frame_s = profile.speech.frame_ms / 1000
        self._frames = crowd.frames[client.form]
        self._closed_loop = bool(profile.cycles.audio_bytes)
        self._spoken: plan.Spoken | None = None
        self._number = 0  # of the next frame in its utterance
        self._seq = 0
        self._next_end = 0
        self._token = ""
        self._beat = b""

    # Coming and going

    def connect(self, due_s: float) -> None:
        """Connect; what was due is what counts."""
        self.due_s = due_s
        address = self._crowd.settings.addresses[self.client.instance]
        source = f"127.0.0.{2 + self.client.number // _FROM_ONE_ADDRESS}"
        self._connection = Connection(self._crowd.reactor, address, SESSION_PATH, self, source=source)

    def drop(self, due_s: float) -> None:
        """Lose the connection, as a broken network does."""
        if self._connection is not None and self.active:
            self._connection.cut()
            self._connection, self.active, self.returning = None, False, True
            self._lost_s = due_s

    def close(self, _due_s: float = 0.0) -> None:
        """End the session by agreement."""
        if self._connection is not None and self.active:
            self.active = False
            self.say(f'{{"type":"session_close","session_id":"{self.session_id}","reason":"done"}}')

    @property
    def session_id(self) -> str:
        """The id that the server gave."""
        return self.conversation.session_id

    @property
    def answered(self) -> bool:
        """Everything that was said has its end, as far as the speaker hears of it."""
        return self.client.room is not None or self._next_end >= len(self.conversation.said)

    # What the connection says

    def opened(self) -> None:
        """Introduce the client."""
        client = self.client
        self._send(
            encode(
                SessionInit(
                    client_version="bench",
                    platform="bench",
                    src_lang=client.src,
                    tgt_lang=client.tgt,
                    tenant_id=client.tenant,
                    trace_id=f"bench-{client.number}",
                    audio_format="opus" if client.form is plan.Form.OPUS else "pcm16",
                    sample_rate=16000,
                    pause_ms=_PAUSE_MS,
                    supports_binary_frame=client.form is plan.Form.BINARY,
                    supports_resume=True,
                    resume_token=self._token or None,
                    resume_try=f"bench-{client.number}" if self._token else None,
                )
            )
        )

    def refused(self, status: int, retry_after_s: float | None) -> None:
        """Note that the client was turned away."""
        self._connection = None
        after_s = time.monotonic() - self.due_s
        self._crowd.spoken.refusals.append(Refusal(self.due_s, after_s, f"http {status}"))
        self._crowd.turned_away(self, retry_after_s)

    def ended(self, code: int) -> None:
        """The server has ended the connection."""
        self._connection = None
        if self.active:
            self.active, self.quiet = False, True
            self._complain(f"the connection was closed with {code}")

    def heard(self, payload: bytes, now_s: float) -> None:
        """Take a message of the server; most are only for people."""
        if payload.startswith(messages.ENDS):
            self._end(messages.read_end(payload), now_s)
        elif payload.startswith(messages.WELCOME):
            self._welcome(messages.read_welcome(payload), now_s)
        elif payload.startswith(messages.ROOM):
            self._crowd.in_room(self, messages.read_room(payload).room_code)
        elif payload.startswith(messages.GOODBYE):
            self.conversation.closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        elif payload.startswith(messages.PROBLEM):
            self._error(messages.read_problem(payload).code, now_s)

    def _welcome(self, ack: messages.Welcome, now_s: float) -> None:
        if self.returning:
            word = "resumed" if ack.resumed else "new"
            self._crowd.spoken.returns.append(Refusal(self._lost_s, now_s - self._lost_s, word))
            self.returning = False
        self.conversation.session_id, self._token = ack.session_id, ack.resume_token
        beat = f'{{"type":"client_heartbeat","session_id":"{ack.session_id}","timestamp":0}}'
        self._beat = sound.text_message(beat.encode())
        self.active = True
        self._crowd.opened(self)

    def _error(self, code: str, now_s: float) -> None:
        if self.active or self.conversation.session_id:
            self._complain(f"the client was told {code}")
            return
        self._crowd.spoken.refusals.append(Refusal(self.due_s, now_s - self.due_s, code))
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._crowd.turned_away(self, None)

    # Speaking

    def begin(self, _due_s: float = 0.0) -> None:
        """Say what is planned, from the first word on."""
        if self._closed_loop:
            self.quiet = False
            self._cycle()
        elif (first_s := self._next_utterance()) is not None:
            self.quiet = False
            self._crowd.reactor.at(first_s, self._speak)

    def beat(self, due_s: float) -> float | None:
        """Send a heartbeat."""
        if self.active and self._connection is not None:
            self._connection.send(self._beat)
        next_s = due_s + self._crowd.settings.profile.sessions.heartbeat_s
        return None if self.conversation.closed else next_s

    def _speak(self, due_s: float) -> float | None:
        """Send one frame."""
        spoken, connection = self._spoken, self._connection
        if spoken is None or connection is None or not self.active:
            return None
        self._number += 1
        final = self._number == spoken.frames
        connection.send(self._frames.message(self.session_id, self._seq, final=final))
        now_s = time.monotonic()
        self._crowd.late(now_s - due_s)
        self._seq += 1
        if not final:
            return self._frame_due_s(spoken)
        size = spoken.frames * self._crowd.frame_bytes[self.client.form]
        self.conversation.said.append(Said(due_s, now_s, size))
        return self._next_utterance()

    def _frame_due_s(self, spoken: plan.Spoken) -> float:
        jitter_s = self._crowd.jitter.of(self.client.number, self._seq)
        return self._crowd.begun_s + spoken.begins_s + self._number * self._frame_s + jitter_s

    def _next_utterance(self) -> float | None:
        self._spoken, self._number = next(self._plan, None), 0
        if self._spoken is None:
            self.quiet = True
            self._leave_when_answered()
            return None
        return self._frame_due_s(self._spoken)

    def _cycle(self) -> None:
        """Say the next utterance of a closed loop, all at once."""
        profile, now_s = self._crowd.settings.profile, time.monotonic()
        if self._connection is None or now_s >= self._crowd.begun_s + profile.end_s:
            self.quiet = True
            return
        last = len(self._crowd.pieces) - 1
        for number, piece in enumerate(self._crowd.pieces):
            self._connection.send(piece.message(self.session_id, self._seq, final=number == last))
            self._seq += 1
        self._crowd.late(0.0)
        self.conversation.said.append(Said(now_s, now_s, self._crowd.piece_bytes))

    # Hearing

    def _end(self, end: messages.End, now_s: float) -> None:
        if end.session_id != self.session_id:
            self.conversation.heard.append(Heard(end.session_id, end.utterance_index, now_s, end.reason))
            self._acknowledge(end.utterance_index, f',"speaker_session_id":"{end.session_id}"')
            return
        index, said = end.utterance_index, self.conversation.said
        if index >= len(said):
            self._complain(f"index {index} ended before it was said")
            return
        if end.reason == RESULT and end.text_asr != f"{self.session_id} {index} {said[index].audio_bytes}":
            self._complain(f"index {index} was answered with something else: {end.text_asr[:80]}")
        if said[index].end:
            if said[index].end != _GIVEN_UP or end.reason != RESULT:
                self._complain(f"index {index} ended twice: {said[index].end}, {end.reason}")
            return
        if index != self._next_end:
            self._complain(f"index {index} ended when {self._next_end} was due")
        said[index].ended_s, said[index].end = now_s, end.reason
        self._next_end = index + 1
        if self._closed_loop:
            if index % _ACKNOWLEDGE == _ACKNOWLEDGE - 1:
                self._acknowledge(index)
            self._cycle()
        else:
            self._acknowledge(index)
            self._leave_when_answered()

    def _leave_when_answered(self) -> None:
        """A client that came for a while goes when everything is answered; others wait for the end."""
        end_s = self._crowd.settings.profile.end_s
        if self.quiet and self.answered and self.client.leaves_s < end_s:
            self.close()

    def _acknowledge(self, index: int, speaker: str = "") -> None:
        self.say(
            f'{{"type":"result_ack","session_id":"{self.session_id}","utterance_index":{index}{speaker}}}'
        )

    def _complain(self, what: str) -> None:
        self.conversation.complaints.append(what)

    def say(self, message: str) -> None:
        """Send any message."""
        self._send(message.encode())

    def _send(self, message: bytes) -> None:
        if self._connection is not None:
            self._connection.send(sound.text_message(message))
