"""Drawings as a model learns them: centred, and each time a little different.

People draw only a few examples of each class. So each is rotated, scaled and shifted a little every
time it is used, and its position on the pad does not matter.
"""

from __future__ import annotations

import numpy as np

from page.shared.npy import Array

_TURN, _SCALE, _MOVE = 0.22, 0.15, 1.5  # at most: radians, a part of the size, pixels


def is_empty(drawing: Array) -> bool:
    return not drawing.any()


def centred(drawing: Array) -> Array:
    """Centre a drawing (height, width) by its mass; empty ones stay."""
    if is_empty(drawing):
        return drawing
    rows, columns = (np.arange(size) for size in drawing.shape)
    total = drawing.sum()
    down = (drawing.shape[0] - 1) / 2 - (drawing.sum(1) @ rows) / total
    right = (drawing.shape[1] - 1) / 2 - (drawing.sum(0) @ columns) / total
    return _moved(_moved(drawing, round(float(down)), 0), round(float(right)), 1)


def _moved(drawing: Array, by: int, axis: int) -> Array:
    """Shift a drawing; what leaves the edge is lost."""
    moved = np.roll(drawing, by, axis)
    edge = [slice(None), slice(None)]
    edge[axis] = slice(0, by) if by > 0 else slice(drawing.shape[axis] + by, None)
    moved[tuple(edge)] = 0
    return moved


def varied(pictures: Array, rng: np.random.Generator) -> Array:
    """Rotate, scale and shift each picture of (n, 1, height, width) a little, at random."""
    count, _, height, width = pictures.shape
    turn, scale = rng.uniform(-_TURN, _TURN, count), 1 + rng.uniform(-_SCALE, _SCALE, count)
    down, right = rng.uniform(-_MOVE, _MOVE, (2, count, 1, 1))
    cos, sin = (np.cos(turn) / scale)[:, None, None], (np.sin(turn) / scale)[:, None, None]
    y, x = np.mgrid[:height, :width]
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    # Where each pixel comes from, (n, height, width): the way back of the turn.
    from_y = cos * y - sin * x + (height - 1) / 2 + down
    from_x = sin * y + cos * x + (width - 1) / 2 + right
    return _sampled(pictures[:, 0], from_y, from_x)[:, None]


def _sampled(pictures: Array, y: Array, x: Array) -> Array:
    """Sample pictures at fractional positions, bilinearly; outside they are zero."""
    height, width = pictures.shape[1:]
    bordered = np.pad(pictures, ((0, 0), (1, 1), (1, 1)))
    y, x = np.clip(y + 1, 0, height), np.clip(x + 1, 0, width)
    top, left = y.astype(int), x.astype(int)
    lower, right = y - top, x - left
    at = np.arange(len(pictures))[:, None, None]
    above = bordered[at, top, left] * (1 - right) + bordered[at, top, left + 1] * right
    below = bordered[at, top + 1, left] * (1 - right) + bordered[at, top + 1, left + 1] * right
    return (above * (1 - lower) + below * lower).astype(pictures.dtype)
