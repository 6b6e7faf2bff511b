"""What one session hears of others in its room: each thing once, and again when its client comes back.

Others are told of at least once: a letter may come twice, and a speaker's new owner may say again what the
old one has said. A session therefore remembers what it has heard. For a client that comes back with its token
it keeps the newest messages until they are acknowledged or too old to have been lost on the way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.resume import ResumeOptions

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Heard:
    """The end of an utterance of somebody else, in one language."""

    speaker: str
    index: int
    lang: str
    missing: bool = False  # there is no result; one may still come late


class Kept(msgspec.Struct, frozen=True):
    """A message that may have to be sent again."""

    heard: Heard
    message: bytes
    at: float = 0.0


_decoder = msgspec.msgpack.Decoder(tuple[Kept, ...])


def packed(kept: Iterable[Kept]) -> bytes:
    """Write messages down for the session's next owner."""
    return msgspec.msgpack.encode(tuple(kept))


def unpacked(data: bytes) -> tuple[Kept, ...]:
    """Read what `packed` wrote; nothing when it cannot be read."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return ()


class Hearing:
    """What a session has heard, bounded in number, bytes and time."""

    __slots__ = ("_bytes", "_clock", "_heard", "_keep", "_kept", "_options")

    def __init__(self, options: ResumeOptions, clock: Clock, *, keep: bool) -> None:
        self._options = options
        self._clock = clock
        self._keep = keep and options.window_s > 0
        self._heard: OrderedDict[tuple[str, int, str], bool] = OrderedDict()  # and whether a result came
        self._kept: list[Kept] = []  # oldest first
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, heard: Heard, message: bytes) -> bool:
        """Take something in; False when it has been heard before."""
        name = (heard.speaker, heard.index, heard.lang)
        before = self._heard.get(name)
        if before is not None and (before or heard.missing):
            return False
        self._heard[name] = not heard.missing
        self._heard.move_to_end(name)
        if len(self._heard) > _REMEMBERED:
            self._heard.popitem(last=False)
        if self._keep:
            self._kept.append(Kept(heard, message, self._clock.now()))
            self._bytes += len(message)
            self._tidy()
        return True

    def acknowledge(self, speaker: str, index: int) -> None:
        """The client has everything of this speaker up to this index."""
        self._retain(kept for kept in self._kept if kept.heard.speaker != speaker or kept.heard.index > index)

    def unheard(self) -> list[Kept]:
        """Give what the client may not have, in the order in which it was said."""
        oldest = self._clock.now() - self._options.window_s
        self._retain(kept for kept in self._kept if kept.at > oldest)
        return list(self._kept)

    def forget(self) -> None:
        """Keep nothing any more."""
        self._retain(())

    def _retain(self, kept: Iterable[Kept]) -> None:
        self._kept = list(kept)
        self._bytes = sum(len(each.message) for each in self._kept)

    def _tidy(self) -> None:
        options, oldest = self._options, self._clock.now() - self._options.window_s
        while len(self._kept) > 1 and (
            len(self._kept) > options.log_results
            or self._bytes > options.log_bytes
            or self._kept[0].at <= oldest
        ):
            self._bytes -= len(self._kept.pop(0).message)
