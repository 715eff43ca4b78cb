"""Sounds from callers: arrays of samples, with their rate if it is known.

Sounds are resampled to the model's rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.sound.speech.resample import Resampler, check_rate, resample

Array = np.ndarray


def samples_of(given: Any, rate: int) -> Array:
    """Return the samples of a sound at a rate, (count,) floats.

    given   samples of that rate, or {"array" (or "raw"), "sampling_rate"} as the pipelines take
            them, which are resampled if need be
    """
    samples, own = read_sound(given)
    return samples if own is None else resample(samples, own, rate)


def read_sound(given: Any) -> tuple[Array, int | None]:
    """Return the samples of a sound (count,) and their rate, None if the rate is unknown."""
    rate = None
    if isinstance(given, Mapping):
        if given.get("sampling_rate") is None:
            raise InputError("the sound has no sampling_rate: give its samples of a second")
        rate = check_rate(given["sampling_rate"])
        given = given.get("raw", given.get("array"))
    if not isinstance(given, np.ndarray):
        raise InputError(f"a sound is a NumPy array of samples, not a {type(given).__name__}")
    return _check_sound(given), rate


class BlockResampler:
    """Resamples the blocks of a sound, in the forms of `samples_of`, to a model's rate.

    old   the rate of blocks without a rate; None: the model's rate
    """

    def __init__(self, rate: int, old: int | None = None) -> None:
        self._rate = rate
        self._old = None if old is None else check_rate(old)
        self._resampler: Resampler | None = None

    def push(self, block: Any) -> Array:
        """Return the samples that a block adds."""
        samples, own = read_sound(block)
        own = own or self._old or self._rate
        if self._resampler is None:
            self._old, self._resampler = own, Resampler(own, self._rate)
        if own != self._old:
            raise InputError(
                f"a block of {own} samples a second came after one of {self._old}: a sound has one "
                "sampling_rate"
            )
        return self._resampler.push(samples)

    def finish(self) -> Array:
        """Return the remaining samples after the end of the sound."""
        return np.zeros(0, np.float32) if self._resampler is None else self._resampler.finish()


def _check_sound(samples: Array) -> Array:
    """Return samples (count,); raise InputError unless they are finite floats of a channel."""
    if samples.ndim != 1 or samples.dtype.kind != "f":
        raise InputError(
            "a sound is an array (samples,) of floats from -1 to 1, of one channel; got "
            f"{samples.dtype} {list(samples.shape)}"
        )
    if not math.isfinite(float(np.sum(samples, dtype=np.float64))):
        raise InputError("the sound has NaN or infinities")
    return samples
