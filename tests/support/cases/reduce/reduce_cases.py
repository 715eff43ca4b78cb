"""Cases of the reductions. Expectations loop over rows in plain Python, not in NumPy's axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import Given, RowCase, normal

NAN, INF = math.nan, math.inf
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
SUM, MEAN = "aten.sum.dim_IntList", "aten.mean.dim"
AMAX, AMIN = "aten.amax.default", "aten.amin.default"
ANY, ALL = "aten.any.dims", "aten.all.dims"
ARGMAX, ARGMIN = "aten.argmax.default", "aten.argmin.default"


def by_rows(x: Array, dims: Sequence[int] | None, keepdim: bool, f: Callable[..., Any]) -> Array:
    """`f` of each row's list of elements, in the order of the file."""
    axes = sorted({dim % max(x.ndim, 1) for dim in dims or range(x.ndim)} if x.ndim else ())
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    length = math.prod(x.shape[axis] for axis in axes)
    rows = x.transpose([*kept, *axes]).reshape(math.prod(shape), length).tolist()
    full = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return np.array([f(row) for row in rows]).reshape(full if keepdim else shape)


def largest(row: list[Any]) -> Any:
    return NAN if any(v != v for v in row) else max(row)


def smallest(row: list[Any]) -> Any:
    return NAN if any(v != v for v in row) else min(row)


def total(row: list[Any]) -> Any:
    if all(isinstance(v, int) for v in row):
        return (sum(row) - INT32_MIN) % 2**32 + INT32_MIN
    return sum(row) if any(math.isinf(v) or v != v for v in row) else math.fsum(row)


def mean(row: list[float]) -> float:
    return total([float(v) for v in row]) / len(row) if row else NAN


def first_largest(row: list[Any]) -> int:
    return next((i for i, v in enumerate(row) if v != v), row.index(max(row)))


def first_smallest(row: list[Any]) -> int:
    return next((i for i, v in enumerate(row) if v != v), row.index(min(row)))


FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    SUM: total,
    MEAN: mean,
    AMAX: largest,
    AMIN: smallest,
}
LOGICAL: dict[str, Callable[[list[Any]], Any]] = {ANY: any, ALL: all}


def reduction(
    op: str, x: Array, dims: list[int] | None, keepdim: bool = False, **options: Any
) -> RowCase:
    more: tuple[Given, ...] = (None,) if op in (SUM, MEAN) else ()

    def expect(x: Array, dims: list[int] | None, keepdim: bool, *_: Any) -> Array:
        return by_rows(x, dims, keepdim, (FUNCTIONS | LOGICAL)[op])

    options = {"outs": (str(x.dtype),), "rtol": 2e-6, "atol": 2e-5, **options}
    return RowCase(op, (x, dims, keepdim, *more), expect, **options)


def arg_reduction(op: str, x: Array, dim: int | None, keepdim: bool = False, **o: Any) -> RowCase:
    function = first_largest if op == ARGMAX else first_smallest

    def expect(x: Array, dim: int | None, keepdim: bool) -> Array:
        return by_rows(x, None if dim is None else [dim], keepdim, function)

    return RowCase(op, (x, dim, keepdim), expect, **{"outs": ("int32",), **o})


