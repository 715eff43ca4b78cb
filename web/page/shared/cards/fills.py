"""Fills of inputs, and the arrays of fills with a rule."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from page.shared.npy import Array
from webpte.engine.dtypes import array_dtype

FILLS = {
    "normal": "random (normal)",
    "integers": "random integers",
    "zeros": "zeros",
    "ones": "ones",
    "range": "0, 1, 2, …",
    "ramp": "ramp, -1 to 1",
    "typed": "typed values",
    "draw": "a drawing",
    "picture": "a picture",
    "sound": "a sound",
    "text": "a text, as tokens",
    "file": "from a file",
}
BYTE_RANGES = {"int8": (-128, 128), "uint8": (0, 256), "bool": (0, 2)}
CHOSEN = ("picture", "sound", "file")  # set by a file, not by a rule
DEFAULT_BELOW = 10  # small enough to be an index into almost any table


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def fills_for(dtype: str) -> tuple[str, ...]:
    """Return the fills for an element type, the default first."""
    if is_float(dtype):
        return ("normal", "zeros", "ones", "range", "ramp", "file")
    return ("integers", "zeros", "ones", "range", "file")


def integer_range(dtype: str, below: int) -> tuple[int, int]:
    """Return the bounds of random integers: the lowest, and one more than the highest."""
    return BYTE_RANGES.get(dtype, (0, max(1, below)))


def range_period(dtype: str, count: int) -> int:
    """Return after how many values a range starts over: at 128 for int8, instead of overflowing."""
    kind = array_dtype(dtype)
    highest = 1 if dtype == "bool" else int(np.iinfo(kind).max) if kind.kind in "iu" else count
    return min(count, highest + 1)


def fill_array(
    fill: str, shape: Sequence[int], dtype: str, *, seed: int = 0, below: int = DEFAULT_BELOW
) -> Array:
    """Return an array made by a fill's rule. The same seed gives the same array."""
    kind = array_dtype(dtype)
    size = tuple(shape)
    count = prod(size)
    if fill == "normal":
        random = np.random.default_rng(seed)
        # float32 directly: drawing float64 first would take twice the memory of a large input.
        return random.standard_normal(size, dtype=np.float32).astype(kind, copy=False)
    if fill == "integers":
        low, high = integer_range(dtype, below)
        return np.random.default_rng(seed).integers(low, high, size=size).astype(kind)
    if fill == "zeros":
        return np.zeros(size, kind)
    if fill == "ones":
        return np.ones(size, kind)
    if fill == "range":
        steps = np.arange(count, dtype=np.int64)
        period = range_period(dtype, count)
        if period < count:
            steps %= period
        return steps.astype(kind).reshape(size)
    if fill == "ramp":
        return np.linspace(-1, 1, count, dtype=np.float32).astype(kind).reshape(size)
    raise ValueError(f"there is no fill named {fill!r}; take one of {', '.join(FILLS)}")
