"""Cases of the strided family. Expectations are loops over indices, not NumPy's calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, LiveCase, Sym, each, random_bits, scalar_bits

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
    ((3, 33, 2, 19), [0, 3, 2, 1]),
    ((17, 3, 37), [2, 1, 0]),
    ((2, 17, 3, 16), [0, 3, 2, 1]),
)


def permuted(x: Array, dims: list[int]) -> Array:
    order = [dim % x.ndim for dim in dims]
    return each(
        [x.shape[d] for d in order], x.dtype, lambda *i: x[tuple(np.array(i)[np.argsort(order)])]
    )


PERMUTE_CASES = [
    *(
        LiveCase(f"aten.{name}.default", [(random_bits(shape, dtype), dims)], permuted)
        for name, dtype in (("permute_copy", "float32"), ("permute", "bool"), ("permute", "int32"))
        for shape, dims in PERMUTES
    ),
    *(
        LiveCase(
            "aten.t_copy.default",
            [(random_bits(shape, dtype),)],
            lambda x: permuted(x, [1, 0][-x.ndim :] if x.ndim == 2 else list(range(x.ndim))),
        )
        for dtype in WIDTHS
        for shape in ((3, 5), (67, 41), (5,), ())
    ),
    LiveCase(
        "aten.permute_copy.default",
        [
            (random_bits((s, 5, n)), [2, 0, 1])
            for s, n in ((3, 7), (2, 7), (37, 18), (1, 1), (0, 3))
        ],
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


def filled(into: Array, x: Array, _non_blocking: Any = None) -> Array:
    return expanded(x, list(into.shape))


def repeated(x: Array, times: list[int]) -> Array:
    padded = (1,) * (len(times) - x.ndim) + x.shape
    dims = [a * b for a, b in zip(padded, times, strict=True)]
    added = len(times) - x.ndim
    return each(dims, x.dtype, lambda *i: x[tuple(c % x.shape[d] for d, c in enumerate(i[added:]))])


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
FILLS = [(shape, sizes) for shape, sizes in EXPANDS if -1 not in sizes]
TILED_CASES = [
    *(
        LiveCase(
            "aten.copy.default",
            [(random_bits(tuple(sizes), dtype), random_bits(shape, dtype), False)],
            filled,
        )
        for dtype in WIDTHS
        for shape, sizes in FILLS
    ),
    LiveCase(
        "aten.copy.default",
        [
            (random_bits((m, n)), random_bits((k, n)))
            for m, n, k in ((3, 5, 3), (3, 5, 1), (2, 4, 2), (0, 5, 1))
        ],
        filled,
        label="dynamic",
    ),
    *(
        LiveCase("aten.expand_copy.default", [(random_bits(shape, dtype), sizes, False)], expanded)
        for dtype in WIDTHS
        for shape, sizes in EXPANDS
    ),
    LiveCase(
        "aten.expand_copy.default",
        [
            (random_bits((1, n)), [Sym(m), Sym(n)], False)
            for m, n in ((3, 5), (2, 4), (1, 1), (7, 5))
        ],
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

# Diagonals


def diagonal(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    down, across = dim1 % x.ndim, dim2 % x.ndim
    kept = [dim for dim in range(x.ndim) if dim not in (down, across)]
    size = sum(0 <= i + offset < x.shape[across] for i in range(x.shape[down]))

    def source(*place: int) -> Any:
        at = dict(zip(kept, place, strict=False))
        at[down], at[across] = place[-1] + max(-offset, 0), place[-1] + max(offset, 0)
        return x[tuple(at[dim] for dim in range(x.ndim))]

    return each([*(x.shape[dim] for dim in kept), size], x.dtype, source)


DIAGONAL_CASES = [
    *(
        LiveCase("aten.diagonal_copy.default", [(random_bits(shape, dtype), *how)], diagonal)
        for dtype in WIDTHS
        for shape, how in (
            ((5, 5), (0, 0, 1)),
            ((3, 7), (2, 0, 1)),
            ((3, 7), (-2, 0, 1)),
            ((3, 7), (-3, 0, 1)),
            ((3, 5, 7), (1, -1, 0)),
            ((2, 33, 3, 35), (0, 1, 3)),
            ((1, 1), (0, 1, 0)),
            ((0, 3), (0, 0, 1)),
        )
    ),
    LiveCase(
        "aten.diagonal_copy.default",
        [(random_bits((m, n)), 1, 0, 1) for m, n in ((6, 5), (2, 4), (1, 1), (0, 5))],
        diagonal,
        label="dynamic",
    ),
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

STRIDED_CASES = PERMUTE_CASES + TILED_CASES + DIAGONAL_CASES + BLOCK_CASES
