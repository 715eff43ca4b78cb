"""Resizing of pictures, equal to Pillow bit for bit, because image models were trained with Pillow.

Each dim is scaled in turn: a new pixel is a weighted sum of the pixels under a filter, which is as
wide as a new pixel if the picture shrinks. Weights are integers of 22 bits after the point, and
sums are rounded to bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from webpte.engine.ops.pictures.scale_pixels import BITS
from webpte.errors import InputError

Array = np.ndarray
_CACHED = 1 << 16  # elements of 4 bytes


def _box(x: Array) -> Array:
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def _bilinear(x: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _hamming(x: Array) -> Array:
    x = np.abs(x)
    window = 0.54 + 0.46 * _each(math.cos, x * math.pi)
    return np.where(x < 1, _sinc(x) * window, 0.0)


def _bicubic(x: Array) -> Array:
    x, slope = np.abs(x), -0.5
    near = ((slope + 2) * x - (slope + 3)) * x * x + 1
    return np.where(x < 1, near, np.where(x < 2, (((x - 5) * x + 8) * x - 4) * slope, 0.0))


def _lanczos(x: Array) -> Array:
    return np.where((x >= -3) & (x < 3), _sinc(x) * _sinc(x / 3), 0.0)


def _sinc(x: Array) -> Array:
    scaled = np.where(x == 0, 1.0, x * math.pi)
    return np.where(x == 0, 1.0, _each(math.sin, scaled) / scaled)


def _each(function: Callable[[float], float], x: Array) -> Array:
    """Return a function of each number by C's library; NumPy's functions may round differently."""
    return np.array([function(one) for one in x.ravel().tolist()]).reshape(x.shape)


# By Pillow's and preprocessor_config.json's numbers: the filter, and its reach to each side in
# pixels. 0 takes the nearest pixel.
_FILTERS: dict[int, tuple[Callable[[Array], Array], float]] = {
    1: (_lanczos, 3.0),
    2: (_bilinear, 1.0),
    3: (_bicubic, 2.0),
    4: (_box, 0.5),
    5: (_hamming, 1.0),
}
NEAREST, LANCZOS, BILINEAR, BICUBIC = 0, 1, 2, 3


def check_picture(pixels: Array) -> None:
    """Raise InputError unless an array is a picture of bytes."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or not pixels.size:
        raise InputError(
            f"a picture has bytes (height, width, channels), not {pixels.dtype} "
            f"{list(pixels.shape)}"
        )


def check_resize(height: int, width: int, resample: int) -> None:
    """Raise InputError for an invalid size or an unknown filter."""
    if height < 1 or width < 1:
        raise InputError(f"a picture cannot be resized to {height} by {width} pixels")
    if resample != NEAREST and resample not in _FILTERS:
        raise InputError(f"there is no filter {resample!r} to resize pictures with")


def resize(pixels: Array, height: int, width: int, resample: int) -> Array:
    """Return a picture (rows, columns, channels) of bytes in another size."""
    check_picture(pixels)
    check_resize(height, width, resample)
    if pixels.shape[:2] == (height, width):
        return pixels
    if resample == NEAREST:
        rows, columns = (
            nearest(old, new) for new, old in zip((height, width), pixels.shape, strict=False)
        )
        return pixels[rows[:, None], columns]
    across = _scaled(np.ascontiguousarray(pixels.swapaxes(0, 1)), width, resample)
    return _scaled(np.ascontiguousarray(across.swapaxes(0, 1)), height, resample)


def _scaled(pixels: Array, size: int, resample: int) -> Array:
    """Scale the first dim, some rows at a time, to stay in the processor's cache."""
    before = len(pixels)
    if before == size:
        return pixels
    starts, weights = filter_weights(before, size, resample)
    source = pixels.reshape(before, -1)
    made = np.empty((size, source.shape[1]), np.uint8)
    rows = max(1, _CACHED // source.shape[1])
    for first in range(0, size, rows):
        part = slice(first, min(first + rows, size))
        total = np.full((part.stop - first, source.shape[1]), 1 << (BITS - 1), np.int32)
        for tap in range(weights.shape[1]):
            found = source[np.minimum(starts[part] + tap, before - 1)].astype(np.int32)
            found *= weights[part, tap, None]
            total += found
        total >>= BITS
        made[part] = total.clip(0, 255, out=total)
    return made.reshape(size, *pixels.shape[1:])


def nearest(before: int, size: int) -> Array:
    """Return the nearest pixel to each new pixel, along a dim."""
    found: Array = ((np.arange(size) + 0.5) * (before / size)).astype(np.int64)
    return found


@lru_cache(16)
def filter_weights(before: int, size: int, resample: int) -> tuple[Array, Array]:
    """Return the start of each new pixel's filter, and its weights (size, taps), int32.

    A sum of 255 times each weight is less than 2**31: negative weights are small.
    """
    if resample == NEAREST:
        return nearest(before, size), np.full((size, 1), 1 << BITS, np.int32)
    function, reach = _FILTERS[resample]
    scale = before / size
    stretch = max(scale, 1.0)
    support = reach * stretch
    centers = (np.arange(size) + 0.5) * scale
    starts = (centers - support + 0.5).astype(np.int64).clip(0)
    ends = (centers + support + 0.5).astype(np.int64).clip(None, before)
    taps = np.arange(math.ceil(support) * 2 + 1)
    x = (taps + starts[:, None] - centers[:, None] + 0.5) * (1 / stretch)
    shares = np.where(taps < (ends - starts)[:, None], function(x), 0.0)
    totals = np.cumsum(shares, axis=1)[:, -1:]  # in order, as Pillow adds them
    shares = np.where(totals == 0, shares, shares * (1 / np.where(totals == 0, 1.0, totals)))
    rounding = np.where(shares >= 0, 0.5, -0.5)
    return starts, (rounding + shares * (1 << BITS)).astype(np.int32)
