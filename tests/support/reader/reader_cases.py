"""A page whose lines a small reader finds and reads: tests/data/tasks/read.json."""

from __future__ import annotations

import numpy as np

from support.harness.task_cases import DATA, READER

__all__ = ["EXPECTED", "LETTERS", "OPTIONS", "READER", "page"]

EXPECTED = DATA / "read.json"
LETTERS = "abcdefghijk"  # after the label of no letter
OPTIONS = {"text_score": 0.1}
_LINES = ((14, 20, 210), (44, 30, 120), (76, 20, 180))  # rows of dark letters, from left to right


def page() -> np.ndarray:
    """Return a page (112, 224, 3) of bytes with three lines of dark stripes."""
    picture = np.full((112, 224, 3), 240, np.uint8)
    drawn = np.random.RandomState(8)
    for top, left, right in _LINES:
        for start in range(left, right, 6):
            picture[top : top + 16, start : start + 6] = drawn.randint(0, 50, (1, 1, 3))
            picture[top + drawn.randint(2, 10) :, start : start + 6][:4] = drawn.randint(40, 80)
    return picture
