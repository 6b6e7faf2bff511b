"""When too much of what a client said is unanswered: it is asked to wait, and what it still says is lost."""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.pressure import Level, Pressure
from lingua_scheduler.errors import RateExceeded
from lingua_scheduler.flow.opening import Opening, SessionOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import Backpressure, BackpressureAction, ErrorMessage

TOO_MUCH = "too many utterances wait for an answer"
_ACTIONS = {Level.CROWDED: BackpressureAction.SLOW_DOWN, Level.FULL: BackpressureAction.PAUSE}


class Crowding:
    """How full one session is, and what its client is told about it."""

    __slots__ = ("_clock", "_metrics", "_resume_ms", "_sink", "_warns", "pressure")

    def __init__(
        self,
        opening: Opening,
        options: SessionOptions,
        sink: Callable[[], Sink],
        *,
        home: tuple[Clock, Metrics],
    ) -> None:
        self._warns = opening.wants_backpressure
        self._resume_ms = options.backpressure_resume_ms
        self._sink = sink
        self._clock, self._metrics = home
        self.pressure = Pressure(options.max_open_utterances, repeat_s=options.backpressure_resume_ms / 1000)

    def admits(self, unanswered: int) -> bool:
        """Tell a client that can hear it how full its session is; False when no more audio is taken."""
        level = self.pressure.level(unanswered)
        if level and self._warns:
            warning = self.pressure.warning(level, self._clock.now())
            if warning is not None:
                action = _ACTIONS[warning].value
                self._sink().post(Backpressure(action=action, resume_after_ms=self._resume_ms))
        return level is not Level.FULL

    def over(self) -> None:
        """Audio is taken again: report what was dropped before."""
        self._report(self.pressure.burst_over())

    def drop(self) -> None:
        """A piece of audio was not taken."""
        self._metrics.audio_frames_dropped_total.inc("crowded")
        self._report(self.pressure.dropped(self._clock.now()))

    def _report(self, chunks: int) -> None:
        if chunks:
            details = {"dropped_chunks": chunks}
            self._sink().post(ErrorMessage(code=RateExceeded.code, message=TOO_MUCH, details=details))
