"""The way in of one socket: bytes become typed messages and go to a peer of the flow, one after another.

A chunk is guarded, parsed, decoded and handed over inside the callback that brought it. No task wakes up for
a message, and a connection that is silent costs one entry in the instance's heap of alarms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final, Generic, Protocol, TypeVar

from lingua_scheduler.aio import Alarm, Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.edge.guard import FrameGuard
from lingua_scheduler.edge.limits import SocketOptions, Strikes, TokenBucket
from lingua_scheduler.edge.reader import MessageReader
from lingua_scheduler.edge.writer import Channel, Sink
from lingua_scheduler.errors import LinguaError, WireError
from lingua_scheduler.flow.admission_pass import Pass
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, WireOptions
from lingua_scheduler.wire.common import ErrorMessage

_log = get_logger(__name__)

_GO_ON: Final = (False, b"")
_STRIKE_WINDOW_S: Final = 10.0
_PULSES: Final = 30
_UNSPEAKABLE_CODES: Final = (0, 1005, 1006)  # they mean that no code was sent

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)


class Peer(Protocol[M_contra]):
    """The flow's side of one connection."""

    @property
    def binary_audio(self) -> bool:
        """The client has agreed to send audio in binary frames; without that they are ignored."""
        ...

    def received(self, message: M_contra) -> None:
        """Take one message without waiting; a WireError is answered with an `error` message."""

    def lost(self) -> None:
        """Learn that nothing will come or go any more: called once, never from inside another call."""


class Door(Protocol[M_contra]):
    """Where the flow receives new connections."""

    def open(self, sink: Sink, *, remote: str) -> Peer[M_contra]:
        """Make the peer of a new connection."""
        ...