# Rank 0 and 1, one element, odd sizes, every choice of dims; rows that are single threads, parts
# of a workgroup, a whole one; rows apart from each other; rows that are cut into parts.
CHOICES: tuple[tuple[tuple[int, ...], list[int] | None], ...] = (
    ((), None),
    ((), [0]),
    ((), [-1]),
    ((1,), [0]),
    ((67,), None),
    ((67,), []),
    ((5, 7, 11), [-1]),
    ((5, 7, 11), [1]),
    ((5, 7, 11), [0]),
    ((5, 7, 11), [0, 2]),
    ((5, 7, 11), [1, 2]),
    ((5, 7, 11), [-2, -3]),
    ((5, 7, 11), [2, 0, 1]),
    ((5, 7, 11), None),
    ((2, 3, 4, 5), [1, 3]),
    ((2, 3, 5, 4), [1, 3]),
    ((2, 3, 4, 5), [-2, -4]),
    ((3, 1, 4, 1), [1, 3]),
    ((3, 1, 4, 1), [0, 2]),
    ((2, 1, 3, 2, 1, 2, 3, 2), [0, 3, 5]),
    ((2, 3, 2, 2, 3, 2, 2, 2), [0, 2, 4, 6]),
    ((2, 3, 2, 2, 3, 2, 2, 2), [7, 5, 3, 1]),
    ((4, 128), [-1]),
    ((3, 129), [-1]),
    ((2, 2048), [-1]),
    ((2, 1023), [1]),
    ((331, 3), [-1]),
    ((331, 4), [-1]),
    ((3, 331), [0]),
    ((13, 1, 40), [0]),
    ((2, 40, 67), [1]),
    ((700, 9, 1), [1]),
)
LONG: tuple[tuple[tuple[int, ...], list[int] | None], ...] = (
    ((1, 40000), [-1]),
    ((2, 70001), [-1]),
    ((9001, 5), [0]),
    ((40, 7, 300), [0, 2]),
)
EMPTY: tuple[tuple[tuple[int, ...], list[int] | None], ...] = (
    ((0, 3), [0]),
    ((3, 0), [-1]),
    ((0,), None),
    ((4, 0, 2), [0]),
    ((2, 0, 3), [0, 1]),
)
WHOLE = np.array([7, -7, 2**24 + 1, -(2**24) - 1, INT32_MAX, INT32_MIN, 0, 3, 1, 2**30], np.int32)


def shape_cases() -> list[RowCase]:
    cases = [
        reduction(op, normal(shape), dims, keepdim)
        for op in FUNCTIONS
        for i, (shape, dims) in enumerate(CHOICES)
        for keepdim in ((False, True) if i % 5 == 0 else (i % 2 == 0,))
    ]
    # What sums of thousands of either sign lose does not shrink with the sum itself.
    cases += [
        reduction(op, normal(shape), dims, atol=1e-4) for op in FUNCTIONS for shape, dims in LONG
    ]
    cases += [reduction(op, normal(shape), dims) for op in (SUM, MEAN) for shape, dims in EMPTY]
    cases += [reduction(op, normal((4, 0, 2)), [0, 2], True) for op in (AMAX, AMIN)]
    return cases


