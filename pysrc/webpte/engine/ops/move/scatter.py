"""Scatters: elements written or added at the places that index tensors name.

    scatter.src(self, dim, index, src)        out[.., index[.., i, ..], ..] = src[.., i, ..]
    scatter.value(self, dim, index, value)    likewise, a number
    scatter_add(self, dim, index, src)        likewise, added
    index_put(self, indices, values, accumulate)
                                              self[indices[0], indices[1], ..] = or += values

Elsewhere `out` is `self`. Of several values for the same place the last stays. Each output element
searches all indices that could name it, in order: no two threads write to one place, and sums are
the same every time. This is more work than writing, so large calls run on the host. Indices are
treated as in indexing.py. Negative indices of index_put count from the end; the other operators
refuse them, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.indexing import MAX_INDICES, check_indices, kept_dims, refuse_negative
from webpte.engine.shapes import (
    Dims,
    broadcast,
    broadcast_strides,
    contiguous_strides,
    normalize_dim,
    numel,
)
from webpte.errors import GraphError, IndexRangeError, UnsupportedError

Array = np.ndarray
Row = tuple[int, int, int, int]

MAX_AXES, MAX_SEARCHED = 16, 8  # also in wgsl/move/scatter.wgsl
MOST_WORK = 2**32  # pairs of an output element and an index to compare


@dataclass(frozen=True)
class Search:
    """A search for the values that belong to an output element.

    `axes` of the output: (size, how many of its elements have indices, stride of the source, the
    number of the index tensor for this axis, from 1); `searched`, the axes of the indices: (size,
    stride of the source, 0, 0). `index_strides` and `searched_strides` are the index tensors'
    strides.
    """

    indices: tuple[tuple[TensorArg, int], ...]  # each with the size that it indexes
    source: TensorArg | None
    axes: list[Row]
    index_strides: list[Dims]
    searched: list[Row]
    searched_strides: list[Dims]


@dataclass(frozen=True)
class Scatter:
    name: str
    signature: str
    search: Callable[[Args], Search]
    numpy: Callable[[Args], Array]
    adds: Callable[[Args], bool] = lambda args: False
    wraps: bool = False  # whether negative indices count from the end


def along_dim(args: Args, valued: bool = False) -> Search:
    x, index = args.tensor("self"), check_indices(args, args.tensor("index"))
    source = None if valued else args.tensor("src")
    dims, limits = x.dims or (1,), index.dims or (1,)  # rank 0 counts as one element
    given = limits if source is None else source.dims or (1,)
    dim = normalize_dim(args.integer("dim"), len(dims))
    fits = len(dims) == len(limits) == len(given) and all(
        limit <= have and (axis == dim or limit <= size)
        for axis, (size, limit, have) in enumerate(zip(dims, limits, given, strict=True))
    )
    if not fits:
        raise GraphError(
            f"{args.call}: indices {list(index.dims)} do not fit {list(x.dims)}, dim {dim}, and a "
            f"source of {list(given)}"
        )
    own, strides = contiguous_strides(limits), contiguous_strides(given)
    axes: list[Row] = [
        (size, size, 0, 1) if axis == dim else (size, limits[axis], strides[axis], 0)
        for axis, size in enumerate(dims)
    ]
    return Search(
        indices=((index, dims[dim]),),
        source=source,
        axes=axes,
        index_strides=[(0 if axis == dim else own[axis],) for axis in range(len(dims))],
        searched=[(limits[dim], strides[dim], 0, 0)],
        searched_strides=[(own[dim],)],
    )


def by_tensors(args: Args) -> Search:
    x, values, listed = args.tensor("self"), args.tensor("values"), args.tensors("indices")
    found = [(dim, check_indices(args, t)) for dim, t in enumerate(listed) if t is not None]
    if not found or len(listed) > x.rank:
        raise GraphError(f"{args.call}: {len(found)} index tensors for rank {x.rank}")
    common = broadcast(*(tensor.dims for _, tensor in found))
    indexed = [dim for dim, _ in found]
    before, after = kept_dims(indexed, x.rank)
    order = [*before, *[-1] * len(common), *after]
    sizes = iter(common)
    region = tuple(next(sizes) if dim < 0 else x.dims[dim] for dim in order)
    if broadcast(values.dims, region) != region:
        raise GraphError(f"{args.call}: values {list(values.dims)} for {list(region)} elements")
    strides = broadcast_strides(values.dims, region)
    of_kept = {dim: stride for dim, stride in zip(order, strides, strict=True) if dim >= 0}
    of_common = [stride for dim, stride in zip(order, strides, strict=True) if dim < 0]
    own = [broadcast_strides(tensor.dims, common) for _, tensor in found]
    return Search(
        indices=tuple((tensor, x.dims[dim]) for dim, tensor in found),
        source=values,
        axes=[
            (size, size, of_kept.get(dim, 0), indexed.index(dim) + 1 if dim in indexed else 0)
            for dim, size in enumerate(x.dims)
        ],
        index_strides=[() for _ in x.dims],
        searched=[(size, of_common[i], 0, 0) for i, size in enumerate(common)],
        searched_strides=[tuple(strides[i] for strides in own) for i in range(len(common))],
    )


def grid_of(x: Array, dim: int, places: Array) -> tuple[Array, ...]:
    """Return keys of `x`: `places` along `dim`, an element's own position along other dims."""
    grid: list[Array] = list(np.indices(places.shape, sparse=True))
    grid[normalize_dim(dim, x.ndim)] = places
    return tuple(grid)


