"""What one connection may cost: named limits for each kind of socket, and the buckets that keep them."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Rate = Annotated[float, msgspec.Meta(gt=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class SocketOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one kind of socket; the defaults are those of a client."""

    max_fragments: _Count = 256
    """Most frames one message may be split into; more close the connection with 1009."""
    messages_per_s: _Rate = 100.0
    """Messages a peer may send each second, on average; more close the connection with 4429."""
    message_burst: _Count = 500
    """Messages a peer may send at once after a quiet time."""
    bytes_per_s: _Rate = 256 * 1024.0
    """Payload bytes a peer may send each second, on average; more close the connection with 4429."""
    byte_burst: _Count = 6 * 1024 * 1024
    """Payload bytes a peer may send at once after a quiet time."""
    pings_per_s: _Count = 10
    """Ping and pong frames a peer may send each second; more close the connection with 4429."""
    errors_per_10s: _Count = 20
    """Refused messages within ten seconds that close the connection with 4400."""
    send_queue_messages: _Count = 200
    """Messages that may wait for a peer that reads too slowly; more close the connection with 4408."""
    send_queue_bytes: _Count = 8 * 1024 * 1024
    """Bytes that may wait for a peer that reads too slowly; more close the connection with 4408."""
    send_stall_s: _Seconds = 20.0
    """A peer that takes no byte for so long while some wait for it is closed with 4408."""
    ping_interval_s: _Seconds = 30.0
    """A peer that has been silent this long is pinged, and again after as long."""
    silence_s: _Seconds = 90.0
    """A peer of which nothing was heard for so long is taken for dead and closed with 4410."""
    close_timeout_s: _Seconds = 5.0
    """Time for the last messages and the closing handshake; then the connection is cut."""


class NodeSocketOptions(SocketOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same limits with the defaults of a node, which carries the audio of many sessions."""

    messages_per_s: _Rate = 1000.0
    """Messages a node may send each second, on average; more close the connection with 4429."""
    message_burst: _Count = 2000
    """Messages a node may send at once after a quiet time."""
    bytes_per_s: _Rate = 32 * 1024 * 1024.0
    """Payload bytes a node may send each second, on average; more close the connection with 4429."""
    byte_burst: _Count = 64 * 1024 * 1024
    """Payload bytes a node may send at once after a quiet time."""
    send_queue_messages: _Count = 1000
    """Messages that may wait for a node that reads too slowly; more close the connection with 4408."""
    send_queue_bytes: _Count = 32 * 1024 * 1024
    """Bytes that may wait for a node that reads too slowly; more close the connection with 4408."""


class TokenBucket:
    """Lets `burst` through at once and `rate_per_s` on average."""

    __slots__ = ("_burst", "_filled_at_s", "_level", "_rate_per_s")

    def __init__(self, rate_per_s: float, burst: float, now_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._level = burst
        self._filled_at_s = now_s

    def take(self, amount: float, now_s: float) -> bool:
        """Take what is asked for, or nothing and say False."""
        level, burst = self._level, self._burst
        if level < burst:
            level += (now_s - self._filled_at_s) * self._rate_per_s
            level = min(level, burst)
        self._filled_at_s = now_s
        if level < amount:
            self._level = level
            return False
        self._level = level - amount
        return True


class Allowance:
    """The messages and bytes that one peer may send: two buckets that are asked together."""

    __slots__ = ("_bytes", "_filled_at_s", "_messages", "_options")

    def __init__(self, options: SocketOptions, now_s: float) -> None:
        self._options = options
        self._messages: float = options.message_burst
        self._bytes: float = options.byte_burst
        self._filled_at_s = now_s

    def excess(self, message_bytes: int, now_s: float) -> str:
        """Count one message and say what it is too much of; nothing when it is not."""
        options, messages, bytes_left = self._options, self._messages, self._bytes
        passed_s = now_s - self._filled_at_s
        if passed_s:
            self._filled_at_s = now_s
            messages += passed_s * options.messages_per_s
            if messages > options.message_burst:  # noqa: PLR1730 min() costs as much as all the rest
                messages = options.message_burst
            bytes_left += passed_s * options.bytes_per_s
            if bytes_left > options.byte_burst:  # noqa: PLR1730 as above
                bytes_left = options.byte_burst
        self._messages, self._bytes = messages - 1, bytes_left - message_bytes
        if messages < 1:
            return "more messages than messages_per_s"
        return "more bytes than bytes_per_s" if bytes_left < message_bytes else ""


class Strikes:
    """Counts mistakes and says when too many fell into one window of time."""

    __slots__ = ("_most", "_times_s", "_window_s")

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._times_s: list[float] = []  # not a deque: most connections never need one

    def add(self, now_s: float) -> bool:
        """Count one; True when it is the one too many."""
        times_s = self._times_s
        times_s.append(now_s)
        if len(times_s) > self._most:
            del times_s[0]
        return len(times_s) == self._most and now_s - times_s[0] <= self._window_s
