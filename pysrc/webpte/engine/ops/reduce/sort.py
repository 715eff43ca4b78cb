"""Rows in order, along a dim: all elements, the k-th one, or their indices alone.

    aten.sort.default(self, dim, descending) -> (values, indices)
    aten.sort.stable(self, stable, dim, descending) -> (values, indices)
    aten.argsort.stable(self, stable, dim, descending) -> indices
    aten.kthvalue.default(self, k, dim, keepdim) -> (values, indices)

All sorts are stable: equal elements stay in their order. NaN counts as larger than all numbers, and
-0.0 as 0.0. In short rows each element counts the elements before it, which is its place. Long rows
are sorted in runs, and the runs merged, several at a time; no thread waits for another, so that the
same kernels serve every adapter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import Rows, rows_along
from webpte.engine.ops.reduce.reduce import kept_shape
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

# Rows in which each element is compared with all others, on a GPU and on a software adapter.
SHORT, SHORT_IN_SOFTWARE = 1024, 128
RUN, WAYS = 128, 4  # elements sorted at first, runs merged at once
MOST_ELEMENTS = 2**24  # of 8 bytes: the buffer that every GPU has
# WGSL for the key of an element, by its stored type: the type that its function takes, its name.
KEYS = {
    "f32": ("f32", "ordered_key"),
    "f16": ("f32", "ordered_key"),
    "i32": ("i32", "ordered_key_i32"),
}


@dataclass(frozen=True)
class Order:
    """The elements of each row that a call asks for: `count` of them from rank `first` on."""

    rows: Rows
    first: int
    count: int
    largest: bool


def check_types(args: Args, values: TensorArg | None, indices: TensorArg) -> None:
    """Raise unless values have the input's type and indices are integers."""
    source = args.tensor("self")
    if values is not None and values.dtype.stored != source.dtype.stored:
        raise GraphError(f"{args.call}: gives {values.dtype.name} for {source.dtype.name}")
    if indices.dtype.stored != "int32":
        raise GraphError(f"{args.call}: indices are int32 or int64, not {indices.dtype.name}")


def lower_order(
    args: Args, order: Order, values: TensorArg | None, indices: TensorArg
) -> list[Dispatch]:
    """Return the dispatches that write elements in order, and their indices."""
    source, rows = args.tensor("self"), order.rows
    if rows.count * order.count == 0:
        return []
    if source.dtype.wgsl not in KEYS:
        raise UnsupportedError(f"{args.call}: its kernel does not sort {source.dtype.name}")
    written: tuple[Binding, Binding] = (
        Scratch("no values", 16) if values is None else values.id,
        indices.id,
    )
    with_values = ("WITH_VALUES", int(values is not None))
    if rows.length <= (SHORT_IN_SOFTWARE if args.target.software else SHORT):
        sizes = source.numel, rows.length, rows.inner
        return [
            Dispatch(
                kernel="topk",
                bindings=(source.id, *written),
                params=pack("5I", *sizes, order.first, order.count),
                grid=fold_grid(ceil_div(source.numel, WORKGROUP_SIZE)),
                types=key_types(source),
                overrides=(("LARGEST", int(order.largest)), with_values),
            )
        ]
    if source.numel > MOST_ELEMENTS:
        raise UnsupportedError(f"{args.call}: the host sorts more than {MOST_ELEMENTS} elements")
    dispatches, pairs = sort_pairs(source, rows, order.largest)
    elements = rows.count * order.count
    written_out = Dispatch(
        kernel="sort_outputs",
        bindings=(source.id, pairs, *written),
        params=pack("5I", elements, rows.length, rows.inner, order.first, order.count),
        grid=fold_grid(ceil_div(elements, WORKGROUP_SIZE)),
        types=(("TYPE", source.dtype.wgsl),),
        overrides=(with_values,),
    )
    return [*dispatches, written_out]


def key_types(source: TensorArg) -> tuple[tuple[str, str], ...]:
    """Return the WGSL for the key of an element."""
    number, key = KEYS[source.dtype.wgsl]
    return (("TYPE", source.dtype.wgsl), ("NUMBER", number), ("KEY", key))