def integer_cases() -> list[RowCase]:
    """Exact where float32 is not; sums wrap; bytes in and bytes out, at every length modulo 4."""
    cases = []
    for x in (WHOLE.reshape(2, 5), WHOLE.reshape(5, 2), np.tile(WHOLE, 8).reshape(20, 4)):
        for dims in ([-1], [0], None):
            cases += [reduction(op, x, dims) for op in (SUM, AMAX, AMIN)]
    cases += [reduction(SUM, np.full((2, 40001), 12345, np.int32), [1], label="in parts")]
    rng = np.random.default_rng(4)
    for rows in (1, 2, 3, 4, 5, 9):
        small = rng.integers(-128, 128, (rows, 7), np.int8)
        flags = rng.random((rows, 5)) < 0.4
        for op in (AMAX, AMIN):
            cases += [reduction(op, small, [-1]), reduction(op, flags, [1])]
        cases += [
            reduction(SUM, small, [1], outs=("int32",)),
            reduction(SUM, flags, [1], outs=("int32",)),
            reduction(SUM, flags, None, outs=("float32",), label="as float"),
        ]
    octets = rng.integers(0, 256, (3, 8), np.uint8)
    cases += [reduction(op, octets, dims) for op in (AMAX, AMIN) for dims in ([-1], [0])]
    cases += [
        reduction(SUM, octets, [0], outs=("int32",)),
        reduction(MEAN, WHOLE.reshape(2, 5) // 100, [1], outs=("float32",), label="as float"),
    ]
    return cases


def logical_cases() -> list[RowCase]:
    """Rows that are all true, all false, mixed, and of no element."""
    rng = np.random.default_rng(5)
    cases = []
    for op in LOGICAL:
        for i, (shape, dims) in enumerate((*CHOICES, *LONG, *EMPTY)):
            chance = (0.02, 0.5, 0.98)[i % 3]
            flags = np.asarray(rng.random(shape) < chance)
            cases += [reduction(op, flags, dims, i % 2 == 0)]
        for value in (False, True):
            cases += [reduction(op, np.full((3, 33), value), [1], label=f"all {value}")]
    return cases


# Sums of these need no rounding, in any order.
SPECIAL = np.array(
    [
        [1, NAN, 3, NAN],
        [INF, 1, INF, 0],
        [-INF, -INF, -INF, -INF],
        [0.0, -0.0, 0.0, -0.0],
        [-3.4028235e38, -3.4028235e38, -INF, -INF],
        [3e38, 3e38, 1e30, 2e30],
        [-INF, 0, -INF, 1],
    ],
    np.float32,
)


def special_cases() -> list[RowCase]:
    cases = [reduction(op, SPECIAL, dims) for op in (AMAX, AMIN) for dims in ([1], [0], None)]
    cases += [reduction(op, SPECIAL[:4], [1]) for op in (SUM, MEAN)]
    odd = np.pad(SPECIAL, ((0, 0), (0, 1)), constant_values=-2)
    return cases + [reduction(op, odd, [1]) for op in (AMAX, AMIN)]


def arg_cases() -> list[RowCase]:
    cases = []
    for op in (ARGMAX, ARGMIN):
        for shape, dims in CHOICES + LONG[:3]:
            if dims is None or len(dims) == 1:
                dim = dims[0] if dims else None
                cases += [arg_reduction(op, normal(shape), dim, len(shape) % 2 == 0)]
        cases += [arg_reduction(op, SPECIAL, dim) for dim in (0, 1, None)]
        ties = np.round(normal((6, 301)))
        cases += [arg_reduction(op, ties, dim, label="ties") for dim in (0, 1, None)]
        far = np.zeros((1, 30000), np.float32)
        far[0, [29999, 12345, 20000]] = 1 if op == ARGMAX else -1
        cases += [arg_reduction(op, far, -1, label="ties across parts")]
        cases += [arg_reduction(op, far * 0, -1, label="all equal")]
        for x in (WHOLE.reshape(2, 5), WHOLE.astype(np.int8), WHOLE.astype(np.uint8), WHOLE > 5):
            cases += [arg_reduction(op, x, -1), arg_reduction(op, x, None, True)]
        cases += [arg_reduction(op, normal((0, 3)), 1), arg_reduction(op, normal((3, 0, 2)), 0)]
    return cases


def dynamic_cases() -> list[RowCase]:
    """Smaller, larger again, one row, nothing, on one program."""
    sizes = ((9, 7, 12), (4, 7, 12), (4, 3, 5), (1, 1, 1), (9, 7, 12))
    cases = []
    for dims, keepdim in (([1], True), ([-1], False), ([0, 2], True), (None, False)):
        live = tuple((normal(size, i),) for i, size in enumerate(sizes[1:]))
        cases += [
            reduction(op, normal(sizes[0]), dims, keepdim, live=live, label="live")
            for op in FUNCTIONS
        ]
    live = ((normal((3, 200)),), (normal((1, 20000), 2),), (normal((0, 5)),), (normal((3, 1)),))
    cases += [reduction(MEAN, normal((3, 20000)), [-1], live=live, label="long and short")]
    cases += [
        arg_reduction(op, normal((3, 20000)), -1, live=live, label="live")
        for op in (ARGMAX, ARGMIN)
    ]
    return cases


REDUCE_CASES = (
    shape_cases()
    + integer_cases()
    + logical_cases()
    + special_cases()
    + arg_cases()
    + dynamic_cases()
)
