"""Samples between engines: from bytes to numbers, from one rate to another, and quiet around speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingua_scheduler.wire.opus import SPEECH_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.node.speech.engine import Span

_SAMPLE_BYTES = 2
_FULL_SCALE = 32768.0
_EDGE_S = 0.05  # quiet put around a sound while it is changed, so that its ends do not meet


def floats(pcm16: bytes) -> Any:
    """Give samples as an array of 32-bit floats between -1 and 1."""
    import numpy as np  # noqa: PLC0415 comes with the engines

    whole = pcm16[: len(pcm16) // _SAMPLE_BYTES * _SAMPLE_BYTES]
    return np.frombuffer(whole, np.int16).astype(np.float32) / np.float32(_FULL_SCALE)


def pcm16(samples: Any) -> bytes:
    """Give an array of floats between -1 and 1 as samples; what is louder is clipped."""
    import numpy as np  # noqa: PLC0415

    loud = np.asarray(samples, np.float32).reshape(-1) * np.float32(_FULL_SCALE)
    whole: bytes = np.clip(np.rint(loud), -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16).tobytes()
    return whole


def at_rate(samples: bytes, rate: int, wanted: int = SPEECH_RATE) -> bytes:
    """Give a whole sound at another rate, band-limited: its spectrum is cut off or continued with nothing."""
    if rate == wanted or not samples:
        return samples
    import numpy as np  # noqa: PLC0415

    edge: Any = np.zeros(round(rate * _EDGE_S), np.float32)
    heard = np.concatenate((edge, floats(samples), edge))
    whole_s = -(-len(heard) // rate)  # lengths of whole seconds are quick to transform
    spectrum = np.fft.rfft(heard, whole_s * rate)
    bins = whole_s * wanted // 2 + 1
    changed = np.zeros(bins, spectrum.dtype)
    kept = min(bins, len(spectrum))
    changed[:kept] = spectrum[:kept]
    result = np.fft.irfft(changed, whole_s * wanted) * (wanted / rate)
    start = round(len(edge) * wanted / rate)
    count = (len(samples) // _SAMPLE_BYTES * wanted) // rate
    return pcm16(result[start : start + count])


def trimmed(samples: bytes, spans: Sequence[Span], margin_ms: int) -> bytes:
    """Cut away what lies before the first and behind the last speech, up to a margin."""
    margin = SPEECH_RATE * margin_ms // 1000
    start = max(0, spans[0].start - margin)
    return samples[start * _SAMPLE_BYTES : (spans[-1].end + margin) * _SAMPLE_BYTES]


def quiet(duration_ms: int, rate: int = SPEECH_RATE) -> bytes:
    """Give silence."""
    return bytes(rate * duration_ms // 1000 * _SAMPLE_BYTES)
