"""Where speech ends in a stream that does not stop, without decoding anything.

Opus made for speech carries the encoder's own opinion: one voice activity bit per frame, uncoded (RFC 6716,
section 4.2.3). Other Opus is judged by the size of its packets, which a variable bit rate makes follow the
voice, and pcm16 by its mean amplitude; both by contrast with what was loud and quiet lately, so a whisper or
a noisy street need no settings. Without contrast only near silence counts as quiet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lingua_scheduler.core.audio import SILENT_PACKET_BYTES, packet_ms, packets
from lingua_scheduler.core.model import AudioFormat

_SHORTEST_SOUND_MS = 60.0  # anything shorter is a click, or a detector's mistake
_LONG_FRAME_MS = 200.0  # a frame in which a word would show as more than a click
_WINDOW_MS = 20
_STRIDE = 4  # every fourth sample is enough for a mean
_SAMPLE_BYTES = 2
_PEAK_HALVES_IN_MS = 10_000.0
_FLOOR_DOUBLES_IN_MS = 3000.0
_SMALLEST_FLOOR = 1.0
_FIRST_CELT_MODE = 16  # modes below have SILK, and with it the activity bits
_SILK_FRAMES = (1, 1, 2, 3)  # by the lower two bits of the mode, for 10, 20, 40 and 60 ms
_FIRST_HYBRID_MODE = 12


@dataclass(frozen=True, slots=True)
class _Scale:
    """How loudness reads in one format."""

    silence: float  # at or below this nothing is ever said
    contrast: float  # the loudest must be so many times the quietest to tell voice by it
    share: float  # with contrast: quiet is below this share of the way from the quietest to the loudest
    hush: float  # without contrast: quiet is at or below this


_SCALES = {
    AudioFormat.PCM16: _Scale(silence=60.0, contrast=4.0, share=0.15, hush=300.0),
    AudioFormat.OPUS: _Scale(silence=SILENT_PACKET_BYTES, contrast=1.6, share=0.35, hush=SILENT_PACKET_BYTES),
}


def activity(packet: bytes) -> bool | None:
    """Read whether an Opus encoder heard voice; None when the packet does not say so in plain bits."""
    mode, frames_code = packet[0] >> 3, packet[0] & 3
    if mode >= _FIRST_CELT_MODE or frames_code or len(packet) < 2:  # noqa: PLR2004 the first byte of the frame
        return None
    bits = 1 if mode >= _FIRST_HYBRID_MODE else _SILK_FRAMES[mode & 3]
    return packet[1] >> (8 - bits) != 0


def lacks_voice(framed: bytes) -> bool:
    """Say whether an encoder heard nothing but clicks in this Opus; in a short frame, nothing at all."""
    longest_ms = run_ms = total_ms = 0.0
    for packet in packets(framed) or ():
        active = activity(packet)
        if active is None:
            return False
        lasts_ms = packet_ms(packet) or float(_WINDOW_MS)
        run_ms = run_ms + lasts_ms if active else 0.0
        longest_ms = max(longest_ms, run_ms)
        total_ms += lasts_ms
    return total_ms > 0 and longest_ms < (_SHORTEST_SOUND_MS if total_ms >= _LONG_FRAME_MS else 1.0)


class QuietDetector:
    """Follows one stream of frames: how long it has been quiet, how much voice there was before."""

    def __init__(self, audio_format: AudioFormat, rate: int) -> None:
        self._format = audio_format
        self._window_samples = max(1, rate * _WINDOW_MS // 1000)
        self._scale = _SCALES[audio_format]
        self._peak = 0.0
        self._floor = float("inf")
        self._sound_ms = 0.0  # of the sound going on
        self.voiced_ms = 0.0  # of the utterance being spoken
        self.quiet_ms = 0.0  # since the last voice

    def hear(self, audio: bytes) -> bool:
        """Follow one frame; True when all of it is quiet. What cannot be read may hold voice."""
        if self._format is AudioFormat.OPUS and packets(audio) is None:
            self.quiet_ms = 0.0
            return False
        quiet = True
        for voiced, lasts_ms in self._windows(audio):
            self._sound_ms = self._sound_ms + lasts_ms if voiced else 0.0
            if self._sound_ms < _SHORTEST_SOUND_MS:
                self.quiet_ms += lasts_ms
            else:
                begins = self._sound_ms - lasts_ms < _SHORTEST_SOUND_MS
                self.voiced_ms += self._sound_ms if begins else lasts_ms
                self.quiet_ms = 0.0
                quiet = False
        return quiet

    def cut(self) -> None:
        """Begin a new utterance."""
        self.voiced_ms = 0.0

    def _windows(self, audio: bytes) -> Iterator[tuple[bool, float]]:
        if self._format is AudioFormat.PCM16:
            samples, step = memoryview(audio).cast("h"), self._window_samples
            for start in range(0, len(samples), step):
                window = samples[start : start + step]
                heard = window[::_STRIDE].tolist()
                lasts_ms = _WINDOW_MS * len(window) / step
                yield self._is_loud(sum(map(abs, heard)) / len(heard), lasts_ms), lasts_ms
            return
        for packet in packets(audio) or ():
            lasts_ms = packet_ms(packet) or float(_WINDOW_MS)
            size, active = len(packet) * _WINDOW_MS / lasts_ms, activity(packet)
            loud = self._is_loud(size, lasts_ms)
            yield (loud if active is None else active and size > self._scale.silence), lasts_ms

    def _is_loud(self, loudness: float, lasts_ms: float) -> bool:
        self._peak = max(loudness, self._peak * 0.5 ** (lasts_ms / _PEAK_HALVES_IN_MS))
        risen = self._floor * 2.0 ** (lasts_ms / _FLOOR_DOUBLES_IN_MS)
        self._floor = max(_SMALLEST_FLOOR, min(loudness, risen))
        scale, peak, floor = self._scale, self._peak, self._floor
        if loudness <= scale.silence:
            return False
        if peak < scale.contrast * floor:
            return loudness > scale.hush
        return loudness >= floor + scale.share * (peak - floor)
