"""Cases of resizing and of sampling at a grid. The expectations walk output by output."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, is_array, normal, write_given
from support.write.pte_writer import GraphWriter, write_pte

NEAREST = "aten.upsample_nearest2d.vec"
LINEAR = "aten.upsample_bilinear2d.vec"
GRID = "aten.grid_sampler_2d.default"

MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@dataclass(frozen=True)
class ResampleCase(RowCase):
    """Build a case whose scale factors are a list of floats."""

    def program(self) -> bytes:
        g = GraphWriter()
        ids = [
            g.double_list(given)
            if isinstance(given, list) and isinstance(given[0], float)
            else write_given(g, given)
            for given in self.args
        ]
        inputs = [i for i, given in zip(ids, self.args, strict=True) if is_array(given)]
        (expected,) = self.expected(self.steps[0])
        out = g.op(self.op, *ids, g.tensor(expected.shape, self.outs[0]))
        g.inputs(*inputs)
        g.outputs(out)
        for value_id in (*inputs, out):
            g.host(value_id, dynamic=bool(self.live))
        return write_pte(g)


def sizes_of(x: Array, size: list[int] | None, factors: list[float] | None) -> list[int]:
    if size is not None:
        return size
    assert factors is not None
    return [math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]


def each_place(x: Array, sizes: list[int], value: Callable[[int, int], Array]) -> Array:
    """(B, C, *sizes), filled with what `value` gives for a row and a column."""
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    for h, w in np.ndindex(*sizes):
        out[:, :, h, w] = value(h, w)
    return out


def step_of(in_size: int, out_size: int, factor: float | None) -> np.float32:
    """Map outputs to inputs in float32, as torch does."""
    if factor is None or in_size == out_size:
        return np.float32(in_size) / np.float32(out_size)
    return np.float32(1 / factor)


def expect_nearest(x: Array, size: list[int] | None, factors: list[float] | None) -> Array:
    sizes = sizes_of(x, size, factors)

    def source(place: int, axis: int) -> int:
        in_size, out_size = x.shape[2 + axis], sizes[axis]
        if out_size == 2 * in_size:
            return place // 2
        step = step_of(in_size, out_size, factors[axis] if factors else None)
        return min(int(np.float32(place) * step), in_size - 1)

    return each_place(x, sizes, lambda h, w: x[:, :, source(h, 0), source(w, 1)])


def expect_linear(
    x: Array, size: list[int] | None, align: bool, factors: list[float] | None
) -> Array:
    sizes = sizes_of(x, size, factors)

    def place_of(place: int, axis: int) -> tuple[int, float]:
        in_size, out_size = x.shape[2 + axis], sizes[axis]
        if align:
            at = place * (in_size - 1) / (out_size - 1) if out_size > 1 else 0.0
        else:
            step = step_of(in_size, out_size, factors[axis] if factors else None)
            at = max((place + 0.5) * float(step) - 0.5, 0.0)
        before = min(math.floor(at), in_size - 1)
        return before, min(at - before, 1.0)

    def value(h: int, w: int) -> Array:
        (top, down), (left, right) = place_of(h, 0), place_of(w, 1)
        bottom, side = min(top + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
        above = x[:, :, top, left] * (1 - right) + x[:, :, top, side] * right
        below = x[:, :, bottom, left] * (1 - right) + x[:, :, bottom, side] * right
        return np.asarray(above * (1 - down) + below * down)

    return each_place(x, sizes, value)


def expect_grid(x: Array, grid: Array, mode: int, padding: int, align: bool) -> Array:
    out = np.zeros((*x.shape[:2], *grid.shape[1:3]))
    for image, h, w in np.ndindex(*grid.shape[:3]):
        across = taps(grid[image, h, w, 0], x.shape[3], mode, padding, align)
        down = taps(grid[image, h, w, 1], x.shape[2], mode, padding, align)
        for i, weight_i in down:
            for j, weight_j in across:
                if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
                    out[image, :, h, w] += x[image, :, i, j] * weight_i * weight_j
    return out


def taps(place: float, size: int, mode: int, padding: int, align: bool) -> list[tuple[int, float]]:
    at = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    if mode == MODES["bicubic"]:
        first = math.floor(at)
        return [
            (int(inside(i, size, padding, align)), cubic(abs(at - i)))
            for i in range(first - 1, first + 3)
        ]
    at = inside(at, size, padding, align)
    if mode == MODES["nearest"]:
        return [(round(at), 1.0)]
    first = math.floor(at)
    return [(first, first + 1 - at), (first + 1, at - first)]


def inside(at: float, size: int, padding: int, align: bool) -> float:
    """Reflect a place back into the image, mirror by mirror."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if padding == PADDINGS["reflection"] and low < high:
        while not low <= at <= high:
            at = 2 * low - at if at < low else 2 * high - at
    return at if padding == PADDINGS["zeros"] else min(max(at, 0.0), size - 1.0)


