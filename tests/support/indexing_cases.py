"""Cases of the families that pick, choose and make elements: indexing, embedding_q4, where, fill."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases import Array
from support.live_cases import Const, LiveCase, Sym
from support.movement_cases import WIDTHS, each, random_bits, scalar_bits


def indices(limit: int, shape: tuple[int, ...] | int) -> Array:
    """Any of -limit to limit - 1."""
    rng = np.random.default_rng(limit)
    return np.asarray(rng.integers(-limit, limit, shape), np.int32)


# Gather


def gathered(x: Array, dim: int, index: Array, _sparse: Any = None) -> Array:
    if index.ndim == 0:
        return np.asarray(x.reshape(-1)[int(index)])
    dim %= index.ndim

    def source(*place: int) -> Any:
        at = list(place)
        at[dim] = index[place]
        return x.reshape(x.shape or (1,))[tuple(at)]

    return each(index.shape, x.dtype, source)


GATHER = "aten.gather.default"
GATHER_CASES = [
    *(
        LiveCase(GATHER, [(random_bits(shape, dtype), dim, indices(limit, index), False)], gathered)
        for dtype in WIDTHS
        for shape, dim, limit, index in (
            ((4, 7), 1, 7, (4, 3)),
            ((4, 7), 0, 4, (9, 5)),
            ((4, 7), -1, 7, (2, 20)),
            ((67,), 0, 67, (5,)),
            ((2, 3, 5), 1, 3, (2, 4, 3)),
            ((1,), 0, 1, (1,)),
            ((4, 7), 1, 7, (4, 0)),
            ((), 0, 1, ()),
            ((), 0, 1, (3,)),
            ((5,), 0, 5, ()),
        )
    ),
    LiveCase(
        GATHER,
        [(random_bits((m, 7)), 1, indices(7, (m, n))) for m, n in ((4, 3), (1, 2), (3, 1), (0, 3))],
        gathered,
        label="dynamic",
    ),
]

# Index, index_select, embedding


def indexed(x: Array, index: list[Array | None]) -> Array:
    """The rules, one output element at a time."""
    found = [(dim, array) for dim, array in enumerate(index) if array is not None]
    dims = [dim for dim, _ in found]
    common = np.broadcast_shapes(*(array.shape for _, array in found))
    wide = {dim: np.broadcast_to(array, common) for dim, array in found}
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    ahead = [dim for dim in kept if adjacent and dim < dims[0]]
    shape = [x.shape[d] for d in ahead] + list(common) + [x.shape[d] for d in kept[len(ahead) :]]

    def source(*place: int) -> Any:
        a, c = len(ahead), len(ahead) + len(common)
        where = dict(zip(kept, place[:a] + place[c:], strict=True))
        where |= {dim: int(array[place[a:c]]) for dim, array in wide.items()}
        return x[tuple(where[dim] for dim in range(x.ndim))]

    return each(shape, x.dtype, source)


INDEX = "aten.index.Tensor"
# shape, and for each dim the limit and shape of its indices, or None
INDEXED: tuple[tuple[tuple[int, ...], list[tuple[int, tuple[int, ...]] | None]], ...] = (
    ((5, 3), [(5, (3,))]),
    ((5, 4), [(5, (2, 3))]),
    ((5, 3), [None, (3, (7,))]),
    ((5, 3, 4), [(5, (2,)), (3, (2,))]),
    ((5, 3, 4), [(5, (2, 1)), (3, (3,))]),
    ((5, 3, 4), [None, (3, (2,)), (4, (2,))]),
    ((5, 3, 4), [(5, (2,)), None, (4, (2,))]),
    ((5, 3, 4, 2), [None, (3, (2,)), None, (2, (3, 2))]),
    ((2, 3, 2, 3), [(2, (5,)), (3, (5,)), (2, (1,)), (3, ())]),
    ((2, 3, 2, 3), [(2, (5,)), (3, (5,)), (2, (5,))]),
    ((67,), [(67, (5,))]),
    ((5, 3), [(5, ())]),
    ((5, 3), [(5, (0,))]),
    ((5, 3), [(5, (2,)), None]),
)
INDEX_CASES = [
    *(
        LiveCase(
            INDEX,
            [(random_bits(shape, dtype), [None if i is None else indices(*i) for i in index])],
            indexed,
        )
        for dtype in ("float32", "int32", "bool")
        for shape, index in INDEXED
    ),
    LiveCase(
        INDEX,
        [(random_bits((m, 4)), [indices(m, n)]) for m, n in ((5, 3), (2, 7), (1, 1), (4, 0))],
        indexed,
        label="dynamic",
    ),
]


def index_selected(x: Array, dim: int, index: Array) -> Array:
    if x.ndim == 0:
        return x
    return indexed(x, [None] * (dim % x.ndim) + [index.reshape(-1)])


SELECT_CASES = [
    *(
        LiveCase("aten.index_select.default", [(random_bits(shape, dtype), dim, index)], index_selected)
        for dtype in ("float32", "int8")
        for shape, dim, index in (
            ((5, 3), 0, indices(5, 7)),
            ((5, 3), 1, indices(3, 2)),
            ((5, 4, 8), 1, indices(4, 3)),
            ((5, 4, 8), -1, indices(8, 3)),
            ((5, 3), 0, indices(5, ())),
            ((5, 3), 0, indices(5, 0)),
            ((), 0, indices(1, 1)),
        )
    ),
    LiveCase(
        "aten.index_select.default",
        [(random_bits((3, m)), 1, indices(m, n)) for m, n in ((5, 3), (2, 7), (1, 1))],
        index_selected,
        label="dynamic",
    ),
]

EMBEDDING_CASES = [
    *(
        LiveCase(
            "aten.embedding.default",
            [(weight, indices(11, shape), *more)],
            lambda weight, index, *_: indexed(weight, [index]),
        )
        for weight in (
            Const(random_bits((11, 8))),
            Const(random_bits((11, 3))),
            Const(random_bits((11, 5), "uint8")),
            Const(random_bits((11, 16), "int8")),
        )
        for shape, more in (((4,), ()), ((2, 3), (-1, False, False)), ((), (0,)), ((0, 3), ()))
    ),
    LiveCase(
        "aten.embedding.default",
        [(Const(random_bits((11, 8))), indices(11, (m, n)), -1) for m, n in ((2, 5), (1, 1), (2, 0))],
        lambda weight, index, _: indexed(weight, [index]),
        label="dynamic",
    ),
]
INDEXING_CASES = GATHER_CASES + INDEX_CASES + SELECT_CASES + EMBEDDING_CASES

# Tables of 4-bit numbers


def dequantized(
    weight: Array, scales: Array, size: int, index: Array, high_first: bool, zeros: Array | None, width: int
) -> Array:
    """One element at a time, in float64."""
    scales = scales.reshape(len(weight), -1) if scales.size > 1 else np.tile(scales, (len(weight), width))
    zeros = np.zeros_like(scales) if zeros is None else zeros.reshape(scales.shape)

    def element(*place: int) -> float:
        row, d = int(index[place[:-1]]), place[-1]
        byte = int(weight[row, d // 2])
        nibble = byte >> 4 if high_first == (d % 2 == 0) else byte & 15
        group = min(d // size, scales.shape[1] - 1)
        return (nibble - 8 - float(zeros[row, group])) * float(scales[row, group])

    return each((*index.shape, width), np.float64, element)


def table(rows: int, width: int, groups: int, extra: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(rows * width)
    weight = rng.integers(0, 256, (rows, math.ceil(width / 2) + extra), np.uint8)
    return weight, rng.uniform(0.01, 2, (rows, groups)).astype(np.float32)


Q4GSW, DECOMPOSED = "et_vk.embedding_q4gsw.default", "quantized_decomposed.embedding_4bit.dtype"


def q4gsw(width: int, size: int, *shapes: tuple[int, ...], linear: bool, extra: int = 0, rank: int = 2) -> LiveCase:
    weight, scales = table(7, width, math.ceil(width / size), extra)
    scales = scales if rank == 2 else scales[:, 0] if rank == 1 else scales[0, :1]
    return LiveCase(
        Q4GSW,
        [(Const(weight), Const(scales), size, indices(7, shape), linear) for shape in shapes],
        lambda w, s, size, index, linear: dequantized(w, s, size, index, not linear, None, width),
        out="float32",
        exact=False,
        rtol=1e-6,
    )


def decomposed(width: int, groups: int, zeros: str | None, rank: int = 2) -> LiveCase:
    weight, scales = table(7, width, groups)
    scales = scales if rank == 2 else scales[:, 0]
    points = None if zeros is None else indices(5, scales.shape).astype(zeros)
    return LiveCase(
        DECOMPOSED,
        [(Const(weight), Const(scales), None if points is None else Const(points), -8, 7, indices(7, (2, 3)), None)],
        lambda w, s, z, low, high, index, dtype: dequantized(w, s, width // groups, index, True, z, width),
        out="float32",
        exact=False,
        rtol=1e-6,
    )


EMBEDDING_Q4_CASES = [
    *(
        q4gsw(width, size, shape, linear=linear)
        for linear in (True, False)
        for width, size in ((32, 32), (64, 32), (8, 4), (12, 2), (10, 5), (6, 6), (7, 3), (1, 1), (20, 8))
        for shape in ((2, 3), ())
    ),
    q4gsw(12, 4, (5,), linear=True, extra=2),
    q4gsw(12, 4, (5,), linear=True, extra=1),
    q4gsw(16, 16, (5,), linear=False, rank=1),
    q4gsw(16, 16, (5,), linear=False, rank=0),
    q4gsw(16, 4, (1, 9), (1, 1), (1, 0), (1, 5), linear=True),
    q4gsw(16, 4, (0, 3), linear=True),
    *(
        decomposed(width, groups, zeros)
        for width, groups in ((16, 4), (12, 3), (10, 5), (6, 1))
        for zeros in (None, "float32", "int32", "int8")
    ),
    decomposed(16, 1, "float32", rank=1),
    decomposed(16, 1, None, rank=1),
]

# Where


def chosen(condition: Array, x: Array, y: Array) -> Array:
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    c, a, b = (np.broadcast_to(v, shape) for v in (condition, x, y))
    return each(shape, a.dtype, lambda *i: a[i] if c[i] else b[i])


WHERE = "aten.where.self"
WHERE_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 7), (3, 7), (3, 7)),
    ((3, 7), (), (3, 7)),
    ((3, 7), (3, 7), ()),
    ((), (3, 7), (3, 7)),
    ((3, 1), (1, 7), (3, 7)),
    ((1, 7), (2, 3, 1), (1, 1, 1)),
    ((2, 1, 3, 1), (5, 1, 2), (1, 3, 1)),
    ((67,), (1,), (67,)),
    ((1,), (1,), (1,)),
    ((), (), ()),
    ((0, 3), (1, 3), (0, 1)),
)


def where(dtype: str, condition: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[Array, Array, Array]:
    c, x, y = shapes
    flags = scalar_bits(condition) if c == () else random_bits(c, condition)
    # Other bits for y than for an x of the same shape.
    return flags, random_bits(x, dtype), np.asarray(random_bits((2, *y), dtype)[1])


WHERE_CASES = [
    *(
        LiveCase(WHERE, [where(dtype, condition, shapes)], chosen, out=dtype)
        for dtype, condition in (("float32", "bool"), ("int32", "uint8"), ("uint8", "bool"), ("bool", "bool"))
        for shapes in WHERE_SHAPES
    ),
    *(
        LiveCase(
            WHERE,
            [where(dtype, "bool", ((1, n), (), (m, n))) for m, n in ((3, 7), (2, 4), (1, 1), (0, 5))],
            chosen,
            out=dtype,
            label="dynamic",
        )
        for dtype in ("float32", "int8")
    ),
    *(
        LiveCase(
            WHERE,
            [(np.array([True, False, True, False, False]), x, y)],
            lambda c, x, y: np.array([a if f else b for f, a, b in zip(c, x, y, strict=True)]),
            out=out,
            exact=False,
            label=f"to {out}",
        )
        for x, y, out in (
            (np.arange(5, dtype=np.int32) - 2, np.linspace(-1, 1, 5, dtype=np.float32), "float32"),
            (np.arange(5) > 2, np.arange(5, dtype=np.int32), "int32"),
            (np.arange(5, dtype=np.uint8), np.arange(5, dtype=np.int32) - 2, "int32"),
        )
    ),
]

# Fill


def fill(op: str, out: str, args: tuple[Any, ...], expected: Any, **more: Any) -> LiveCase:
    """The output's dtype is all that the file says about it, in nulls."""
    nulls = (None,) * (5 if "like" in op else 4)
    # NumPy rounds arange only once, in float64.
    return LiveCase(op, [(*args, *nulls)], lambda *_: expected, out=out, exact=False, **more)


