"""Cases of the families that move elements. Expectations are loops over indices, not NumPy's calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from support.cases import Array
from support.live_cases import LiveCase, Sym

INT64_MAX = 2**63 - 1


def random_bits(shape: tuple[int, ...] | int, dtype: str = "float32") -> Array:
    """Any bits at all: NaNs with payloads, -0.0, subnormals."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(np.prod(shape, dtype=int) + kind.itemsize)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(0, 256, (*np.atleast_1d(shape), kind.itemsize), np.uint8)).view(
        kind
    ).reshape(shape)


def scalar_bits(dtype: str = "float32") -> Array:
    return random_bits(1, dtype).reshape(())


def each(shape: Iterable[int], dtype: Any, function: Callable[..., Any]) -> Array:
    """The array whose element at i, j, .. is function(i, j, ..)."""
    out = np.zeros(tuple(shape), dtype)
    for index in np.ndindex(*out.shape):
        out[index] = function(*index)
    return out


WIDTHS = ("float32", "uint8")

# Permute

PERMUTES: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 5), [1, 0]),
    ((3, 5, 7), [2, 0, 1]),
    ((3, 5, 7), [0, 2, 1]),
    ((3, 5, 7), [0, 1, 2]),
    ((2, 3, 4), [1, 0, 2]),
    ((2, 3, 16), [1, 0, 2]),
    ((2, 3, 5, 2, 3), [4, 1, 3, 0, 2]),
    ((2, 1, 2, 3, 1, 2, 2, 3), [7, 6, 5, 4, 3, 2, 1, 0]),
    ((3, 5, 7), [-1, 0, -2]),
    ((1, 1), [1, 0]),
    ((0, 3), [1, 0]),
    ((67,), [0]),
    ((), []),
    # Large enough for tiles: exactly one, several with ragged edges, batches on either side.
    ((32, 32), [1, 0]),
    ((67, 41), [1, 0]),
    ((3, 33, 2, 19), [3, 2, 1, 0]),
    ((17, 3, 37), [2, 1, 0]),
    ((2, 17, 3, 16), [0, 3, 2, 1]),
)


def permuted(x: Array, dims: list[int]) -> Array:
    order = [dim % x.ndim for dim in dims]
    return each([x.shape[d] for d in order], x.dtype, lambda *i: x[tuple(np.array(i)[np.argsort(order)])])


PERMUTE_CASES = [
    *(
        LiveCase(f"aten.{name}.default", [(random_bits(shape, dtype), dims)], permuted)
        for name, dtype in (("permute_copy", "float32"), ("permute", "bool"), ("permute", "int32"))
        for shape, dims in PERMUTES
    ),
    *(
        LiveCase("aten.t_copy.default", [(random_bits(shape, dtype),)], lambda x: permuted(x, [1, 0][-x.ndim :] if x.ndim == 2 else list(range(x.ndim))))
        for dtype in WIDTHS
        for shape in ((3, 5), (67, 41), (5,), ())
    ),
    LiveCase(
        "aten.permute_copy.default",
        [(random_bits((s, 5, n)), [2, 0, 1]) for s, n in ((3, 7), (2, 7), (37, 18), (1, 1), (0, 3))],
        permuted,
        label="dynamic",
    ),
]

# Expand, repeat, flip


def expanded(x: Array, sizes: list[int], _implicit: Any = None) -> Array:
    added = len(sizes) - x.ndim
    dims = [x.shape[d - added] if size == -1 else size for d, size in enumerate(sizes)]
    return each(
        dims,
        x.dtype,
        lambda *i: x[tuple(min(c, x.shape[d] - 1) for d, c in enumerate(i[added:]))],
    )


def repeated(x: Array, times: list[int]) -> Array:
    padded = (1,) * (len(times) - x.ndim) + x.shape
    dims = [a * b for a, b in zip(padded, times, strict=True)]
    added = len(times) - x.ndim
    return each(
        dims, x.dtype, lambda *i: x[tuple(c % x.shape[d] for d, c in enumerate(i[added:]))]
    )


def flipped(x: Array, dims: list[int]) -> Array:
    axes = {dim % max(x.ndim, 1) for dim in dims}
    return each(
        x.shape,
        x.dtype,
        lambda *i: x[tuple(x.shape[d] - 1 - c if d in axes else c for d, c in enumerate(i))],
    )