def run_along_dim(args: Args, adds: bool = False, valued: bool = False) -> Array:
    result, places = np.atleast_1d(args.array("self")).copy(), np.atleast_1d(args.array("index"))
    key = grid_of(result, args.integer("dim"), places)
    given = np.asarray(args.number("value")) if valued else np.atleast_1d(args.array("src"))
    source = given if valued else given[tuple(map(slice, places.shape))]
    if adds:
        np.add.at(result, key, source)
    else:
        result[key] = source
    return result.reshape(args.out.dims)


def run_by_tensors(args: Args) -> Array:
    result = args.array("self").copy()
    key: Any = tuple(slice(None) if a is None else a for a in args.arrays("indices"))
    if args.flag("accumulate"):
        np.add.at(result, key, args.array("values"))
    else:
        result[key] = args.array("values")
    return result


SCATTERS = (
    Scatter(
        "aten.scatter.src",
        "self: tensor, dim: int, index: tensor, src: tensor -> tensor",
        along_dim,
        run_along_dim,
    ),
    Scatter(
        "aten.scatter.value",
        "self: tensor, dim: int, index: tensor, value: number -> tensor",
        partial(along_dim, valued=True),
        partial(run_along_dim, valued=True),
    ),
    Scatter(
        "aten.scatter_add.default",
        "self: tensor, dim: int, index: tensor, src: tensor -> tensor",
        along_dim,
        partial(run_along_dim, adds=True),
        adds=lambda args: True,
    ),
    Scatter(
        "aten.index_put.default",
        "self: tensor, indices: tensors, values: tensor, accumulate: bool = False -> tensor",
        by_tensors,
        run_by_tensors,
        adds=lambda args: args.flag("accumulate"),
        wraps=True,
    ),
)


def table_of(rows: list[Row], most: int) -> list[int]:
    return [word for row in rows for word in row] + [0] * (4 * (most - len(rows)))


def strides_of(rows: list[Dims], most: int) -> list[int]:
    return table_of([(*row, *[0] * (4 - len(row))) for row in rows], most)  # type: ignore[misc]


def lower_scatter(op: Scatter, args: Args) -> list[Dispatch]:
    search, x, out = op.search(args), args.tensor("self"), args.out
    if out.numel == 0:
        return []
    count = numel([row[0] for row in search.searched])
    limits = (
        (len(search.indices), MAX_INDICES, "index tensors"),
        (len(search.axes), MAX_AXES, "dims"),
        (len(search.searched), MAX_SEARCHED, "dims of indices"),
        (out.numel * count, MOST_WORK, "outputs and indices to compare"),
    )
    for number, most, what in limits:
        if number > most:
            raise UnsupportedError(f"{args.call}: {number} {what}; the kernel takes {most}")
    tensors = [tensor for tensor in (x, search.source, out) if tensor is not None]
    if not all(tensor.dtype.is_float for tensor in tensors):
        raise UnsupportedError(f"{args.call}: its kernel takes and returns floats only")
    absent = MAX_INDICES - len(search.indices)
    flag = args.index_flag(*search.indices, wraps=op.wraps)
    return [
        Dispatch(
            kernel="scatter",
            bindings=(
                *(x.id, None if search.source is None else search.source.id),
                *(tensor.id for tensor, _ in search.indices),
                *(*[None] * absent, out.id, flag),
            ),
            params=pack(
                f"5If8x4i{8 * (MAX_AXES + MAX_SEARCHED)}i",
                *(out.numel, len(search.axes), count, len(search.searched), flag.number),
                float(args.number("value")) if search.source is None else 0.0,
                *(*(size for _, size in search.indices), *[1] * absent),
                *table_of(search.axes, MAX_AXES),
                *strides_of(search.index_strides, MAX_AXES),
                *table_of(search.searched, MAX_SEARCHED),
                *strides_of(search.searched_strides, MAX_SEARCHED),
            ),
            grid=fold_grid(ceil_div(out.numel, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, *tensors)),),
            overrides=(
                ("ADDS", int(op.adds(args))),
                ("HAS_SOURCE", int(search.source is not None)),
                ("INDICES", len(search.indices)),
                *(() if op.wraps else (("WRAPS", False),)),
            ),
        )
    ]


def run_scatter(op: Scatter, args: Args) -> Array:
    if not op.wraps:
        refuse_negative(args, args.array("index"))
    try:
        return op.numpy(args)
    except IndexError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error


def scatter_shape(op: Scatter, args: Args) -> tuple[Dims]:
    op.search(args)
    return (args.tensor("self").dims,)


for _op in SCATTERS:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: scatter_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_scatter(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_scatter(op, args),  # type: ignore[misc]
    )
