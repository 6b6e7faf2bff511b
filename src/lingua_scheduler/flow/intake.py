"""What one client says, on its way to becoming utterances: audio, whole utterances, playback and time.

A client speaks in one of three ways. It streams `audio_chunk`s, which the segmenter cuts. It sends a whole
`utterance` at a time, numbered by itself. Or, like the mobile app of the first generation, it sends its
stream as `utterance`s of some 200 ms that never say `manual_cut`: each of those alone would be an utterance
without a word in it, so they are fed to the segmenter like chunks. Such a client never says where speech
ends, so its stream is always cut by what is heard; and the utterance is numbered like its last piece, so
that the index in a result names something the client has sent.

The web client of the first generation goes on after it has ended an utterance: for seconds it sends the quiet
of the room, each block with a final of its own. Quiet at that place is never an utterance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.audio import DurationMeter, duration_ms, is_silent
from lingua_scheduler.core.endpointing import QuietDetector, lacks_voice
from lingua_scheduler.core.model import AudioFormat, Cut, Frame, TurnId
from lingua_scheduler.core.receipts import Receipts
from lingua_scheduler.core.reorder import Reorder
from lingua_scheduler.core.segmenter import Segmenter
from lingua_scheduler.core.sequence import SequenceWindow
from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.flow.job import Brief
from lingua_scheduler.flow.opening import Opening, SessionOptions, agree_utterance
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import AudioChunk, Utterance

_FURTHEST_JUMP = 1_000_000  # no client has so many utterances under way
_CONFIRM_MS = 100.0  # quiet that makes an end of speech likely


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session's speech had come when this owner got it."""

    next_index: int = 0
    last_seq: int | None = None
    turn_id: TurnId | None = None  # speech of this turn goes on


