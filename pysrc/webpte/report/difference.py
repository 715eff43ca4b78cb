"""How far two arrays are apart, where most, and what stands around there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.shapes import Dims

RTOL = ATOL = 1e-3  # what the operator catalogue of ExecuTorch takes for float32
AROUND = 2  # elements to each side of the worst one, along the last two dims


@dataclass(frozen=True)
class Tolerance:
    """|actual - wanted| <= atol + rtol·|wanted|, with NaN equal to NaN."""

    rtol: float = RTOL
    atol: float = ATOL


@dataclass(frozen=True)
class Difference:
    """`wrong` of `count` elements are beyond the tolerance; `worst` is where it is most."""

    count: int
    wrong: int
    max_abs: float
    max_rel: float
    worst: tuple[int, ...]
    problem: str = ""  # shapes that differ, say

    @property
    def agrees(self) -> bool:
        return not self.wrong and not self.problem


def difference(actual: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Difference:
    """The numbers that decide whether two arrays agree."""
    if actual.shape != wanted.shape:
        problem = f"{list(actual.shape)} here, {list(wanted.shape)} there"
        return Difference(actual.size, actual.size, np.inf, np.inf, (), problem)
    if not actual.size:
        return Difference(0, 0, 0.0, 0.0, ())
    one, two = actual.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        gap = np.where(same, 0.0, np.abs(one - two))
        gap = np.where(np.isnan(gap), np.inf, gap)
        size = np.abs(two)
        allowed = np.where(np.isfinite(size), tolerance.atol + tolerance.rtol * size, 0.0)
        wrong = int((gap > allowed).sum())
    measurable = np.isfinite(size) & (size >= max(tolerance.atol, np.finfo(np.float32).tiny))
    relative = np.divide(gap, size, out=np.zeros_like(gap), where=measurable)
    over = gap - allowed if wrong else gap  # the worst is one that is wrong, if any is
    worst = np.unravel_index(int(over.argmax()), gap.shape)
    return Difference(
        actual.size,
        wrong,
        float(gap.max()),
        float(relative.max()),
        tuple(int(i) for i in worst),
    )


@dataclass(frozen=True)
class ElementWindow:
    """The elements around one of them, of both arrays; `start` is the index of the first."""

    start: tuple[int, ...]
    actual: list[Any]
    wanted: list[Any]


def window(actual: np.ndarray, wanted: np.ndarray, at: tuple[int, ...]) -> ElementWindow:
    """Along the last two dims; of the others only the index itself."""
    narrow = len(at) - 2
    parts = [
        slice(i, i + 1) if dim < narrow else slice(max(0, i - AROUND), i + AROUND + 1)
        for dim, i in enumerate(at)
    ]
    start = tuple(part.start for part in parts)
    lines = actual[tuple(parts)], wanted[tuple(parts)]
    shape: Dims = lines[0].shape[max(0, narrow) :]
    one, two = (line.reshape(shape).tolist() for line in lines)
    return ElementWindow(start, one, two)


@dataclass(frozen=True)
class ArrayFacts:
    """What an array is like, in a few numbers; those of its finite elements."""

    dtype: str
    shape: Dims
    low: float
    high: float
    mean: float
    nans: int
    infinities: int

    @classmethod
    def of(cls, array: np.ndarray) -> ArrayFacts:
        flat = array.astype(np.float64).reshape(-1)
        finite = flat[np.isfinite(flat)]
        numbers = (finite.min(), finite.max(), finite.mean()) if finite.size else (0.0, 0.0, 0.0)
        low, high, mean = map(float, numbers)
        nans, infinities = non_finite(array)
        return cls(array.dtype.name, array.shape, low, high, mean, nans, infinities)


def non_finite(array: np.ndarray) -> tuple[int, int]:
    """How many NaN, and how many infinite."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return 0, 0
    return int(np.isnan(array).sum()), int(np.isinf(array).sum())