EXPANDS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((2, 1, 5), [2, 4, 5]),
    ((4,), [3, 4]),
    ((3, 1), [-1, 7]),
    ((1, 8), [5, 3, 8]),
    ((1,), [67]),
    ((), [2, 3]),
    ((), []),
    ((1, 3), [0, 3]),
    ((0, 1), [0, 3]),
    ((2, 1, 3, 1), [2, 2, -1, 4]),
)
REPEATS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 5), [2, 3]),
    ((3, 5), [2, 1, 3, 1]),
    ((3,), [7]),
    ((2, 4), [3, 2]),
    ((8,), [3]),
    ((2, 3), [0, 2]),
    ((), [2]),
    ((2, 1, 2, 2, 2, 1, 2, 2), [1, 2, 2, 2, 1, 2, 2, 2]),
)
FLIPS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 5), [0]),
    ((3, 5), [1]),
    ((3, 5), [0, -1]),
    ((3, 4, 8), [0]),
    ((3, 4, 8), [1, 0]),
    ((67,), [0]),
    ((2, 3, 2, 3), [0, 2]),
    ((5,), []),
    ((0, 3), [0]),
    ((1, 1), [0, 1]),
)
TILED_CASES = [
    *(
        LiveCase("aten.expand_copy.default", [(random_bits(shape, dtype), sizes, False)], expanded)
        for dtype in WIDTHS
        for shape, sizes in EXPANDS
    ),
    LiveCase(
        "aten.expand_copy.default",
        [(random_bits((1, n)), [Sym(m), Sym(n)], False) for m, n in ((3, 5), (2, 4), (1, 1), (7, 5))],
        expanded,
        label="dynamic",
    ),
    *(
        LiveCase("aten.repeat.default", [(random_bits(shape, dtype), times)], repeated)
        for dtype in ("float32", "int8")
        for shape, times in REPEATS
    ),
    LiveCase(
        "aten.repeat.default",
        [(random_bits((m, n)), [1, 3]) for m, n in ((6, 5), (2, 4), (1, 1), (0, 5))],
        repeated,
        label="dynamic",
    ),
    *(
        LiveCase("aten.flip.default", [(random_bits(shape, dtype), dims)], flipped)
        for dtype in ("float32", "bool")
        for shape, dims in FLIPS
    ),
    LiveCase(
        "aten.flip.default",
        [(random_bits((m, n)), [0, 1]) for m, n in ((6, 5), (2, 4), (1, 1), (0, 5))],
        flipped,
        label="dynamic",
    ),
    LiveCase("aten.flip.default", [(scalar_bits(), [])], flipped),
]

# Windows and blocks