class Intake:
    """The single writer of a session's speech; hands out one brief per utterance."""

    __slots__ = (
        "_clock",
        "_detector",
        "_ended_by_hand",
        "_meter",
        "_metrics",
        "_opening",
        "_options",
        "_pieces",
        "_piecewise",
        "_reorder_over",
        "_segmenter",
        "_sequence",
        "_silence",
        "_spoken_at",
        "_start",
        "_terms",
        "_whole",
        "receipts",
    )

    def __init__(
        self,
        opening: Opening,
        options: SessionOptions,
        start: Callable[[Brief], None],
        *,
        home: tuple[Clock, Alarms, Metrics],
        progress: Progress,
    ) -> None:
        self._opening = opening
        self._options = options
        self._start = start
        self._clock, alarms, self._metrics = home
        self._sequence = SequenceWindow(progress.last_seq)
        self.receipts = Receipts(progress.last_seq)
        self._pieces = SequenceWindow()
        self._spoken_at = self._clock.now()  # when the last frame came that was not quiet
        self._ended_by_hand = False  # the client has ended an utterance and not spoken since
        self._whole: Reorder[Utterance] = Reorder(
            timeout_s=options.utterance_reorder_timeout_ms / 1000, most=options.utterance_reorder_max
        )
        self._silence = Deadline(alarms, self._silence_over)
        self._reorder_over = Deadline(alarms, self._stop_waiting_for_index)
        self._tune(opening, first_index=progress.next_index, turn_id=progress.turn_id)

    @property
    def last_seq(self) -> int | None:
        """The highest frame number taken."""
        return self._sequence.highest

    @property
    def speaking(self) -> bool:
        """Speech waits for its end, or a whole utterance for the one before it."""
        return self._segmenter.speaking or len(self._whole) > 0

    @property
    def next_index(self) -> int:
        """The number of the next utterance."""
        return self._segmenter.next_index

    # What the client says

    def audio(self, chunk: AudioChunk, now: float) -> None:
        """Take one frame; it may end the utterance."""
        data, opening = chunk.payload or b"", self._opening
        if len(data) % 2 and opening.audio_format is AudioFormat.PCM16:
            raise InvalidMessage("Invalid message format: pcm16 audio has an odd number of bytes")
        number, numbers, receipts = chunk.seq, self._sequence, self.receipts
        if number == numbers.next:
            numbers.next = number + 1
        elif not self._is_fresh(numbers, number):
            return
        if self._terms is not opening:
            self._speak_as(opening)
        frame = Frame(data, self._meter.add(data), False, chunk.client_timestamp_ms, receipts.newest)
        receipts.newest = number
        self._take(frame, now, final=chunk.is_final)

    def utterance(self, message: Utterance) -> None:
        """Take a whole utterance, which leaves in index order, or a piece of a stream."""
        terms = agree_utterance(message, self._opening)
        if message.utterance_index > self._segmenter.next_index + _FURTHEST_JUMP:
            raise InvalidMessage("Invalid message format: utterance_index is too far ahead")
        if self._is_piece(message, terms):
            self._piece(message, terms)
            return
        self._launch_whole(self._whole.expect(self._segmenter.next_index))
        released = self._whole.add(message.utterance_index, message, self._clock.now())
        if released is None:
            self._metrics.duplicate_finalize_suppressed_total.inc()
        else:
            self._launch_whole(released)

    def playback(self, *, ended: bool) -> None:
        """The client plays a translation, or has played it: its silence means nothing meanwhile."""
        now = self._clock.now()
        if ended:
            self._segmenter.playback_ended(now)
        else:
            self._segmenter.playback_started(now)
        self._silence.move(self._segmenter.deadline)

    def finish(self) -> None:
        """Cut what is buffered and release what is held: nothing more will be said."""
        self._launch(self._segmenter.close(self._clock.now()))
        self._launch_whole(self._whole.flush())

    def end(self) -> None:
        """Let go of every deadline."""
        self._silence.clear()
        self._reorder_over.clear()

    # Frames

    def _is_fresh(self, numbers: SequenceWindow, number: int) -> bool:
        """Take a frame's number; count what was lost on the way and what came twice."""
        skipped = numbers.skipped
        if not numbers.fresh(number):
            self._metrics.audio_frames_dropped_total.inc("repeated")
            return False
        if numbers.skipped > skipped:
            self._metrics.audio_frames_dropped_total.inc("lost_by_client")
        return True

    def _take(self, frame: Frame, now: float, *, final: bool) -> None:
        segmenter = self._segmenter
        self._metrics.audio_frames_total.value += 1
        self._metrics.audio_bytes_total.value += len(frame.audio)
        if now <= segmenter.flows_until and not final and frame.audio and self._detector is None:
            if cuts := segmenter.feed(frame, now):
                self._launch(cuts)
            self._spoken_at = now
            return  # speech goes on, as with almost every frame; the alarm of the pause finds out by itself
        quiet = self._is_quiet(frame.audio)
        if quiet:
            frame = replace(frame, silent=True)
        if final:
            self._spoken_at = now
            cuts = segmenter.finish(frame, now)
            if not cuts:
                self._metrics.empty_finalize_total.inc()
        else:
            cuts = segmenter.feed(frame, now)
            if self._detector is not None:
                self._hurry(self._detector, now)
        speaking = segmenter.speaking
        self._ended_by_hand = final or (self._ended_by_hand and not speaking)
        if speaking and not cuts:  # nothing has left the open utterance
            self._silence.move(segmenter.deadline)
        else:
            self._launch(cuts)
        if not quiet and frame.audio:
            self._spoken_at = now

    def _is_quiet(self, data: bytes) -> bool:
        if self._detector is not None:
            return self._detector.hear(data)
        if self._segmenter.speaking:
            return False
        audio_format = self._terms.audio_format
        return is_silent(audio_format, data) or (
            self._ended_by_hand and audio_format is AudioFormat.OPUS and lacks_voice(data)
        )

    def _hurry(self, heard: QuietDetector, now: float) -> None:
        """Let quiet count as a pause although frames keep coming."""
        if heard.quiet_ms < _CONFIRM_MS:
            return
        clear = heard.voiced_ms >= self._options.adaptive_speech_ms
        own_ms = self._terms.segmentation.pause_ms
        pause_ms = min(self._options.adaptive_pause_ms, own_ms) if clear else own_ms
        self._segmenter.shorten_pause(round(pause_ms - heard.quiet_ms), now)

    def _silence_over(self) -> None:
        self._launch(self._segmenter.tick(self._clock.now()))

    def _launch(self, cuts: list[Cut]) -> None:
        for at, cut in enumerate(cuts, start=1):
            self._metrics.stage_seconds.observe("cut", max(0.0, self._clock.now() - self._spoken_at))
            self._meter = DurationMeter(self._terms.audio_format, self._terms.sample_rate)
            if self._detector is not None and not cut.reason.continues_turn:
                self._detector.cut()
            if at == len(cuts):  # which of several has which frame is not told
                self.receipts.leave(self._segmenter.oldest, into_job=True)
            self._start(Brief.of_cut(cut, self._terms))
        if not cuts:
            self.receipts.leave(self._segmenter.oldest)
        if cuts and self._whole:
            self._launch_whole(self._whole.expect(self._segmenter.next_index))
        self._silence.move(self._segmenter.deadline)

    def _speak_as(self, terms: Opening) -> None:
        """Go on under these terms; what was said under others ends here."""
        if terms is self._terms or terms == self._terms:
            return
        before, now = self._segmenter, self._clock.now()
        self._launch(before.finish(None, now))
        self._tune(terms, first_index=before.next_index)
        if before.playing:
            self._segmenter.playback_started(now)

    def _tune(self, terms: Opening, *, first_index: int, turn_id: TurnId | None = None) -> None:
        self._terms = terms
        fmt, rate = terms.audio_format, terms.sample_rate
        self._segmenter = Segmenter(
            terms.segmentation, fmt=fmt, rate=rate, first_index=first_index, turn_id=turn_id
        )
        self._meter = DurationMeter(fmt, rate)
        self._detector = QuietDetector(fmt, rate) if terms.adaptive else None
        self._piecewise = False  # the open utterance came in pieces

    # Utterances

    def _is_piece(self, message: Utterance, terms: Opening) -> bool:
        """A short one is a piece of a stream, unless it says that it is complete and none is open."""
        lasts_ms = duration_ms(terms.audio_format, terms.sample_rate, message.audio)
        if lasts_ms >= self._options.stream_piece_max_ms:
            return False
        return not message.manual_cut or (self._piecewise and self._segmenter.speaking)

    def _piece(self, message: Utterance, terms: Opening) -> None:
        if not self._is_fresh(self._pieces, message.utterance_index):
            return
        self._speak_as(terms)
        self._segmenter.skip_to(message.utterance_index)
        frame = Frame(message.audio, self._meter.add(message.audio), after=self.receipts.newest)
        self._take(frame, self._clock.now(), final=message.manual_cut)
        self._piecewise = self._segmenter.speaking

    def _stop_waiting_for_index(self) -> None:
        self._launch_whole(self._whole.tick(self._clock.now()))

    def _launch_whole(self, released: list[tuple[int, Utterance]]) -> None:
        for index, message in released:
            self._segmenter.take_index(index)  # the counter is past one that comes late
            self._start(Brief.of_message(message, self._opening))
        self._reorder_over.move(self._whole.deadline)
