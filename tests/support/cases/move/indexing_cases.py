"""Cases of the indexing family, one element after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import WIDTHS, Const, LiveCase, each, random_bits


def indices(limit: int, shape: tuple[int, ...] | int) -> Array:
    """Any of -limit to limit - 1."""
    rng = np.random.default_rng(limit)
    return np.asarray(rng.integers(-limit, limit, shape), np.int32)


def rows(limit: int, shape: tuple[int, ...] | int) -> Array:
    """Any of 0 to limit - 1, for operators that refuse negative indices."""
    rng = np.random.default_rng(limit)
    return np.asarray(rng.integers(0, limit, shape), np.int32)


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
        LiveCase(GATHER, [(random_bits(shape, dtype), dim, rows(limit, index), False)], gathered)
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
        [(random_bits((m, 7)), 1, rows(7, (m, n))) for m, n in ((4, 3), (1, 2), (3, 1), (0, 3))],
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
        LiveCase(
            "aten.index_select.default", [(random_bits(shape, dtype), dim, index)], index_selected
        )
        for dtype in ("float32", "int8")
        for shape, dim, index in (
            ((5, 3), 0, rows(5, 7)),
            ((5, 3), 1, rows(3, 2)),
            ((5, 4, 8), 1, rows(4, 3)),
            ((5, 4, 8), -1, rows(8, 3)),
            ((5, 3), 0, rows(5, ())),
            ((5, 3), 0, rows(5, 0)),
            ((), 0, rows(1, 1)),
        )
    ),
    LiveCase(
        "aten.index_select.default",
        [(random_bits((3, m)), 1, rows(m, n)) for m, n in ((5, 3), (2, 7), (1, 1))],
        index_selected,
        label="dynamic",
    ),
]

EMBEDDING_CASES = [
    *(
        LiveCase(
            "aten.embedding.default",
            [(weight, rows(11, shape), *more)],
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
        [(Const(random_bits((11, 8))), rows(11, (m, n)), -1) for m, n in ((2, 5), (1, 1), (2, 0))],
        lambda weight, index, _: indexed(weight, [index]),
        label="dynamic",
    ),
]
INDEXING_CASES = GATHER_CASES + INDEX_CASES + SELECT_CASES + EMBEDDING_CASES
