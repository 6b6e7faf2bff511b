"""From one sample rate to another: band-limited interpolation with a Kaiser-windowed sinc.

Pure Python on purpose: a file at 48 kHz costs a few percent of one core when it is streamed in real time, and
no dependency. Between any two rates with a common divisor only a few phases occur; each is computed once.
"""

from __future__ import annotations

from array import array
from math import ceil, factorial, gcd, pi, sin, sqrt
from operator import mul

_CROSSINGS = 16  # zero crossings of the sinc on each side
_ROLL_OFF = 0.9  # of the lower Nyquist frequency
_BETA = 6.0  # about 60 dB between what is kept and what would fold back
_LOWEST, _HIGHEST = -32768, 32767


class Resampler:
    """A whole recording at another rate; any stretch of it can be asked for."""

    def __init__(self, samples: array[int], rate: int, wanted_rate: int) -> None:
        common = gcd(rate, wanted_rate)
        self._up, self._down = wanted_rate // common, rate // common
        self._cutoff = _ROLL_OFF * min(1.0, wanted_rate / rate)
        self._reach = ceil(_CROSSINGS / self._cutoff)
        self._phases: dict[int, tuple[float, ...]] = {}
        self._samples = samples
        self._same = self._up == self._down
        silence = array("h", bytes(2 * self._reach))
        self._padded = samples if self._same else silence + samples + silence

    def __len__(self) -> int:
        """Count the samples at the wanted rate."""
        return (len(self._samples) * self._up + self._down - 1) // self._down

    def samples(self, start: int, end: int) -> array[int]:
        """Compute the samples from `start` to before `end`, as far as there are any."""
        if self._same:
            return self._samples[start:end]
        taps = 2 * self._reach
        computed = array("h")
        for number in range(start, min(end, len(self))):
            whole, phase = divmod(number * self._down, self._up)
            weights = self._phases.get(phase) or self._weights(phase)
            value = round(sum(map(mul, weights, self._padded[whole + 1 : whole + 1 + taps])))
            computed.append(_LOWEST if value < _LOWEST else min(value, _HIGHEST))
        return computed

    def _weights(self, phase: int) -> tuple[float, ...]:
        """Weigh the samples around a point that lies `phase / up` behind a sample."""
        offsets = [step - phase / self._up for step in range(1 - self._reach, self._reach + 1)]
        raw = [_sinc(self._cutoff * at) * _kaiser(at / self._reach) for at in offsets]
        total = sum(raw)
        weights = self._phases[phase] = tuple(weight / total for weight in raw)
        return weights


def _sinc(at: float) -> float:
    return sin(pi * at) / (pi * at) if at else 1.0


def _kaiser(at: float) -> float:
    """Fade from 1 in the middle to nearly nothing at -1 and 1."""
    return _bessel(_BETA * sqrt(max(0.0, 1 - at * at))) / _bessel(_BETA)


def _bessel(value: float) -> float:
    """Modified Bessel function of the first kind, order 0."""
    return sum((value / 2) ** (2 * term) / factorial(term) ** 2 for term in range(20))
