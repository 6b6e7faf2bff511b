"""The way in of one socket: messages are decoded and go to a peer of the flow, one after another.

A chunk is read, decoded and handed over inside the callback that brought it. No task wakes up for a message,
and a connection that is silent costs one entry in the instance's heap of alarms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Any, Final, Generic, TypeVar

from lingua_scheduler.aio import Alarm
from lingua_scheduler.edge.lanes import Lane, Peer
from lingua_scheduler.edge.limits import Allowance, Strikes
from lingua_scheduler.edge.reader import MessageReader
from lingua_scheduler.edge.surroundings import Surroundings
from lingua_scheduler.edge.writer import Sink
from lingua_scheduler.errors import LinguaError, WireError
from lingua_scheduler.flow.admission_pass import Pass
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import ErrorMessage

_log = get_logger(__name__)

_STRIKE_WINDOW_S: Final = 10.0
_PULSES: Final = 30
_UNSPEAKABLE_CODES: Final = (0, 1005, 1006)  # they mean that no code was sent

M = TypeVar("M")


class Pump(MessageReader, Generic[M]):
    """One connection from its upgrade to its end."""

    __slots__ = (
        "_admitted",
        "_allowance",
        "_around",
        "_deadline",
        "_introduced",
        "_lane",
        "_on_end",
        "_peer",
        "_pulse",
        "_strikes",
        "sink",
    )

    def __init__(
        self,
        lane: Lane[M],
        transport: asyncio.Transport,
        around: Surroundings,
        on_end: Callable[[Pump[Any]], None],
        admitted: Pass | None = None,
    ) -> None:
        super().__init__(around.clock, lane.options, lane.first_message_bytes)
        self._lane = lane
        self._around = around
        self._on_end = on_end
        self._admitted = admitted  # counts as inside already; leaves with the connection
        self._introduced = False
        self._allowance = Allowance(lane.options, self.heard_s)
        self._strikes: Strikes | None = None
        self._peer: Peer[M] | None = None  # None before `open`, and once nothing can be said to it any more
        self._pulse: Alarm | None = None
        self._deadline: Alarm | None = None
        self.sink = Sink(transport, lane.options, around, self._closing)

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

    # what the transport calls, beside `data_received`

    def eof_received(self) -> None:
        """Learn that nothing will come any more: the transport sends what it has and closes itself."""
        self.sink.flush()

    def pause_writing(self) -> None:
        """Learn that the peer reads too slowly."""
        self.sink.pause()

    def resume_writing(self) -> None:
        """Learn that the transport has room again."""
        self.sink.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 its end is an end
        """Learn that the transport is gone."""
        self.stop()
        self.sink.gone()
        for alarm in (self._pulse, self._deadline):
            if alarm is not None:
                alarm.cancel()
        self._lose()
        if self._admitted is not None:
            self._admitted.__exit__()
        self._on_end(self)

    # what the reader calls

    def on_message(self, payload: bytes, *, binary: bool) -> None:
        """Decode a message and hand it over."""
        peer = self._peer
        if peer is None:
            return
        excess = self._allowance.excess(len(payload), self.heard_s)
        if excess:
            self.on_offence(CloseCode.TOO_MANY_MESSAGES, excess)
            return
        decode = self._lane.decode
        if binary:
            if self._lane.decode_binary is None or not peer.binary_audio:
                return
            decode = self._lane.decode_binary
        try:
            message = decode(payload)
            if self._admitted is not None:
                message = self._admitted.checked(message)
            if message is not None:
                peer.received(message)
            if not self._introduced:
                self._introduced = True
                self.max_message_bytes = self._lane.max_message_bytes
        except WireError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001 - as above
            _log.exception("message_failed", lane=self._lane.path)
            code = error.code if isinstance(error, LinguaError) else LinguaError.code
            self.sink.post(ErrorMessage(code=code, message="Failed to process message"))

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

    def _refuse(self, error: WireError) -> None:
        kind = str((error.details or {}).get("kind", error.code.lower()))
        self._around.metrics.bad_input_total.inc(kind)
        if self._strikes is None:
            self._strikes = Strikes(self._lane.options.errors_per_10s, _STRIKE_WINDOW_S)
        if self._strikes.add(self.heard_s):
            self.on_offence(CloseCode.TOO_MANY_ERRORS, "too many refused messages")
        else:
            self.sink.post(ErrorMessage(code=error.code, message=error.message, details=error.details))

    # life and end

    def cut(self) -> None:
        """End the connection without another byte."""
        self.sink.abort()

    def _beat(self) -> None:
        """Ping a peer that is silent, or give up on one of which nothing was heard for too long."""
        options, silent_s = self._lane.options, self._around.clock.now() - self.heard_s
        if silent_s >= options.silence_s:
            self.sink.close(CloseCode.IDLE, "nothing heard")
        elif not self.sink.closed:
            if silent_s >= options.ping_interval_s:
                self.sink.ping()
            self._arm()

    def _arm(self) -> None:
        options, now_s = self._lane.options, self._around.clock.now()
        ping_s = self.heard_s + options.ping_interval_s
        if ping_s <= now_s:
            ping_s = now_s + options.ping_interval_s
        next_s = min(ping_s, self.heard_s + options.silence_s)
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