@dataclass(frozen=True, slots=True)
class Lane(Generic[M]):
    """One kind of socket: where it is found, what it speaks, what it may cost and who answers."""

    path: str
    options: SocketOptions
    first_message_bytes: int  # the longest message of a peer that has not introduced itself yet
    max_message_bytes: int
    door: Door[M]
    decode: Callable[[bytes], M]
    decode_binary: Callable[[bytes], M] | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of an instance share."""

    clock: Clock
    alarms: Alarms
    metrics: Metrics
    wire: WireOptions = DEFAULT_OPTIONS


class Pump(Generic[M]):
    """One connection from its upgrade to its end; stands where the library has its payload parser."""

    __slots__ = (
        "_admitted",
        "_around",
        "_bytes",
        "_deadline",
        "_guard",
        "_heard_s",
        "_introduced",
        "_lane",
        "_messages",
        "_peer",
        "_pulse",
        "_reader",
        "_strikes",
        "finished",
        "sink",
    )

    def __init__(
        self,
        lane: Lane[M],
        channel: Channel,
        surroundings: Surroundings,
        admitted: Pass | None = None,
    ) -> None:
        options, now_s = lane.options, surroundings.clock.now()
        self._lane = lane
        self._around = surroundings
        self._admitted = admitted
        self._heard_s = now_s
        self._guard = FrameGuard(options, lane.first_message_bytes, now_s)
        self._introduced = False
        self._reader = MessageReader(self, self._guard, lane.max_message_bytes)
        self._messages = TokenBucket(options.messages_per_s, options.message_burst, now_s)
        self._bytes = TokenBucket(options.bytes_per_s, options.byte_burst, now_s)
        self._strikes = Strikes(options.errors_per_10s, _STRIKE_WINDOW_S)
        self._peer: Peer[M] | None = None
        self._pulse: Alarm | None = None
        self._deadline: Alarm | None = None
        self.sink = Sink(
            channel, options, self._closing, clock=surroundings.clock, alarms=surroundings.alarms
        )
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def open(self, remote: str) -> None:
        """Introduce the connection to the flow; bytes may be fed from now on."""
        if self._admitted is not None:
            self._admitted.opened(self.sink.close)
        try:
            self._peer = self._lane.door.open(self.sink, remote=remote)
        except Exception:  # noqa: BLE001 - one connection's fault must not end the others
            _log.exception("door_failed", lane=self._lane.path)
            self.sink.close(CloseCode.INTERNAL_ERROR)
        if self.sink.closed:
            self._lose()
        else:
            self._arm()

    # what aiohttp calls

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take a chunk from the transport."""
        self._heard_s = now_s = self._around.clock.now()
        self._reader.feed(data, now_s)
        return _GO_ON

    def feed_eof(self) -> None:
        """Learn that the transport is gone."""
        self._reader.stop()
        self.sink.gone()
        for alarm in (self._pulse, self._deadline):
            if alarm is not None:
                alarm.cancel()
        self._lose()
        if not self.finished.done():
            self.finished.set_result(None)

    # what the reader calls

    def on_text(self, payload: bytes) -> None:
        """Decode a text message and hand it over."""
        if self._within_limits(len(payload)):
            self._hand_over(self._lane.decode, payload)

    def on_binary(self, payload: bytes) -> None:
        """Decode a frame of audio and hand it over, if that was agreed on."""
        if not self._within_limits(len(payload)):
            return
        decode = self._lane.decode_binary
        if decode is not None and self._peer is not None and self._peer.binary_audio:
            self._hand_over(decode, payload)

    def on_ping(self, payload: bytes) -> None:
        """Answer."""
        self.sink.pong(payload)

    def on_close(self, code: int) -> None:
        """Answer the peer's goodbye, or end a handshake that was begun here."""
        self.sink.close(code if code not in _UNSPEAKABLE_CODES else CloseCode.NORMAL)
        self.sink.finish()

    def on_offence(self, code: CloseCode, reason: str) -> None:
        """Close; what the peer sends from here on is thrown away."""
        self._around.metrics.bad_input_total.inc(f"close_{code:d}")
        self.sink.close(code, reason)

    def _within_limits(self, size: int) -> bool:
        if self.sink.closed:
            return False
        if not self._messages.take(1, self._heard_s):
            self.on_offence(CloseCode.TOO_MANY_MESSAGES, "more messages than messages_per_s")
        elif not self._bytes.take(size, self._heard_s):
            self.on_offence(CloseCode.TOO_MANY_MESSAGES, "more bytes than bytes_per_s")
        else:
            return True
        return False

    def _hand_over(self, decode: Callable[[bytes], M], payload: bytes) -> None:
        peer = self._peer
        if peer is None:
            return
        try:
            message = decode(payload)
            if self._admitted is not None:
                message = self._admitted.checked(message)
            if message is not None:
                peer.received(message)
            if not self._introduced:
                self._introduced = True
                self._guard.max_message_bytes = self._lane.max_message_bytes
        except WireError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001 - as above
            _log.exception("message_failed", lane=self._lane.path)
            code = error.code if isinstance(error, LinguaError) else LinguaError.code
            self.sink.post(ErrorMessage(code=code, message="Failed to process message"))

    def _refuse(self, error: WireError) -> None:
        kind = str((error.details or {}).get("kind", error.code.lower()))
        self._around.metrics.bad_input_total.inc(kind)
        if self._strikes.add(self._heard_s):
            self.on_offence(CloseCode.TOO_MANY_ERRORS, "too many refused messages")
        else:
            self.sink.post(ErrorMessage(code=error.code, message=error.message, details=error.details))

    # life and end

    def cut(self) -> None:
        """End the connection without another byte."""
        self.sink.abort()

    def _beat(self) -> None:
        """Ping a peer that is silent, or give up on one of which nothing was heard for too long."""
        options, silent_s = self._lane.options, self._around.clock.now() - self._heard_s
        if silent_s >= options.silence_s:
            self.sink.close(CloseCode.IDLE, "nothing heard")
        elif not self.sink.closed:
            if silent_s >= options.ping_interval_s:
                self.sink.ping()
            self._arm()

    def _arm(self) -> None:
        options, now_s = self._lane.options, self._around.clock.now()
        ping_s = self._heard_s + options.ping_interval_s
        if ping_s <= now_s:
            ping_s = now_s + options.ping_interval_s
        next_s = min(ping_s, self._heard_s + options.silence_s)
        together_s = options.ping_interval_s / _PULSES  # silent peers are looked at together, not one by one
        self._pulse = self._around.alarms.set(ceil(next_s / together_s) * together_s, self._beat)

    def _closing(self) -> None:
        """Learn from the sink that the last word has been said."""
        if self.sink.close_code == CloseCode.SLOW_CONSUMER:
            self._around.metrics.slow_consumer_closed_total.inc()
        cut_s = self._around.clock.now() + self._lane.options.close_timeout_s
        self._deadline = self._around.alarms.set(cut_s, self.cut)
        self._lose()

    def _lose(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            asyncio.get_running_loop().call_soon(self._tell_lost, peer)

    def _tell_lost(self, peer: Peer[M]) -> None:
        try:
            peer.lost()
        except Exception:  # noqa: BLE001 - as above
            _log.exception("peer_lost_failed", lane=self._lane.path)