def cubic(distance: float) -> float:
    d, a = distance, -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a


def nearest(x: Array, *args: Any, **options: Any) -> ResampleCase:
    return ResampleCase(NEAREST, (x, *args), expect_nearest, (str(x.dtype),), **options)


def linear(x: Array, *args: Any, **options: Any) -> ResampleCase:
    return ResampleCase(LINEAR, (x, *args), expect_linear, rtol=1e-4, atol=2e-5, **options)


def sampled(x: Array, grid: Array, *args: Any, **options: Any) -> ResampleCase:
    return ResampleCase(GRID, (x, grid, *args), expect_grid, rtol=1e-4, atol=5e-5, **options)


def resizes() -> list[ResampleCase]:
    cases = []
    x = normal((2, 3, 5, 7))
    for size, factors in (
        ([10, 14], None),
        ([8, 11], None),
        ([3, 2], None),
        ([1, 1], None),
        ([5, 21], None),
        (None, [2.0, 2.0]),
        (None, [1.5, 1.5]),
        (None, [2.1, 1.1]),
        (None, [0.7, 0.5]),
        (None, [4.7, 3.0]),
    ):
        cases.append(nearest(x, size, factors))
        cases.append(linear(x, size, False, factors))
        cases.append(linear(x, size, True, factors))
    return cases


def grids() -> list[ResampleCase]:
    cases = []
    x, grid = normal((2, 3, 5, 4)), normal((2, 3, 7, 2), 2)
    for mode in MODES.values():
        for padding in PADDINGS.values():
            for align in (False, True):
                cases.append(sampled(x, grid, mode, padding, align))
                cases.append(sampled(x, grid * 3, mode, padding, align, label="far out"))
    return cases


CORNERS = np.array([-1, -0.5, 0, 0.5, 1], np.float32)

RESAMPLE_CASES: list[RowCase] = [
    *resizes(),
    nearest(normal((1, 1, 1, 1)), [3, 5], None),
    nearest(np.arange(30, dtype=np.int32).reshape(1, 2, 3, 5), [7, 4], None),
    nearest(np.arange(30, dtype=np.uint8).reshape(1, 2, 3, 5), [5, 5], None),
    nearest(np.arange(30).reshape(2, 1, 5, 3) % 3 == 0, None, [1.6, 3.0]),
    nearest(normal((2, 2, 6, 6)), None, [2.0, 1.5], live=((normal((1, 2, 3, 5), 2),),)),
    linear(normal((1, 1, 1, 1)), [3, 5], False, None),
    linear(normal((1, 2, 1, 4)), [1, 9], True, None),
    linear(normal((2, 2, 6, 6)), None, False, [2.0, 1.5], live=((normal((1, 2, 3, 5), 2),),)),
    *grids(),
    sampled(
        normal((1, 17, 3, 3)),
        np.stack(np.meshgrid(CORNERS, CORNERS), -1)[None],
        *(MODES["nearest"], PADDINGS["zeros"], True),
        label="ties, several blocks of channels",
    ),
    sampled(normal((1, 2, 1, 1)), normal((1, 3, 3, 2)), 0, PADDINGS["reflection"], True),
    sampled(
        normal((2, 3, 6, 5)),
        normal((2, 4, 4, 2), 2),
        *(0, 1, True),
        live=((normal((1, 3, 4, 4), 3), normal((1, 2, 3, 2), 4)),),
    ),
]
