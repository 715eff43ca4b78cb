"""The k largest or smallest elements along a dim, and their indices.

    aten.topk.default(self, k, dim, largest, sorted) -> (values, indices)

They come in order, whether `sorted` or not. NaN counts as larger than all numbers, and of equal
elements the first comes first; torch leaves that open. Each element counts those that come before
it: its rank is its place in the output, and no two threads write to one place.
"""

from __future__ import annotations

import numpy as np

from webpte.errors import GraphError, UnsupportedError
from webpte.ops.core.args import Args
from webpte.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.ops.core.registry import register
from webpte.ops.core.row_reduction import check_floats, rows_along
from webpte.shapes import Dims, normalize_dim

Array = np.ndarray

# Loop steps of a thread, of which Mesa's software driver allows 65,535; and comparisons in all.
MOST_STEPS, MOST_WORK = 60_000, 2**33


def topk_shape(args: Args) -> tuple[Dims, Dims]:
    source, outs, k = args.tensor("self"), args.outs, args.integer("k")
    check_floats(args, source, outs[0])
    if len(outs) != 2 or outs[1].dtype.stored != "int32":
        raise GraphError(f"{args.call}: gives values and int32 or int64 indices")
    rows = rows_along(source, args.integer("dim"))
    if not 0 <= k <= rows.length:
        raise GraphError(f"{args.call}: k is {k}, but there are {rows.length} elements along dim")
    if not source.rank:
        return (), ()
    axis = normalize_dim(args.integer("dim"), source.rank)
    dims = (*source.dims[:axis], k, *source.dims[axis + 1 :])
    return dims, dims


def lower_topk(args: Args) -> list[Dispatch]:
    source, (values, indices), k = args.tensor("self"), args.outs, args.integer("k")
    rows = rows_along(source, args.integer("dim"))
    if rows.count * k == 0:
        return []
    if rows.length > MOST_STEPS or source.numel * rows.length > MOST_WORK:
        raise UnsupportedError(f"{args.call}: the host sorts rows of {rows.length} faster")
    return [
        Dispatch(
            kernel="topk",
            bindings=(source.id, values.id, indices.id),
            params=pack("4I", source.numel, rows.length, rows.inner, k),
            grid=fold_grid(ceil_div(source.numel, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, source, values)),),
            overrides=(("LARGEST", int(args.flag("largest"))),),
        )
    ]


def np_topk(x: Array, k: int, largest: bool) -> Array:
    """Return the places of the first k of [outer, length, inner] along the middle axis."""
    if largest:  # NaNs come last in a sort; reversed twice, so that equals stay in order
        length = x.shape[1]
        return length - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :k]
    return np.argsort(x, axis=1, kind="stable")[:, :k]


def run_topk(args: Args) -> list[Array]:
    rows, k = rows_along(args.tensor("self"), args.integer("dim")), args.integer("k")
    x = args.array("self").reshape(rows.outer, rows.length, rows.inner)
    places = np_topk(x, k, args.flag("largest"))
    shapes = topk_shape(args)
    found = np.take_along_axis(x, places, 1), places
    return [array.reshape(dims) for array, dims in zip(found, shapes, strict=True)]


register(
    "aten.topk.default",
    "self: tensor, k: int, dim: int = -1, largest: bool = True, sorted: any = None -> tensors",
    shape=topk_shape,
    lower=lower_topk,
    reference=run_topk,
)