def unfolded(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return np.repeat(x.reshape(1), size)
    dim %= x.ndim
    dims = list(x.shape)
    dims[dim] = (dims[dim] - size) // step + 1

    def source(*index: int) -> Any:
        *place, within = index
        place[dim] = place[dim] * step + within
        return x[tuple(place)]

    return each([*dims, size], x.dtype, source)


def shuffled(x: Array, r: int) -> Array:
    *batch, channels, height, width = x.shape

    def source(*index: int) -> Any:
        *place, c, h, w = index
        return x[(*place, c * r * r + h % r * r + w % r, h // r, w // r)]

    return each((*batch, channels // (r * r), height * r, width * r), x.dtype, source)


BLOCK_CASES = [
    *(
        LiveCase("aten.unfold_copy.default", [(random_bits(shape, dtype), *args)], unfolded)
        for dtype in WIDTHS
        for shape, args in (
            ((7,), (0, 3, 1)),
            ((7,), (0, 3, 2)),
            ((7,), (0, 7, 5)),
            ((7,), (0, 0, 2)),
            ((3, 7, 5), (1, 2, 3)),
            ((3, 7, 5), (-1, 4, 1)),
            ((20, 20), (0, 16, 1)),
            ((), (0, 1, 1)),
            ((3, 0), (1, 0, 1)),
        )
    ),
    LiveCase(
        "aten.unfold_copy.default",
        [(random_bits((3, n)), 1, 3, 2) for n in (9, 4, 3)],
        unfolded,
        label="dynamic",
    ),
    *(
        LiveCase("aten.pixel_shuffle.default", [(random_bits(shape, dtype), r)], shuffled)
        for dtype in WIDTHS
        for shape, r in (
            ((1, 4, 3, 5), 2),
            ((2, 18, 2, 3), 3),
            ((4, 3, 5), 2),
            ((2, 3, 4, 2, 2), 2),
            ((1, 3, 4, 4), 1),
            ((1, 0, 4, 4), 2),
        )
    ),
    LiveCase(
        "aten.pixel_shuffle.default",
        [(random_bits((n, 8, h, 3)), 2) for n, h in ((2, 5), (1, 5), (2, 1))],
        shuffled,
        label="dynamic",
    ),
]

STRIDED_CASES = PERMUTE_CASES + TILED_CASES + BLOCK_CASES

# Parts of a dim


def sliced(
    x: Array, dim: int = 0, start: float | None = None, end: float | None = None, step: int = 1
) -> Array:
    """torch's rules, index by index."""
    size = x.shape[dim]
    first, last = (int(start or 0), size if end is None else int(end))
    first, last = (v + size if v < 0 else v for v in (first, last))
    taken = [i for i in range(size) if max(first, 0) <= i < last and (i - max(first, 0)) % step == 0]
    dims = list(x.shape)
    dims[dim] = len(taken)

    def source(*index: int) -> Any:
        place = list(index)
        place[dim] = taken[place[dim]]
        return x[tuple(place)]

    return each(dims, x.dtype, source)


def selected(x: Array, dim: int, index: float) -> Array:
    dim %= x.ndim
    at = int(index) + (x.shape[dim] if index < 0 else 0)
    dims = [size for d, size in enumerate(x.shape) if d != dim]
    return each(dims, x.dtype, lambda *i: x[(*i[:dim], at, *i[dim:])])


def split(x: Array, sizes: list[int], dim: int = 0) -> list[Array]:
    ends = np.cumsum(sizes)
    return [sliced(x, dim, int(end) - size, int(end)) for size, end in zip(sizes, ends, strict=True)]


SLICES: tuple[tuple[Any, ...], ...] = (
    (0, 1, 4, 1),
    (1, 1, 4, 1),
    (-1, 2, 7, 1),
    (-1, 0, 4, 1),
    (1, -3, -1, 1),
    (0, None, None, 1),
    (1, 0.0, 3.0, 1),
    (1, 1, INT64_MAX, 1),
    (1, -100, 100, 2),
    (2, 1, 8, 3),
    (1, 4, 2, 1),
    (1, 5, 100, 1),
    (0, 100, 200, 1),
    (),
    (1,),
    (2, 4),
    (0, 1, 3),
)
LIVE = "live start"
SLICE_CASES = [
    *(
        LiveCase("aten.slice_copy.Tensor", [(random_bits(shape, dtype), *args)], sliced)
        for dtype in WIDTHS
        for shape in ((5, 5, 8), (7, 6, 9))
        for args in SLICES
    ),
    LiveCase("aten.slice_copy.Tensor", [(random_bits(67), 0, 3, 66, 1)], sliced),
    LiveCase("aten.slice_copy.Tensor", [(random_bits(67, "bool"), 0, 3, 66, 1)], sliced),
    LiveCase("aten.slice_copy.Tensor", [(random_bits((0, 3)), 0, 0, 5, 1)], sliced),
    # A table of angles, sliced at a position that moves while the length stays or changes.
    *(
        LiveCase(
            "aten.slice_copy.Tensor",
            [
                (table, dim, Sym(start), Sym(start + length), 1)
                for start, length in ((0, 5), (1, 5), (6, 5), (2, 3), (10, 1), (7, 4), (3, 0))
            ],
            sliced,
            label=LIVE,
        )
        for table, dim in (
            (random_bits((11, 8)), 0),
            (random_bits((11, 3)), 0),
            (random_bits((3, 11, 4)), 1),
            (random_bits((3, 11)), 1),
            (random_bits((11, 3), "uint8"), 0),
            (random_bits((11, 16), "uint8"), 0),
        )
    ),
    LiveCase(
        "aten.slice_copy.Tensor",
        [(random_bits((9, 20, 17)), 1, Sym(s), Sym(e), 2) for s, e in ((-20, -1), (-19, 20), (3, 50))],
        sliced,
        label=LIVE,
    ),
    LiveCase(
        "aten.slice_copy.Tensor",
        [(random_bits((n, 3)), 0, -2, INT64_MAX, 1) for n in (7, 2, 1, 4)],
        sliced,
        label="dynamic",
    ),
]
SELECT_CASES = [
    *(
        LiveCase("aten.select_copy.int", [(random_bits((3, 5, 4), dtype), dim, index)], selected)
        for dtype in WIDTHS
        for dim in (0, 1, 2, -1)
        for index in (0, 2, -1, -3, 1.0)
    ),
    LiveCase("aten.select_copy.int", [(random_bits(5), 0, 3)], selected),
    LiveCase("aten.select_copy.int", [(random_bits((1, 0, 3)), 0, 0)], selected),
    LiveCase(
        "aten.select_copy.int",
        [(random_bits((1, n, 8)), 1, -1) for n in (7, 1, 4)],
        selected,
        label="dynamic",
    ),
    *(
        LiveCase(
            "aten.select_copy.int",
            [(random_bits((3, n, 4), dtype), 1, Sym(i)) for n, i in ((7, 0), (7, 6), (7, -7), (3, 2))],
            selected,
            label=LIVE,
        )
        for dtype in WIDTHS
    ),
]
SPLIT_CASES = [
    *(
        LiveCase("aten.split_with_sizes_copy.default", [(random_bits((6, 8, 4), dtype), *args)], split)
        for dtype in WIDTHS
        for args in (
            ([2, 3, 1], 0),
            ([4, 4], 1),
            ([1, 3], -1),
            ([0, 8, 0], 1),
            ([6],),
            ([1] * 8, 1),
        )
    ),
    LiveCase(
        "aten.split_with_sizes_copy.default",
        [(random_bits((n, 5)), [2, 3], -1) for n in (6, 1, 3, 0)],
        split,
        label="dynamic",
    ),
    LiveCase(
        "aten.split_with_sizes_copy.default",
        [(random_bits((3, a + b)), [Sym(a), Sym(b)], 1) for a, b in ((4, 4), (0, 5), (3, 1))],
        split,
        label="dynamic",
    ),
]
SLICING_CASES = SLICE_CASES + SELECT_CASES + SPLIT_CASES

# Cat


def joined(arrays: list[Array], dim: int = 0) -> Array:
    arrays = [x for x in arrays if x.shape != (0,)] or arrays[:1]
    dim %= arrays[0].ndim
    owners = [(x, i) for x in arrays for i in range(x.shape[dim])]
    dims = list(arrays[0].shape)
    dims[dim] = len(owners)

    def source(*index: int) -> Any:
        array, at = owners[index[dim]]
        return array[(*index[:dim], at, *index[dim + 1 :])]

    return each(dims, arrays[0].dtype, source)


def parts(dtype: str, *shapes: tuple[int, ...]) -> list[Array]:
    return [random_bits(shape, dtype) for shape in shapes]


CATS: tuple[tuple[tuple[tuple[int, ...], ...], int], ...] = (
    (((3, 5), (2, 5)), 0),
    (((3, 5), (3, 2)), 1),
    (((3, 4), (3, 8)), -1),
    (((2, 3, 4), (2, 1, 4), (2, 5, 4)), 1),
    (((5,),), 0),
    (((5,), (1,), (7,)), 0),
    (((3, 0), (3, 2)), 1),
    (((0,), (3, 2)), 1),
    (((3, 2), (0,), (3, 1)), -1),
    (((0,), (0,)), 0),
    (((0, 3), (0, 3)), 0),
    # More than one dispatch, with and without ends on word boundaries.
    (tuple((3, n) for n in (1, 2, 3, 4, 5, 6)), 1),
    (tuple((3, 16) for _ in range(9)), 1),
    (tuple((n,) for n in range(1, 14)), 0),
    (((3, 4),) * 4, 0),
)
CAT_CASES = [
    *(
        LiveCase("aten.cat.default", [(parts(dtype, *shapes), dim)], joined)
        for dtype in ("float32", "int32", "bool", "int8")
        for shapes, dim in CATS
    ),
    LiveCase("aten.cat.default", [(parts("float32", (3, 5), (2, 5)),)], joined),
    *(
        LiveCase(
            "aten.cat.default",
            [(parts(dtype, (2, m), (2, n), (2, 3)), 1) for m, n in ((5, 4), (4, 4), (0, 3), (1, 0))],
            joined,
            label="dynamic",
        )
        for dtype in WIDTHS
    ),
]
MIXED = [
    np.array([[1, -7, 2**24], [3, 4, 5]], np.int32),
    np.array([[0.5, -0.25], [1e9, 3]], np.float32),
    np.array([[True], [False]]),
    np.array([[200, 3], [1, 0]], np.uint8),
    np.array([[-128, 3], [1, 0]], np.int8),
]
CAST_CASES = [
    LiveCase(
        "aten.cat.default",
        [([MIXED[i] for i in some], 1)],
        lambda arrays, dim: joined([x.astype(np.float64) for x in arrays], dim),
        out=out,
        exact=False,
        label=f"to {out}",
    )
    for some, out in (
        ((0, 1, 2, 3, 4), "float32"),
        ((2, 1), "float32"),
        ((0, 2, 3, 4), "int32"),
        ((4, 2), "int8"),
        ((2, 3), "uint8"),
    )
]

# Pad


def padded(x: Array, pad: list[int], value: float = 0, *, dtype: Any = None) -> Array:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    dims = [size + a + b for size, (a, b) in zip(x.shape, pairs, strict=True)]
    # `x` holds bits, so the value has to.
    filler = np.array(value).astype(dtype or x.dtype)
    filler = filler.view(x.dtype) if filler.dtype.itemsize == x.dtype.itemsize else filler

    def source(*index: int) -> Any:
        place = [i - before for i, (before, _) in zip(index, pairs, strict=True)]
        inside = all(0 <= i < size for i, size in zip(place, x.shape, strict=True))
        return x[tuple(place)] if inside else filler

    return each(dims, x.dtype, source)


PADS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 8), [1, 2]),
    ((3, 8), [4, 4]),
    ((2, 4, 8), [1, 1, 2, 0]),
    ((2, 4, 8), [0, 0, 1, 2]),
    ((2, 3, 2, 3, 2), [1, 0, 0, 1, 2, 1, 0, 2, 1, 1]),
    ((3, 8), [-2, 3]),
    ((3, 8), [-2, -3, 1, -2]),
    ((3, 8), [-4, -4]),
    ((3, 8), [-9, 9]),
    ((3, 8), [9, -9]),
    ((3, 8), [0, 0, -2, 5]),
    ((3, 8), []),
    ((5,), [1, 1]),
    ((), []),
    ((0, 3), [1, 1, 2, 0]),
    ((3, 8), [-3, -5]),
)
PAD_VALUES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("float32", (0.0, 1.5, -math.inf, 1e-40)),
    ("int32", (0, -7, 3.0)),
    ("uint8", (0, 200)),
    ("bool", (0, 1, True)),
    ("int8", (-3,)),
)
PAD_CASES = [
    *(
        LiveCase(
            "aten.constant_pad_nd.default",
            [(random_bits(shape, dtype), pad, value)],
            lambda x, pad, value, t=dtype: padded(x, pad, value, dtype=t),
        )
        for dtype, values in PAD_VALUES
        for shape, pad in PADS
        for value in values[: 1 if len(shape) > 2 else None]
    ),
    LiveCase("aten.constant_pad_nd.default", [(random_bits((3, 5)), [1, 2])], padded),
    *(
        LiveCase(
            "aten.constant_pad_nd.default",
            [(random_bits((m, n), dtype), [1, 2, 0, 1], 0) for m, n in ((6, 5), (2, 5), (1, 1), (0, 4))],
            padded,
            label="dynamic",
        )
        for dtype in WIDTHS
    ),
    LiveCase(
        "aten.constant_pad_nd.default",
        [(random_bits((2, n)), [Sym(a), Sym(b)], 0.0) for n, a, b in ((5, 1, 2), (3, 0, 3), (5, -2, 1))],
        padded,
        label="dynamic",
    ),
]

MOVEMENT_CASES = STRIDED_CASES + SLICING_CASES + CAT_CASES + CAST_CASES + PAD_CASES
