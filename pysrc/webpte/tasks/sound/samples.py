"""Sounds as people have them: arrays of samples, with their rate where it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from webpte.errors import InputError

Array = np.ndarray


def samples_of(given: Any, rate: int) -> Array:
    """Return the samples of a sound, (count,) floats; raise InputError if it has another rate.

    given   samples, or {"array" (or "raw"), "sampling_rate"} as the pipelines take them
    """
    if isinstance(given, Mapping):
        if given.get("sampling_rate") != rate:
            raise InputError(
                f"the sound has {given.get('sampling_rate')} samples a second (sampling_rate), "
                f"but the model takes {rate}: resample it first"
            )
        given = given.get("raw", given.get("array"))
    if not isinstance(given, np.ndarray):
        raise InputError(f"a sound is a NumPy array of samples, not a {type(given).__name__}")
    return _check_sound(given)


def _check_sound(samples: Array) -> Array:
    """Return samples (count,); raise InputError unless they are finite floats of one channel."""
    if samples.ndim != 1 or samples.dtype.kind != "f":
        raise InputError(
            "a sound is an array (samples,) of floats from -1 to 1, of one channel; got "
            f"{samples.dtype} {list(samples.shape)}"
        )
    if not math.isfinite(float(np.sum(samples, dtype=np.float64))):
        raise InputError("the sound has NaN or infinities")
    return samples
