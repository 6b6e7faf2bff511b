"""Where an utterance ends: frames and time in, cuts and the next deadline out.

Everything depends on the moments at which frames arrive and on nothing else: whatever fell due before an
input is settled before that input, so a shell that calls `tick` late gets the same utterances.

A silence cut has three steps: the pause runs out (`_rings_at`), a short tail window collects what was
still under way (`_closes_at`), the cut is made. Audio too short to stand alone waits one pause longer.
"""

from __future__ import annotations

from lingua_scheduler.core.model import AudioFormat, Cut, CutReason, Frame, TurnId, new_turn_id
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.utterance import LeadIn, OpenUtterance, Speech, Tail

_NEVER = float("-inf")
_TAIL_BYTES_SHARE = 16  # a tail or lead-in of frames without duration is at most 1/16 of an utterance
_TAIL_DURATION_SHARE = 4  # a tail is at most 1/4 of the longest utterance


class Segmenter:
    """One session's speech, cut into utterances numbered without gaps; no voiced byte is lost.

    `now` is in seconds of one monotonic clock, in order. An input beats a deadline of the same instant.
    """

    __slots__ = (
        "_closes_at",
        "_heard_at",
        "_lead",
        "_max_bytes",
        "_max_ms",
        "_merged",
        "_next_index",
        "_open",
        "_options",
        "_pause_s",
        "_plays_until",
        "_rings_at",
        "_shortened",
        "_turn_id",
        "flows_until",
    )

    def __init__(
        self,
        options: SegmenterOptions,
        *,
        fmt: AudioFormat,
        rate: int,
        first_index: int = 0,
        turn_id: TurnId | None = None,
    ) -> None:
        few_bytes = max(1, options.max_utterance_bytes // _TAIL_BYTES_SHARE)
        tail_ms = float(options.turn_tail_ms)
        if options.max_duration_ms:
            tail_ms = min(tail_ms, options.max_duration_ms / _TAIL_DURATION_SHARE)
        self._options = options
        self._pause_s = options.pause_ms / 1000
        self._max_bytes = options.max_utterance_bytes
        self._max_ms = options.max_duration_ms or float("inf")
        self._open = OpenUtterance(fmt, rate, Tail(tail_ms, few_bytes))
        self._lead = LeadIn(options.quiet_lead_ms, few_bytes)
        self._next_index = first_index
        self._turn_id = turn_id  # set while speech goes on after a cut at a limit
        self._heard_at: float | None = None  # the gap anchor: last frame with audio, or end of playback
        self._rings_at: float | None = None  # the pause runs out
        self._closes_at: float | None = None  # the tail window ends; set only while it is open
        self._shortened = False  # quiet frames do not postpone `_rings_at`
        self._merged = False  # has outlived one pause for being short
        self._plays_until: float | None = None
        self.flows_until = _NEVER  # up to this moment a frame with audio only adds to open speech

    @property
    def next_index(self) -> int:
        """The number of the next utterance."""
        return self._next_index

    @property
    def turn_id(self) -> TurnId | None:
        """The turn that goes on in the next utterance, or None between turns."""
        return self._turn_id

    @property
    def buffered_ms(self) -> float:
        """Length of the open utterance."""
        return self._open.duration_ms

    @property
    def buffered_bytes(self) -> int:
        """Bytes held: the open utterance and the quiet before it."""
        return self._open.size_bytes + self._lead.size_bytes

    @property
    def speaking(self) -> bool:
        """An utterance is open: a cut would have audio."""
        return bool(self._open.frames)

    @property
    def oldest(self) -> Frame | None:
        """The oldest frame of which something is held."""
        return self._open.frames[0] if self._open.frames else self._lead.oldest

    @property
    def playing(self) -> bool:
        """The client plays a translation, so its silence means nothing."""
        return self._plays_until is not None

    @property
    def deadline(self) -> float | None:
        """The next moment at which `tick` can matter; None if only an input can."""
        if self._plays_until is not None:
            return self._plays_until
        return self._rings_at if self._closes_at is None else self._closes_at

    def feed(self, frame: Frame, now: float) -> list[Cut]:
        """Take a frame that does not end the utterance; it may be empty."""
        if now <= self.flows_until and frame.audio:  # what almost every frame is
            speech, self._heard_at = self._open, now
            speech.add(frame)
            full = speech.size_bytes > self._max_bytes or speech.duration_ms >= self._max_ms
            cuts = self._cut_at_limit() if full else []
            self._rings_at = self.flows_until = now + self._pause_s
            return cuts
        cuts = self._settle_before(now, frame)
        if frame.audio:
            if self._is_gap(now) and self._limit(frame) is None:
                cuts += self._cut_for_pause(CutReason.GAP)
            self._keep(frame, now)
            cuts += self._cut_at_limit()
        if self._closes_at is None and not (self._shortened and (frame.silent or not frame.audio)):
            self._arm(now)
            if frame.audio and self._rings_at is not None and self._plays_until is None:
                self.flows_until = self._rings_at
        return cuts

    def finish(self, frame: Frame | None, now: float) -> list[Cut]:
        """End the utterance as the client asks, with a last frame or without."""
        cuts = self._settle_before(now, frame)
        if frame is not None and frame.audio:
            self._keep(frame, now)
        self._lead.clear()
        return cuts + self._cut(CutReason.MANUAL)

    def tick(self, now: float) -> list[Cut]:
        """Do what has fallen due; early and repeated calls change nothing."""
        cuts: list[Cut] = []
        while (deadline := self.deadline) is not None and deadline <= now:
            cuts += self._reach(deadline, CutReason.SILENCE)
        return cuts

    def close(self, now: float) -> list[Cut]:
        """End the session: what is buffered leaves, mere quiet does not."""
        cuts = self._settle_before(now, None) + self._cut(CutReason.CLOSE)
        self._lead.clear()
        self._plays_until = None
        return cuts

    def playback_started(self, now: float) -> None:
        """Hold back cuts for silence until playback ends, or for `playback_cap_ms`."""
        self._plays_until = now + self._options.playback_cap_ms / 1000
        self._disarm()

    def playback_ended(self, now: float) -> None:
        """Let silence count again, from now on."""
        if self._plays_until is not None:
            self._resume_listening(min(now, self._plays_until))

    def shorten_pause(self, pause_ms: int, now: float) -> None:
        """Wait only `pause_ms` from now, even through quiet frames; a frame with voice takes it back."""
        if self._rings_at is None:
            return
        wait_s = max(pause_ms, self._options.shortest_pause_ms) / 1000
        self._rings_at = min(self._rings_at, now + wait_s)
        self._shortened = True
        self.flows_until = _NEVER

    def take_index(self, index: int | None) -> int | None:
        """Give an utterance that came whole its number, its own if it has one; None if that is used."""
        if index is None:
            index = self._next_index
        if index < self._next_index:
            return None
        self._next_index = index + 1
        return index

    def skip_to(self, index: int) -> None:
        """Number the next utterance `index`, unless a higher number is due."""
        self._next_index = max(self._next_index, index)

    def _settle_before(self, now: float, frame: Frame | None) -> list[Cut]:
        """Do what fell due before an input; a frame that finds a pause still uncut makes it a gap."""
        reason = CutReason.GAP if frame is not None and frame.audio else CutReason.SILENCE
        cuts: list[Cut] = []
        while (deadline := self.deadline) is not None and deadline < now:
            cuts += self._reach(deadline, reason)
        return cuts

    def _reach(self, deadline: float, reason: CutReason) -> list[Cut]:
        """Take the one step that is due at `deadline`."""
        if self._plays_until is not None:
            self._resume_listening(deadline)
        elif self._closes_at is None:
            self._closes_at = deadline + self._options.hangover_ms / 1000
            self.flows_until = _NEVER
        else:
            return self._cut_for_pause(reason)
        return []

    def _keep(self, frame: Frame, now: float) -> None:
        """Add a frame to the open utterance, or to the quiet before the next one."""
        if self._is_pause(now):
            self._lead.clear()
        self._heard_at = now
        if frame.silent and not self._open:
            self._lead.add(frame)
            return
        for quiet in self._lead.take():
            self._open.add(quiet)
        self._open.add(frame)

    def _is_pause(self, now: float) -> bool:
        return self._pause_s > 0 and self._heard_at is not None and now > self._heard_at + self._pause_s

    def _is_gap(self, now: float) -> bool:
        return bool(self._open) and not self.playing and self._closes_at is None and self._is_pause(now)

    def _limit(self, arriving: Frame | None = None) -> CutReason | None:
        """Which limit the open utterance has reached, or would reach with one frame more."""
        size_bytes, duration_ms = self._open.size_bytes, self._open.duration_ms
        if arriving is not None:
            size_bytes += len(arriving.audio)
            duration_ms += arriving.duration_ms
        if size_bytes > self._max_bytes:
            return CutReason.MAX_LENGTH
        if duration_ms >= self._max_ms:
            return CutReason.MAX_DURATION
        return None

    def _cut_at_limit(self) -> list[Cut]:
        """Cut what has reached a limit, all but the tail: the turn stays open and has audio to end with."""
        reason = self._limit()
        speech = self._open.take_head() if reason is not None else None
        return [] if reason is None or speech is None else [self._deliver(reason, speech)]

    def _cut_for_pause(self, reason: CutReason) -> list[Cut]:
        """Cut; but what is short, outside a turn, and has not waited before, waits one pause more."""
        short = self._open.duration_ms < self._options.short_merge_ms
        if not short or self._merged or self._turn_id is not None:
            return self._cut(reason)
        self._merged = True
        self._closes_at = None
        self._shortened = False
        if self._rings_at is not None:  # the pause starts anew where it ran out, for a gap too
            self._heard_at = self._rings_at
            self._rings_at += self._pause_s
        return []

    def _cut(self, reason: CutReason) -> list[Cut]:
        speech = self._open.take()
        return [] if speech is None else [self._deliver(reason, speech)]

    def _deliver(self, reason: CutReason, speech: Speech) -> Cut:
        turn_id = self._turn_id or new_turn_id()
        cut = Cut(
            index=self._next_index,
            reason=reason,
            audio=speech.audio,
            duration_ms=speech.duration_ms,
            turn_id=turn_id,
            padding_ms=self._options.padding_ms(reason),
            first_client_ms=speech.first_client_ms,
        )
        self._next_index += 1
        self._turn_id = turn_id if reason.continues_turn else None
        self._merged = False
        self._disarm()
        return cut

    def _arm(self, now: float) -> None:
        """Start the pause anew, if there is anything it could end; during playback it ends nothing."""
        self._disarm()
        if self._open and self._pause_s:
            self._rings_at = now + self._pause_s

    def _disarm(self) -> None:
        self._rings_at = None
        self._closes_at = None
        self._shortened = False
        self.flows_until = _NEVER

    def _resume_listening(self, at: float) -> None:
        self._plays_until = None
        self._heard_at = at
        self._arm(at)
