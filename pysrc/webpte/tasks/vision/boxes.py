"""Boxes of things in a picture, as transformers' pipelines of detection return them."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError

Array = np.ndarray


def corners(boxes: Array, height: int, width: int) -> Array:
    """Return boxes (count, 4) of centers and sizes as left, top, right and bottom in pixels.

    boxes   x, y, width and height, as fractions of a picture of this height and width
    """
    center, half = boxes[:, :2], boxes[:, 2:] * np.float32(0.5)
    sides = np.concatenate([center - half, center + half], axis=1)
    return np.asarray(sides * np.array([width, height, width, height], np.float32))


def box_of(sides: Array) -> dict[str, int]:
    """Return a box as whole pixels, towards 0."""
    left, top, right, bottom = (int(side) for side in sides)
    return {"xmin": left, "ymin": top, "xmax": right, "ymax": bottom}


def check_threshold(threshold: Any) -> None:
    """Raise InputError unless a value is a score."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise InputError(f"threshold is {threshold!r}; give the least score of results, 0 to 1")
