"""Sounds at another rate: a polyphase low-pass filter in NumPy.

    samples = resample(samples, 44_100, 16_000)

    resampler = Resampler(48_000, 16_000)          # a live sound
    parts = [resampler.push(block) for block in blocks] + [resampler.finish()]

    out[m] = sum over n of x[n] * h[m * down - n * up]        up / down = new rate / old rate

`h` is a sinc up to the highest frequency of the lower rate, in a Kaiser window. An output only
depends on the n with a nonzero h; their weights depend on (m * down) modulo up, the phase, and are
computed once. The filter is the default of scipy.signal.resample_poly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from webpte.errors import InputError

Array = np.ndarray
HIGHEST_RATE = 768_000
_REACH = 10  # zeros of the sinc on either side
_BETA = 5.0  # Kaiser's window: frequencies above the new rate's highest are 50 dB lower
_AT_ONCE = 1 << 14  # outputs computed together, for their memory


def check_rate(rate: Any) -> int:
    """Return the samples per second as an int; raise InputError for an invalid rate."""
    if isinstance(rate, bool | str) or not isinstance(rate, int | float | np.number):
        raise InputError(f"a sampling rate is a number of samples a second, not {rate!r}")
    if not 1 <= rate <= HIGHEST_RATE or rate != int(rate):
        raise InputError(
            f"a sampling rate of {rate} is not known: it is a whole number of 1 to {HIGHEST_RATE}"
        )
    return int(rate)


def resample(samples: Array, old: int, new: int) -> Array:
    """Return samples (count,) at another rate, (ceil(count * new / old),) of float32."""
    if old == new:
        return samples
    resampler = Resampler(old, new)
    return np.concatenate([resampler.push(samples), resampler.finish()])


class Resampler:
    """Resamples a sound that comes in blocks; the joined results equal `resample`."""

    def __init__(self, old: int, new: int) -> None:
        old, new = check_rate(old), check_rate(new)
        common = math.gcd(old, new)
        self._up, self._down = new // common, old // common
        self._plain = old == new
        self._weights = _weights(self._up, self._down)  # (up, taps)
        self._reach = self._weights.shape[1] // 2
        self._kept = np.zeros(self._reach)  # samples still needed; silence is before them
        self._first = -self._reach  # the number of the first of these samples
        self._taken = self._given = 0  # number of samples taken, and returned

    def push(self, samples: Array) -> Array:
        """Take the next block (count,); return the finished samples of the new rate, (some,)."""
        if self._plain:
            return samples
        self._taken += len(samples)
        self._kept = np.concatenate([self._kept, samples])
        # An output needs samples up to `reach` after its place.
        last = self._taken - 1 - self._reach
        return self._outputs((last * self._up + self._up - 1) // self._down + 1 if last >= 0 else 0)

    def finish(self) -> Array:
        """Return the remaining samples when the sound has ended, as if silence followed."""
        if self._plain:
            return np.zeros(0, np.float32)
        self._kept = np.concatenate([self._kept, np.zeros(self._reach + 1)])
        return self._outputs(-(-self._taken * self._up // self._down))

    def _outputs(self, end: int) -> Array:
        """Compute outputs up to a number, and drop samples that later outputs do not need."""
        found = [np.zeros(0, np.float32)]
        while self._given < end:
            numbers = np.arange(self._given, min(end, self._given + _AT_ONCE)) * self._down
            places, phases = numbers // self._up, numbers % self._up
            low, high = int(places[0]), int(places[-1])
            begin = low - self._reach - self._first
            part = self._kept[begin : begin + high - low + 2 * self._reach + 1]
            windows = np.lib.stride_tricks.sliding_window_view(part, 2 * self._reach + 1)
            made = np.einsum("nt,nt->n", windows[places - low], self._weights[phases])
            found.append(made.astype(np.float32))
            self._given += len(numbers)
        needed = self._given * self._down // self._up - self._reach
        if needed > self._first:
            self._kept, self._first = self._kept[needed - self._first :].copy(), needed
        return np.concatenate(found)


@lru_cache(maxsize=8)
def _weights(up: int, down: int) -> Array:
    """Return the filter by phases, (up, taps): weights of the samples around a place, in order."""
    widest = max(up, down)
    half = _REACH * widest
    at = np.arange(-half, half + 1)
    filtered = np.sinc(at / widest) * np.kaiser(2 * half + 1, _BETA)
    filtered *= up / filtered.sum()
    reach = -(-half // up)
    offsets = np.arange(-reach, reach + 1)
    places = np.arange(up)[:, None] - offsets * up  # (up, taps)
    inside = np.abs(places) <= half
    return np.where(inside, filtered[np.clip(places + half, 0, 2 * half)], 0.0)
