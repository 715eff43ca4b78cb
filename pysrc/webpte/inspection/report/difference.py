"""The rule for whether two arrays agree, and a description of their largest difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from webpte.engine.shapes import Dims

RTOL = ATOL = 1e-3  # ExecuTorch's operator tests use these for float32
RELATIVE_FLOOR = 1e-6  # with "either", smaller elements count as this for the relative error
AROUND = 2  # elements to each side of the worst element, along the last two dims


@dataclass(frozen=True)
class Tolerance:
    """The rule for whether an element agrees with the wanted element.

    combine      "sum": |actual - wanted| <= atol + rtol·|wanted|; "either": the error is within
                 `atol`, or its relative size within `rtol`
    relative_to  "element", or "largest": |wanted| is taken from the array's largest finite element
    equal_nan    whether NaN agrees with NaN

    Equal infinities agree; an infinity and any other number never do.
    """

    rtol: float = RTOL
    atol: float = ATOL
    combine: Literal["sum", "either"] = "sum"
    relative_to: Literal["element", "largest"] = "element"
    equal_nan: bool = True


EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Difference:
    """Figures about two arrays: `wrong` of `count` elements are beyond the tolerance.

    worst  index of the element that exceeds its tolerance most, or else has the largest error
    used   the largest error as a share of its element's tolerance; up to 1 agrees
    """

    count: int
    wrong: int
    max_abs: float
    max_rel: float
    worst: tuple[int, ...]
    problem: str = ""  # the reason why the arrays cannot be compared, such as shapes that differ
    used: float = 0.0

    @property
    def agrees(self) -> bool:
        return not self.wrong and not self.problem


def difference(actual: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Difference:
    """Compare two arrays by a tolerance."""
    if actual.shape != wanted.shape:
        problem = f"{list(actual.shape)} here, {list(wanted.shape)} there"
        return Difference(actual.size, actual.size, np.inf, np.inf, (), problem, np.inf)
    if not actual.size:
        return Difference(0, 0, 0.0, 0.0, ())
    gap, size = _gap(actual, wanted, tolerance.equal_nan), np.abs(_widened(wanted))
    finite = np.isfinite(size)
    scale = size
    if tolerance.relative_to == "largest":
        scale = np.where(finite, size[finite].max(initial=0.0), size)
    allowed = _allowed(tolerance, scale)
    wrong = int((gap > allowed).sum())
    over = gap - allowed if wrong else gap
    worst = np.unravel_index(int(over.argmax()), gap.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        used = np.where(gap == 0.0, 0.0, gap / allowed)
    return Difference(
        actual.size,
        wrong,
        float(gap.max()),
        float(_relative(tolerance, gap, scale).max()),
        tuple(int(i) for i in worst),
        used=float(used.max()),
    )


def _allowed(tolerance: Tolerance, scale: np.ndarray) -> np.ndarray:
    """Return the largest error that passes for elements of this size; 0 for infinities."""
    atol, rtol = tolerance.atol, tolerance.rtol
    with np.errstate(invalid="ignore", over="ignore"):
        if tolerance.combine == "either":
            within = np.maximum(atol, rtol * np.maximum(scale, RELATIVE_FLOOR))
        else:
            within = atol + rtol * scale
    return np.where(np.isfinite(scale), within, 0.0)


def _relative(tolerance: Tolerance, gap: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the relative errors; with "sum", 0 for elements smaller than `atol`."""
    if tolerance.combine == "either":
        with np.errstate(invalid="ignore"):
            found = gap / np.maximum(scale, RELATIVE_FLOOR)
        return np.where(np.isnan(found), np.inf, found)
    measurable = np.isfinite(scale) & (scale >= max(tolerance.atol, np.finfo(np.float32).tiny))
    return np.divide(gap, scale, out=np.zeros_like(gap), where=measurable)


def _widened(array: np.ndarray) -> np.ndarray:
    """Return float64, without the warning that signalling NaNs cause."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def _gap(actual: np.ndarray, wanted: np.ndarray, equal_nan: bool) -> np.ndarray:
    """Return the absolute errors as float64: 0 for equal infinities, infinite for NaN."""
    one, two = _widened(actual), _widened(wanted)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(one - two)
        if actual.dtype.kind in "biu" and wanted.dtype.kind in "biu":
            # float64 cannot represent all integers exactly, but unequal integers differ by 1 at
            # least.
            return np.where(actual == wanted, 0.0, np.maximum(gap, 1.0))
        same = one == two
        if equal_nan:
            same |= np.isnan(one) & np.isnan(two)
        return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


@dataclass(frozen=True)
class ElementWindow:
    """The elements around an element, of both arrays; `start` is the index of the first."""

    start: tuple[int, ...]
    actual: list[Any]
    wanted: list[Any]


def window(actual: np.ndarray, wanted: np.ndarray, at: tuple[int, ...]) -> ElementWindow:
    """Return the elements around `at` along the last two dims."""
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
    """Statistics of an array; `low`, `high` and `mean` are over its finite elements."""

    dtype: str
    shape: Dims
    low: float
    high: float
    mean: float
    nans: int
    infinities: int


def facts_of(array: np.ndarray) -> ArrayFacts:
    """Return the statistics of an array."""
    flat = _widened(array).reshape(-1)
    finite = flat[np.isfinite(flat)]
    numbers = (finite.min(), finite.max(), finite.mean()) if finite.size else (0.0, 0.0, 0.0)
    low, high, mean = map(float, numbers)
    nans, infinities = non_finite(array)
    return ArrayFacts(array.dtype.name, array.shape, low, high, mean, nans, infinities)


def non_finite(array: np.ndarray) -> tuple[int, int]:
    """Count the NaNs and the infinities."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return 0, 0
    return int(np.isnan(array).sum()), int(np.isinf(array).sum())