SHAPES: tuple[list[int], ...] = ([3, 5], [67], [1], [], [0, 3], [2, 1, 3, 1, 2])
VALUES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("float32", (2, 0.1, -1e9, math.inf, 1e-40)),
    ("int32", (7, -3, 2.0, 2**31 - 1)),
    ("bool", (1, 0, True, 2.5)),
    ("uint8", (200, 3.0, -1)),
    ("int8", (-128, 5)),
)


def filled(shape: list[int], value: float, dtype: str) -> Array:
    """By way of int64, so that what is out of range wraps."""
    wide = np.float64 if dtype == "float32" else np.bool_ if dtype == "bool" else np.int64
    return np.full(shape, np.array(value).astype(wide).astype(dtype))


FULL_CASES = [
    *(
        fill("aten.full.default", dtype, (shape, value), filled(shape, value, dtype))
        for dtype, values in VALUES
        for shape in SHAPES
        for value in values[: None if shape == [3, 5] else 1]
    ),
    *(
        fill("aten.full_like.default", dtype, (random_bits((3, 5)), value), filled([3, 5], value, dtype))
        for dtype, values in VALUES
        for value in values
    ),
    *(
        fill("aten.scalar_tensor.default", dtype, (value,), filled([], value, dtype))
        for dtype, values in VALUES
        for value in values
    ),
    *(
        fill(f"aten.{name}.default", dtype, (shape,), filled(shape, value, dtype))
        for name, value in (("zeros", 0), ("ones", 1))
        for dtype in ("float32", "int32", "bool", "int8")
        for shape in SHAPES
    ),
    *(
        fill(f"aten.{name}_like.default", dtype, (random_bits((67,), "int32"),), filled([67], value, dtype))
        for name, value in (("zeros", 0), ("ones", 1))
        for dtype in ("float32", "int32", "bool", "uint8")
    ),
    LiveCase(
        "aten.full.default",
        [([2, Sym(n)], 3, None, None, None, None) for n in (7, 3, 0, 9)],
        lambda size, value, *_: np.full(size, value),
        out="int32",
        exact=False,
        label="dynamic",
    ),
    LiveCase(
        "aten.zeros_like.default",
        [(random_bits((n, 3)), None, None, None, None, None) for n in (7, 3, 0, 5)],
        lambda x, *_: np.zeros(x.shape),
        out="float32",
        exact=False,
        label="dynamic",
    ),
]