def sort_pairs(source: TensorArg, rows: Rows, largest: bool) -> tuple[list[Dispatch], Scratch]:
    """Return the dispatches that sort rows of at least one element, and the sorted pairs.

    The pairs of a row are (key, index), and adjacent, even where elements of the row are not.
    """
    pairs, other = (Scratch(f"sorted {name}", 8 * source.numel) for name in ("pairs", "runs"))
    grid = fold_grid(ceil_div(source.numel, WORKGROUP_SIZE))
    dispatches = [
        Dispatch(
            kernel="sort_runs",
            bindings=(source.id, pairs),
            params=pack("3I", source.numel, rows.length, rows.inner),
            grid=grid,
            types=(*key_types(source), ("RUN", str(RUN))),
            overrides=(("LARGEST", int(largest)),),
        )
    ]
    run = RUN
    while run < rows.length:
        dispatches.append(
            Dispatch(
                kernel="sort_merge",
                bindings=(pairs, other),
                params=pack("3I", source.numel, rows.length, run),
                grid=grid,
                types=(("WAYS", str(WAYS)),),
            )
        )
        pairs, other, run = other, pairs, run * WAYS
    return dispatches, pairs


def np_order(x: Array, largest: bool) -> Array:
    """Return the indices that sort [outer, length, inner] along the middle axis."""
    if largest:  # NaNs come last in a sort; reversed twice, so that equals stay in order
        length = x.shape[1]
        return length - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return np.argsort(x, axis=1, kind="stable")


def run_order(args: Args, order: Order, dims: Dims) -> tuple[Array, Array]:
    """Return the elements that a call asks for, and their indices."""
    rows, last = order.rows, order.first + order.count
    x = args.array("self").reshape(rows.outer, rows.length, rows.inner)
    places = np_order(x, order.largest)[:, order.first : last]
    return np.take_along_axis(x, places, 1).reshape(dims), places.reshape(dims)


# Whole rows


def whole(args: Args) -> Order:
    rows = rows_along(args.tensor("self"), args.integer("dim"))
    return Order(rows, 0, rows.length, args.flag("descending"))


def sort_shape(args: Args) -> tuple[Dims, ...]:
    outs = args.outs
    check_types(args, outs[0] if len(outs) > 1 else None, outs[-1])
    return (args.tensor("self").dims,) * len(outs)


def lower_sort(args: Args) -> list[Dispatch]:
    outs = args.outs
    return lower_order(args, whole(args), outs[0] if len(outs) > 1 else None, outs[-1])


def run_sort(args: Args) -> list[Array]:
    return list(run_order(args, whole(args), args.tensor("self").dims)[-len(args.outs) :])


# An element of each row


def kth(args: Args) -> Order:
    rows, k = rows_along(args.tensor("self"), args.integer("dim")), args.integer("k")
    if not 1 <= k <= rows.length:
        raise GraphError(f"{args.call}: k is {k}, but there are {rows.length} elements along dim")
    return Order(rows, k - 1, 1, False)


def kth_shape(args: Args) -> tuple[Dims, Dims]:
    kth(args)
    source, outs = args.tensor("self"), args.outs
    check_types(args, outs[0], outs[1])
    axes = [normalize_dim(args.integer("dim"), source.rank)] if source.rank else []
    dims = kept_shape(source.dims, axes, args.flag("keepdim"))
    return dims, dims


STABLE = "self: tensor, stable: any = None, dim: int = -1, descending: bool = False"
SORTS = (
    ("aten.sort.default", "self: tensor, dim: int = -1, descending: bool = False -> tensors"),
    ("aten.sort.stable", f"{STABLE} -> tensors"),
    ("aten.argsort.stable", f"{STABLE} -> tensor"),
)
for _name, _signature in SORTS:
    register(_name, _signature, shape=sort_shape, lower=lower_sort, reference=run_sort)
register(
    "aten.kthvalue.default",
    "self: tensor, k: int, dim: int = -1, keepdim: bool = False -> tensors",
    shape=kth_shape,
    lower=lambda args: lower_order(args, kth(args), *args.outs),
    reference=lambda args: run_order(args, kth(args), kth_shape(args)[0]),
)
