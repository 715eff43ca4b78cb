"""Scatters: elements written or combined at the places that index tensors name.

    scatter.src(self, dim, index, src)        out[.., index[.., i, ..], ..] = src[.., i, ..]
    scatter.value(self, dim, index, value)    likewise, a number
    scatter_add(self, dim, index, src)        likewise, added
    scatter_reduce(self, dim, index, src, reduce, include_self)
                                              likewise, as sum, prod, mean, amax or amin
    index_put(self, indices, values, accumulate)
                                              self[indices[0], indices[1], ..] = or += values
    index_add(self, dim, index, source, alpha)
                                              self[.., index, ..] += source * alpha
    index_copy(self, dim, index, source)      likewise, written
    index_fill(self, dim, index, value)       likewise, a number

Elsewhere `out` is `self`. Of several values for the same place the last stays, and others are
combined in their order. An output element searches all indices that could name it: no two threads
write to one place, and sums are the same every time. Where that is much work, the indices along a
dim are sorted first (reduce/sort.py), so that an element finds its own at once. Indices are treated
as in indexing.py. Negative indices of index_put and index_fill count from the end; the other
operators refuse them, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import Rows
from webpte.engine.ops.move.indexing import MAX_INDICES, check_indices, kept_dims, refuse_negative
from webpte.engine.ops.reduce.sort import MOST_ELEMENTS, sort_pairs
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
# With fewer pairs, or fewer indices of an element, sorting takes longer than comparing all.
FEW_PAIRS, FEW_INDICES = 2**22, 64


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
class Combination:
    """A function of values for the same place, by its number in lib/scatter.wgsl and in NumPy."""

    number: int
    function: np.ufunc
    mean: bool = False


REDUCTIONS = {
    "sum": Combination(1, np.add),
    "mean": Combination(1, np.add, mean=True),
    "prod": Combination(2, np.multiply),
    "amax": Combination(3, np.maximum),
    "amin": Combination(4, np.minimum),
}


@dataclass(frozen=True)
class Scatter:
    """A single op. `value` names the number that is written where there is no source, `scale` the
    factor of added values, and `reduction` says how values are combined; None: the last stays.
    """

    name: str
    signature: str
    search: Callable[[Args], Search]
    key: Callable[[Args], Any]
    source: Callable[[Args], Array]
    reduction: Callable[[Args], Combination | None] = lambda args: None
    wraps: bool = False  # whether negative indices count from the end
    value: str | None = None
    scale: str | None = None
    include_self: Callable[[Args], bool] = lambda args: True


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
    return of_tensors(args, args.tensor("self"), args.tensors("indices"), args.tensor("values"))


def by_row(args: Args, valued: bool = False) -> Search:
    """Search a row of indices along a dim; the source has a part for each."""
    x, index = args.tensor("self"), args.tensor("index")
    x, index = x.with_dims(x.dims or (1,)), index.with_dims(index.dims or (1,))
    dim = normalize_dim(args.integer("dim"), x.rank)
    region = (*x.dims[:dim], *index.dims, *x.dims[dim + 1 :])
    source = None if valued else args.tensor("source")
    if source is not None:
        source = source.with_dims(source.dims or (1,))
    if index.rank != 1 or (source is not None and source.dims != region):
        raise GraphError(
            f"{args.call}: indices {list(index.dims)} do not fit {list(x.dims)}, dim {dim}, and a "
            f"source of {list(region if source is None else source.dims)}"
        )
    return of_tensors(args, x, [*[None] * dim, index], source)


def of_tensors(
    args: Args, x: TensorArg, listed: list[TensorArg | None], values: TensorArg | None
) -> Search:
    """Search for elements of `x[listed]`; each value has a place among them."""
    found = [(dim, check_indices(args, t)) for dim, t in enumerate(listed) if t is not None]
    if not found or len(listed) > x.rank:
        raise GraphError(f"{args.call}: {len(found)} index tensors for rank {x.rank}")
    common = broadcast(*(tensor.dims for _, tensor in found))
    indexed = [dim for dim, _ in found]
    before, after = kept_dims(indexed, x.rank)
    order = [*before, *[-1] * len(common), *after]
    sizes = iter(common)
    region = tuple(next(sizes) if dim < 0 else x.dims[dim] for dim in order)
    given = values.dims if values is not None else ()
    if broadcast(given, region) != region:
        raise GraphError(f"{args.call}: values {list(given)} for {list(region)} elements")
    strides = broadcast_strides(given, region)
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


def key_along_dim(args: Args) -> tuple[Array, ...]:
    x, places = np.atleast_1d(args.array("self")), np.atleast_1d(args.array("index"))
    return grid_of(x, args.integer("dim"), places)


def source_along_dim(args: Args) -> Array:
    within = tuple(map(slice, np.atleast_1d(args.array("index")).shape))
    return np.atleast_1d(args.array("src"))[within]


def key_of_tensors(args: Args) -> tuple[Any, ...]:
    return tuple(slice(None) if a is None else a for a in args.arrays("indices"))


def key_of_row(args: Args) -> tuple[Any, ...]:
    dim = normalize_dim(args.integer("dim"), args.tensor("self").rank)
    return (*[slice(None)] * dim, np.atleast_1d(args.array("index")))


def scaled_source(args: Args) -> Array:
    source = np.atleast_1d(args.array("source"))
    return source * source.dtype.type(args.number("alpha"))


def named_reduction(args: Args) -> Combination:
    name = args.string("reduce")
    if name not in REDUCTIONS:
        known = ", ".join(REDUCTIONS)
        raise GraphError(f"{args.call}: reduce={name!r} is not supported; use {known}")
    return REDUCTIONS[name]


def number_to_write(args: Args) -> Array:
    return np.asarray(args.number("value"))


ALONG = "self: tensor, dim: int, index: tensor"
SCATTERS = (
    Scatter(
        "aten.scatter.src",
        f"{ALONG}, src: tensor -> tensor",
        along_dim,
        key_along_dim,
        source_along_dim,
    ),
    Scatter(
        "aten.scatter.value",
        f"{ALONG}, value: number -> tensor",
        partial(along_dim, valued=True),
        key_along_dim,
        number_to_write,
        value="value",
    ),
    Scatter(
        "aten.scatter_add.default",
        f"{ALONG}, src: tensor -> tensor",
        along_dim,
        key_along_dim,
        source_along_dim,
        lambda args: REDUCTIONS["sum"],
    ),
    Scatter(
        "aten.scatter_reduce.two",
        f"{ALONG}, src: tensor, reduce: str, include_self: bool = True -> tensor",
        along_dim,
        key_along_dim,
        source_along_dim,
        named_reduction,
        include_self=lambda args: args.flag("include_self"),
    ),
    Scatter(
        "aten.index_put.default",
        "self: tensor, indices: tensors, values: tensor, accumulate: bool = False -> tensor",
        by_tensors,
        key_of_tensors,
        lambda args: args.array("values"),
        lambda args: REDUCTIONS["sum"] if args.flag("accumulate") else None,
        wraps=True,
    ),
    Scatter(
        "aten.index_add.default",
        f"{ALONG}, source: tensor, alpha: number = 1 -> tensor",
        by_row,
        key_of_row,
        scaled_source,
        lambda args: REDUCTIONS["sum"],
        scale="alpha",
    ),
    Scatter(
        "aten.index_copy.default",
        f"{ALONG}, source: tensor -> tensor",
        by_row,
        key_of_row,
        lambda args: np.atleast_1d(args.array("source")),
    ),
    Scatter(
        "aten.index_fill.int_Scalar",
        f"{ALONG}, value: number -> tensor",
        partial(by_row, valued=True),
        key_of_row,
        number_to_write,
        wraps=True,
        value="value",
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
    in_order = sorts(op, search, out.numel * count)
    limits = (
        (len(search.indices), MAX_INDICES, "index tensors"),
        (len(search.axes), MAX_AXES, "dims"),
        (len(search.searched), MAX_SEARCHED, "dims of indices"),
        (0 if in_order else out.numel * count, MOST_WORK, "outputs and indices to compare"),
    )
    for number, most, what in limits:
        if number > most:
            raise UnsupportedError(f"{args.call}: {number} {what}; the kernel takes {most}")
    tensors = [tensor for tensor in (x, search.source, out) if tensor is not None]
    if {tensor.dtype.wgsl for tensor in tensors} not in ({"f32"}, {"f16"}, {"i32"}):
        raise UnsupportedError(f"{args.call}: its kernel takes floats only, or int32 only")
    reduction = op.reduction(args)
    flag = args.index_flag(*search.indices, wraps=op.wraps)
    sizes = [size for _, size in search.indices]
    letter, number_type = ("i", "i32") if out.dtype.wgsl == "i32" else ("f", "f32")
    as_number = int if letter == "i" else float
    given = (
        0 if op.value is None else args.number(op.value),
        1 if op.scale is None else args.number(op.scale),
    )
    strides = search.index_strides
    if in_order:
        strides = [(stride,) for stride in row_strides(search)]
    params = pack(
        f"5I2{letter}4x4i{8 * (MAX_AXES + MAX_SEARCHED)}i",
        *(out.numel, len(search.axes), count, len(search.searched), flag.number),
        *map(as_number, given),
        *(*sizes, *[1] * (MAX_INDICES - len(sizes))),
        *table_of(search.axes, MAX_AXES),
        *strides_of(strides, MAX_AXES),
        *table_of(search.searched, MAX_SEARCHED),
        *strides_of(search.searched_strides, MAX_SEARCHED),
    )
    source = None if search.source is None else search.source.id
    types = (("NUMBER", number_type), ("TYPE", out.dtype.wgsl))
    overrides = (
        ("REDUCE", reduction.number if reduction else 0),
        ("MEAN", int(reduction is not None and reduction.mean)),
        ("INCLUDE_SELF", int(op.include_self(args))),
        ("HAS_SOURCE", int(search.source is not None)),
    )
    grid = fold_grid(ceil_div(out.numel, WORKGROUP_SIZE))
    if in_order:
        ((index, _),) = search.indices
        dispatches, pairs = sort_pairs(index, index_rows(search), largest=False)
        given_pairs = (x.id, source, pairs, out.id, flag)
        found = Dispatch("scatter_sorted", given_pairs, params, grid, types, overrides)
        return [*dispatches, found]
    ids = (*(tensor.id for tensor, _ in search.indices), *[None] * (MAX_INDICES - len(sizes)))
    wraps = () if op.wraps else (("WRAPS", False),)
    overrides = (*overrides, ("INDICES", len(sizes)), *wraps)
    bindings = (x.id, source, *ids, out.id, flag)
    return [Dispatch("scatter", bindings, params, grid, types, overrides)]


def sorts(op: Scatter, search: Search, pairs: int) -> bool:
    """Return whether to sort the indices."""
    if pairs < FEW_PAIRS or op.wraps or len(search.indices) > 1 or len(search.searched) > 1:
        return False
    return search.searched[0][0] >= FEW_INDICES and search.indices[0][0].numel <= MOST_ELEMENTS


def index_rows(search: Search) -> Rows:
    """Return the rows in which indices are sorted: one for each place beside the indexed dim."""
    (length, *_), (step,) = search.searched[0], search.searched_strides[0]
    return Rows(search.indices[0][0].numel // (length * step), length, step)


def row_strides(search: Search) -> list[int]:
    """Return by how many rows of indices each axis of the output moves."""
    (length, *_), (step,) = search.searched[0], search.searched_strides[0]
    strides = [own[0] if own else 0 for own in search.index_strides]
    return [stride if stride < step else stride // length for stride in strides]


def run_scatter(op: Scatter, args: Args) -> Array:
    if not op.wraps:
        refuse_negative(args, args.array("index"))
    result = np.atleast_1d(args.array("self")).copy()
    key, source, reduction = op.key(args), op.source(args), op.reduction(args)
    try:
        if reduction is None:
            result[key] = source
        else:
            reduce_at(result, key, source.astype(result.dtype), reduction, op.include_self(args))
    except IndexError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error
    return result.reshape(args.out.dims)


def reduce_at(
    x: Array, key: Any, source: Array, reduction: Combination, include_self: bool
) -> None:
    """Combine values in place; without `include_self` elements that get values have these alone."""
    function = reduction.function
    if not include_self:
        neutral = function.identity
        if neutral is None:
            limits = (
                (-np.inf, np.inf)
                if x.dtype.kind == "f"
                else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
            )
            neutral = limits[function is np.minimum]
        x[key] = neutral
    function.at(x, key, source)
    if reduction.mean:
        counts = np.full(x.shape, int(include_self))
        np.add.at(counts, key, 1)
        divide = np.divide if x.dtype.kind == "f" else np.floor_divide
        x[...] = divide(x, np.maximum(counts, 1))


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
