"""Sounds as inputs: one channel at the model's sample rate, cut or padded to its length.

samples (count,) float32 of -1 to 1  --level, part-->  (…, length, …), or frames of (frames, window)

The browser decodes files, and mixes and resamples them; see `sound.js`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from page.shared.npy import Array
from webpte.engine.dtypes import INT32_MAX, array_dtype

LONG = 1024  # samples: a shorter dim is not taken for a sound, unless a card says so
DEFAULT_RATE = 16_000
LOWEST_RATE, HIGHEST_RATE = 3_000, 384_000  # that browsers resample to
LONGEST_SECONDS = 600  # of a sound
_FEW = 8  # a dim with no more than this may be a batch or channels

PARTS = {"start": "beginning", "middle": "middle", "end": "end"}
LEVELS = {"plain": "unchanged", "peak": "peak-normalize", "standard": "mean 0, std 1"}


@dataclass(frozen=True)
class SoundForm:
    """The dim of time, and the dim of frames if the input takes frames of a sound."""

    time: int
    frames: int | None = None
    rate: int = DEFAULT_RATE


@dataclass(frozen=True)
class SoundSettings:
    """Settings of the conversion. `hop`: samples between the starts of two frames; 0: a frame's
    length."""

    rate: int = DEFAULT_RATE
    part: str = "start"
    level: str = "plain"
    hop: int = 0


def sound_form_of(bounds: Sequence[tuple[int, int]], dtype: str, rate: int = 0) -> SoundForm | None:
    """Return how an input of these dims holds a sound; None if it cannot. A card may give the
    `rate`."""
    if "float" not in dtype or not 1 <= len(bounds) <= 3:
        return None
    longest = max(range(len(bounds)), key=lambda dim: (bounds[dim][1], dim))
    others = [dim for dim in range(len(bounds)) if dim != longest]
    single = all(bounds[dim][0] <= 1 and _is_small(bounds[dim][1]) for dim in others)
    if single and (rate or bounds[longest][1] >= LONG):
        return SoundForm(longest, None, rate or DEFAULT_RATE)
    if rate and len(bounds) == 2:  # a card that has a rate for (frames, window)
        return SoundForm(1, 0, rate)
    return None


def _is_small(highest: int) -> bool:
    return highest <= _FEW or highest == INT32_MAX


def sound_dims(
    count: int, form: SoundForm, settings: SoundSettings, bounds: Sequence[tuple[int, int]]
) -> list[int]:
    """Return the dims for a sound of `count` samples: its own length, within the bounds."""
    dims = [min(max(1, low), high) for low, high in bounds]
    if form.frames is None:
        low, high = bounds[form.time]
        dims[form.time] = min(max(count, low, 1), high)
        return dims
    window = bounds[form.time][1]
    low, high = bounds[form.frames]
    fit = 1 + max(0, count - window) // (settings.hop or window)
    dims[form.time], dims[form.frames] = window, min(max(fit, low, 1), high)
    return dims


def prepare_sound(
    samples: Array, form: SoundForm, settings: SoundSettings, dims: Sequence[int], dtype: str
) -> Array:
    """Convert samples (count,) to the input's array, padded with silence."""
    window = dims[form.time]
    if form.frames is None:
        part = _part(samples, window, settings.part)
        values = levelled(part[None], settings.level)[0]
        return values.astype(array_dtype(dtype)).reshape(tuple(dims))
    frames, hop = dims[form.frames], settings.hop or window
    part = _part(samples, window + (frames - 1) * hop, settings.part)
    cut = np.lib.stride_tricks.sliding_window_view(part, window)[::hop]  # (frames, window)
    return np.ascontiguousarray(levelled(cut, settings.level), dtype=array_dtype(dtype))


def sound_calls(samples: Array, form: SoundForm, hop: int, dims: Sequence[int]) -> list[Array]:
    """Cut a whole sound into the frames of several calls, each (frames, window).

    A frame has `hop` new samples after the last samples of the frame before; the first begins with
    silence, and silence fills the last call.
    """
    frames, window = dims[form.frames or 0], dims[form.time]
    total = max(1, -(-len(samples) // hop))
    calls = -(-total // frames)
    padded = np.zeros(window - hop + calls * frames * hop, np.float32)
    padded[window - hop : window - hop + len(samples)] = samples
    cut = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    return [np.ascontiguousarray(part) for part in np.split(cut[: calls * frames], calls)]


def _part(samples: Array, length: int, part: str) -> Array:
    extra = max(0, len(samples) - length)
    start = {"middle": extra // 2, "end": extra}.get(part, 0)
    made = np.zeros(length, np.float32)
    taken = samples[start : start + length]
    made[: len(taken)] = taken
    return made


def levelled(rows: Array, level: str) -> Array:
    """Normalize (frames, samples), each frame by itself."""
    if level == "peak":
        peaks = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        return rows / np.where(peaks > 0, peaks, 1)
    if level == "standard":
        spread = rows.std(axis=1, keepdims=True)
        return (rows - rows.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    return rows