def ascending(start: float, end: float, step: float, *_: Any) -> Array:
    values = []
    while (start + len(values) * step < end) if step > 0 else (start + len(values) * step > end):
        values.append(start + len(values) * step)
    return np.array(values, np.float64)


ARANGE = "aten.arange.start_step"
ARANGE_CASES = [
    *(
        LiveCase(ARANGE, [(*ends, None, None, None, None)], ascending, out=out, exact=False, rtol=1e-6)
        for out, ends in (
            ("float32", (0, 6, 1)),
            ("int32", (0, 6, 1)),
            ("int32", (-3, 67, 7)),
            ("int32", (5, -6, -2)),
            ("int32", (2.0, 9.0, 3.0)),
            ("float32", (0.5, 3.25, 0.25)),
            ("float32", (1, -1, -0.3)),
            ("float32", (0, 67, 0.1)),
            ("int32", (3, 3, 1)),
            ("float32", (0, 0, 1)),
            ("int32", (2**31 - 5, 2**31 - 1, 1)),
            ("int8", (-5, 5, 1)),
            ("uint8", (0, 9, 2)),
        )
    ),
    *(
        LiveCase(
            ARANGE,
            [
                (Sym(start), Sym(start + length), 1, None, None, None, None)
                for start, length in ((0, 5), (1, 5), (100, 5), (7, 1), (3, 0), (-4, 3))
            ],
            ascending,
            out=out,
            exact=False,
            label="live start",
        )
        for out in ("int32", "float32")
    ),
    LiveCase(
        ARANGE,
        [(0, Sym(n), 2, None, None, None, None) for n in (9, 8, 1, 0)],
        ascending,
        out="int32",
        exact=False,
        label="dynamic",
    ),
]


def grid(x: Array, stride: int, offset: float) -> Array:
    height, width = x.shape[-2:]
    points = [((c + offset) * stride, (r + offset) * stride) for r in range(height) for c in range(width)]
    return np.array(points, np.float64).reshape(-1, 2)


GRID_CASES = [
    *(
        LiveCase(
            "et_vk.grid_priors.default", [(random_bits(shape), stride, offset)], grid, exact=False, rtol=1e-6
        )
        for shape, stride, offset in (
            ((1, 3, 4, 4), 16, 0.0),
            ((1, 3, 8, 10), 8, 0.5),
            ((3, 7), 3, 0.25),
            ((2, 5, 1), 7, 0),
            ((0, 3), 2, 0.5),
        )
    ),
    LiveCase(
        "et_vk.grid_priors.default",
        [(random_bits((1, 2, h, w)), 4, 0.5) for h, w in ((5, 7), (3, 4), (1, 1), (5, 0))],
        grid,
        exact=False,
        label="dynamic",
    ),
]
FILL_CASES = FULL_CASES + ARANGE_CASES + GRID_CASES

PICKING_CASES = INDEXING_CASES + EMBEDDING_Q4_CASES + WHERE_CASES + FILL_CASES
