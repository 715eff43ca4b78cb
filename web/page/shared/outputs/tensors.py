"""A tensor in a few numbers: summary, histogram, first values."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from page.shared.html.units import number_text
from page.shared.npy import Array

COPY_LIMIT = 200_000  # elements; more are not useful in the clipboard


@dataclass(frozen=True)
class Summary:
    """Statistics of the finite elements; None where there are none."""

    count: int
    nbytes: int
    nan: int
    inf: int
    low: float | int | bool | None
    high: float | int | bool | None
    mean: float | None
    std: float | None


@dataclass(frozen=True)
class Histogram:
    counts: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Grid:
    """The first values: rows of text, and whether the tensor goes on past them."""

    rows: tuple[tuple[str, ...], ...]
    more_rows: bool
    more_columns: bool
    where: str  # "" or the leading index that the grid shows, such as "[0, 2]"
    starts: tuple[int, ...] = ()  # of a vector in several lines, the index of the first in each


def summarise(array: Array) -> Summary:
    flat = array.reshape(-1)
    nan = inf = 0
    if array.dtype.kind == "f":
        finite = np.isfinite(flat)
        if not finite.all():
            nan = int(np.isnan(flat).sum())
            inf = int(np.isinf(flat).sum())
            flat = flat[finite]
    if flat.size == 0:
        return Summary(array.size, array.nbytes, nan, inf, None, None, None, None)
    wide = flat.astype(np.float64, copy=False)
    return Summary(
        array.size,
        array.nbytes,
        nan,
        inf,
        flat.min().item(),
        flat.max().item(),
        float(wide.mean()),
        float(wide.std()),
    )


def histogram(array: Array, bins: int = 48) -> Histogram | None:
    """Return a histogram of the finite elements; None where there is nothing to count."""
    if array.dtype.kind not in "fiu":
        return None
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        flat = flat[np.isfinite(flat)]
    if flat.size < 2:
        return None
    wide = flat.astype(np.float64, copy=False)
    low, high = float(wide.min()), float(wide.max())
    if low == high:
        return None
    counts, _ = np.histogram(wide, bins=bins, range=(low, high))
    return Histogram(tuple(int(count) for count in counts), low, high)


def first_values(array: Array, limit: int = 12) -> list[str]:
    """Return the first elements in memory order, as text."""
    return [number_text(value) for value in array.reshape(-1)[:limit].tolist()]


def grid(array: Array, rows: int = 8, columns: int = 7) -> Grid:
    """Return the upper left corner of the last two dims, at index 0 of the others."""
    if array.size == 0:
        return Grid((), False, False, "")
    if array.ndim < 2:
        flat = array.reshape(-1)
        # A long vector reads better as several lines than as a line that is cut off.
        part = flat[: rows * columns]
        lines = [part[start : start + columns] for start in range(0, len(part), columns)]
        starts = tuple(range(0, len(part), columns)) if len(lines) > 1 else ()
        return Grid(_text(lines), flat.size > part.size, False, "", starts)
    lead = (0,) * (array.ndim - 2)
    plane = array[lead]
    if plane.shape[0] == 1 and plane.shape[1] > columns:
        return grid(plane.reshape(-1), rows, columns)
    where = str(list(lead)) if array.ndim > 2 and array[..., 0, 0].size > 1 else ""
    return Grid(
        _text([line[:columns] for line in plane[:rows]]),
        plane.shape[0] > rows,
        plane.shape[1] > columns,
        where,
    )


def _text(lines: list[Array]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(number_text(value) for value in line.tolist()) for line in lines)


def values_text(array: Array) -> str:
    """Return the whole tensor as a nested JSON list, with NaN and Infinity."""
    return json.dumps(array.tolist())
