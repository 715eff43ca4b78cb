"""Resizing of maps of numbers, as PyTorch's `interpolate` does it (align_corners=False).

Unlike Pillow's resizing of pictures, no filter widens where a map shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from webpte.engine.ops.conv.resample import cubic_weights
from webpte.errors import InputError

Array = np.ndarray
_MODES = ("bilinear", "bicubic")
_STRIP = 1 << 18  # numbers computed at once, to fit a cache


def interpolate(values: Array, height: int, width: int, mode: str = "bilinear") -> Array:
    """Return a map (..., rows, columns) in another size, float32."""
    return np.concatenate([strip for _, strip in strips(values, height, width, mode)], axis=-2)


def strips(
    values: Array, height: int, width: int, mode: str = "bilinear"
) -> Iterator[tuple[int, Array]]:
    """Yield the resized map in strips of rows, each with its first row.

    A map of many labels is large at a picture's size; strips let a caller keep only the best label
    of each pixel.
    """
    if mode not in _MODES:
        raise InputError(f"there is no mode {mode!r} to resize maps with: {', '.join(_MODES)}")
    if values.ndim < 2 or min(*values.shape[-2:], height, width) < 1:
        raise InputError(f"a map {list(values.shape)} cannot be resized to {height} by {width}")
    rows, row_weights = _taps(values.shape[-2], height, mode)
    columns, column_weights = _taps(values.shape[-1], width, mode)
    step = max(_STRIP // max(values[..., 0, 0].size * width, 1), 1)
    for start in range(0, height, step):
        part = slice(start, start + step)
        tall = _added(
            values[..., at[part], :] * weight[part, None]
            for at, weight in zip(rows, row_weights, strict=True)
        )
        made = _added(
            tall[..., at] * weight for at, weight in zip(columns, column_weights, strict=True)
        )
        yield start, made.astype(np.float32, copy=False)


def _added(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total += part
    return total


def _taps(before: int, size: int, mode: str) -> tuple[list[Array], list[Array]]:
    """Return the places (size,) of each tap along a dim, and their weights."""
    if before == size:
        return [np.arange(size)], [np.ones(size, np.float32)]
    scale, half = np.float32(before / size), np.float32(0.5)
    at = (np.arange(size, dtype=np.float32) + half) * scale - half
    if mode == "bilinear":
        at = np.maximum(at, 0)
        first = np.minimum(at.astype(np.int64), before - 1)
        share = (at - first).astype(np.float32)
        return [first, np.minimum(first + 1, before - 1)], [1 - share, share]
    first = np.floor(at).astype(np.int64)
    weights = cubic_weights((at - first).astype(np.float32))
    places = [np.clip(first + step, 0, before - 1) for step in (-1, 0, 1, 2)]
    return places, [np.asarray(weight, np.float32) for weight in weights]
