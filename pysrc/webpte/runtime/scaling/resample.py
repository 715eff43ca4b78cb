"""Resizing of pictures, bit for bit as Pillow does it, with which image models were trained.

Each dim in turn: a pixel is a sum of those under a filter, which is as wide as a new pixel where
the picture shrinks. Weights are integers of 22 bits after the point, and sums are rounded to bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from webpte.errors import InputError
from webpte.ops.pictures.scale_pixels import BITS

Array = np.ndarray
_CACHED = 1 << 16  # elements of 4 bytes


def _box(x: float) -> float:
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def _bilinear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _hamming(x: float) -> float:
    x = abs(x)
    if x == 0:
        return 1.0
    if x >= 1:
        return 0.0
    return math.sin(x * math.pi) / (x * math.pi) * (0.54 + 0.46 * math.cos(x * math.pi))


def _bicubic(x: float) -> float:
    x, slope = abs(x), -0.5
    if x < 1:
        return ((slope + 2) * x - (slope + 3)) * x * x + 1
    if x < 2:
        return (((x - 5) * x + 8) * x - 4) * slope
    return 0.0


def _lanczos(x: float) -> float:
    if not -3 <= x < 3:
        return 0.0
    return _sinc(x) * _sinc(x / 3)


def _sinc(x: float) -> float:
    return math.sin(x * math.pi) / (x * math.pi) if x else 1.0


# By the numbers that Pillow and preprocessor_config.json know them by: the filter, and how many
# pixels it reaches to each side. 0 takes the nearest pixel.
_FILTERS: dict[int, tuple[Callable[[float], float], float]] = {
    1: (_lanczos, 3.0),
    2: (_bilinear, 1.0),
    3: (_bicubic, 2.0),
    4: (_box, 0.5),
    5: (_hamming, 1.0),
}
NEAREST, LANCZOS, BILINEAR, BICUBIC = 0, 1, 2, 3


def check_picture(pixels: Array) -> None:
    """Raise InputError for what is no picture of bytes."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or not pixels.size:
        raise InputError(
            f"a picture has bytes (height, width, channels), not {pixels.dtype} "
            f"{list(pixels.shape)}"
        )


def check_resize(height: int, width: int, resample: int) -> None:
    """Raise InputError for a size or a filter that there is not."""
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
    """Scale the first dim, some rows at a time, which stay in the processor's cache."""
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
    """Return the nearest pixel to each new one, along one dim."""
    found: Array = ((np.arange(size) + 0.5) * (before / size)).astype(np.int64)
    return found


@lru_cache(16)
def filter_weights(before: int, size: int, resample: int) -> tuple[Array, Array]:
    """Return where the filter of each new pixel begins, and its weights (size, taps), int32.

    A sum of 255 times each weight is less than 2**31: negative ones are small.
    """
    if resample == NEAREST:
        return nearest(before, size), np.full((size, 1), 1 << BITS, np.int32)
    function, reach = _FILTERS[resample]
    scale = before / size
    stretch = max(scale, 1.0)
    support = reach * stretch
    weights = np.zeros((size, math.ceil(support) * 2 + 1), np.int32)
    starts = np.zeros(size, np.int64)
    for at in range(size):
        center = (at + 0.5) * scale
        low = max(0, int(center - support + 0.5))
        high = min(before, int(center + support + 0.5))
        row = [function((tap + low - center + 0.5) * (1 / stretch)) for tap in range(high - low)]
        total = sum(row)
        for tap, weight in enumerate(row):
            share = weight * (1 / total) if total else weight
            weights[at, tap] = int((0.5 if share >= 0 else -0.5) + share * (1 << BITS))
        starts[at] = low
    return starts, weights
