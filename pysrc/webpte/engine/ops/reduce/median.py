"""The lower median: the smaller of the two middle elements.

    aten.median.default(self) -> out, of all elements
    aten.median.dim(self, dim, keepdim) -> (values, indices)

The median of a row with NaNs is the first NaN, as in torch. Among equal elements the index follows
a stable sort; torch leaves the choice open.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import Rows, check_floats, rows_along
from webpte.engine.ops.reduce.reduce import kept_shape
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

KEY_BITS = 32
# Loop steps per thread: a workgroup takes a row, and Mesa's software driver stops at 65,535.
MOST_STEPS = 60_000


def rows_of(args: Args, along: bool) -> Rows:
    source = args.tensor("self")
    return rows_along(source, args.integer("dim")) if along else Rows(1, source.numel, 1)


def median_shape(args: Args, along: bool) -> tuple[Dims, ...]:
    source, outs = args.tensor("self"), args.outs
    check_floats(args, source, outs[0])
    if rows_of(args, along).length == 0:
        raise GraphError(f"{args.call}: {list(source.dims)} has no elements to choose from")
    if any(out.dtype.stored != "int32" for out in outs[1:]):
        raise GraphError(f"{args.call}: indices are int32 or int64, not {outs[1].dtype.name}")
    if not along:
        return ((),)
    axes = [normalize_dim(args.integer("dim"), source.rank)]
    return (kept_shape(source.dims, axes, args.flag("keepdim")),) * 2


def lower_median(args: Args, along: bool) -> list[Dispatch]:
    source, outs, rows = args.tensor("self"), args.outs, rows_of(args, along)
    if rows.count == 0:
        return []
    layout, place_bits = rows.layout(args.target), (rows.length - 1).bit_length()
    steps = (1 + KEY_BITS + place_bits) * ceil_div(rows.length, layout.lanes)
    if steps > MOST_STEPS:
        raise UnsupportedError(f"{args.call}: the host sorts a row of {rows.length} faster")
    indices: Binding = outs[1].id if along else Scratch("median_indices", 16)
    return [
        Dispatch(
            kernel="median",
            bindings=(source.id, outs[0].id, indices),
            params=pack("4I", rows.count, rows.length, rows.inner, place_bits),
            grid=layout.grid(rows.count),
            types=(("IN", float_type(args, source, outs[0])),),
            overrides=(*layout.overrides, ("WITH_INDICES", int(along))),
        )
    ]


def np_median(x: Array) -> Array:
    """Return the positions of the medians of [outer, length, inner] along the middle axis."""
    order = np.argsort(x, axis=1, kind="stable")  # NaNs come last
    numbers = np.count_nonzero(x == x, axis=1, keepdims=True)
    size = x.shape[1]
    return np.take_along_axis(order, np.where(numbers < size, numbers, (size - 1) // 2), 1)


def run_median(args: Args, along: bool) -> list[Array]:
    rows = rows_of(args, along)
    x = args.array("self").reshape(rows.outer, rows.length, rows.inner)
    places = np_median(x)
    values = np.take_along_axis(x, places, 1)
    shapes = median_shape(args, along)
    return [found.reshape(shape) for found, shape in zip((values, places), shapes, strict=False)]


register(
    "aten.median.default",
    "self: tensor -> tensor",
    shape=lambda args: median_shape(args, along=False),
    lower=lambda args: lower_median(args, along=False),
    reference=lambda args: run_median(args, along=False),
)
register(
    "aten.median.dim",
    "self: tensor, dim: int, keepdim: bool = False -> tensors",
    shape=lambda args: median_shape(args, along=True),
    lower=lambda args: lower_median(args, along=True),
    reference=lambda args: run_median(args, along=True),
)
