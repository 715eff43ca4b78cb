"""The k largest or smallest elements along a dim, and their indices.

    aten.topk.default(self, k, dim, largest, sorted) -> (values, indices)

The results come in order, whether `sorted` or not. NaN counts as larger than all numbers, and of
equal elements the first comes first; torch leaves that order open. A small k of a long row takes
two steps: the best k of each part of the row, and then the best k of all parts. Otherwise the rows
are sorted (sort.py).
"""

from __future__ import annotations

import math

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import (
    ONE_LANE,
    THREADS,
    Rows,
    RowThreads,
    contiguous_layout,
    rows_along,
)
from webpte.engine.ops.reduce.sort import Order, check_types, lower_order, run_order
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import GraphError

Array = np.ndarray

MOST_STEPS = 60_000  # of a loop per thread: Mesa's software driver allows 65,535
# Longer rows are split if k is at most this; parts have at least PART elements.
LONG, FEW, PART, MOST_PARTS = 1024, 64, 1024, 512


def topk_shape(args: Args) -> tuple[Dims, Dims]:
    source, outs, k = args.tensor("self"), args.outs, args.integer("k")
    if len(outs) != 2:
        raise GraphError(f"{args.call}: gives values and indices")
    check_types(args, *outs)
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
    part = part_of(source, rows, k, args.target.software)
    if part:
        return split_topk(args, rows, k, part)
    return lower_order(args, Order(rows, 0, k, args.flag("largest")), values, indices)


def part_of(source: TensorArg, rows: Rows, k: int, software: bool) -> int:
    """Return the elements per part of a row; 0 if the row is not to be split."""
    if rows.length <= LONG or k > FEW or not source.dtype.is_float:
        return 0
    if not software:
        return max(PART, ceil_div(rows.length, MOST_PARTS))
    # A thread works on each part, and another on all parts' elements: the numbers are about equal.
    part = max(k, math.isqrt(rows.length * k))
    steps = k * max(part, k * ceil_div(rows.length, part))
    return part if steps <= MOST_STEPS else 0


def split_topk(args: Args, rows: Rows, k: int, part: int) -> list[Dispatch]:
    """Return the dispatches for rows in parts."""
    source, (values, indices) = args.tensor("self"), args.outs
    parts = ceil_div(rows.length, part)
    layout = ONE_LANE if args.target.software else RowThreads(THREADS)
    merging = contiguous_layout(parts * k, args.target)
    pairs = Scratch("topk of parts", 8 * rows.count * parts * k)
    types = (("FLOAT", float_type(args, source, values)),)
    sizes = rows.count, rows.length, rows.inner
    return [
        Dispatch(
            kernel="topk_parts",
            bindings=(source.id, pairs),
            params=pack("6I", *sizes, parts, part, k),
            grid=layout.grid(rows.count * parts),
            types=types,
            overrides=(*layout.overrides, ("LARGEST", int(args.flag("largest")))),
        ),
        Dispatch(
            kernel="topk_merge",
            bindings=(source.id, pairs, values.id, indices.id),
            params=pack("5I", *sizes, parts * k, k),
            grid=merging.grid(rows.count),
            types=types,
            overrides=merging.overrides,
        ),
    ]


def run_topk(args: Args) -> tuple[Array, Array]:
    rows, k = rows_along(args.tensor("self"), args.integer("dim")), args.integer("k")
    return run_order(args, Order(rows, 0, k, args.flag("largest")), topk_shape(args)[0])


register(
    "aten.topk.default",
    "self: tensor, k: int, dim: int = -1, largest: bool = True, sorted: any = None -> tensors",
    shape=topk_shape,
    lower=lower_topk,
    reference=run_topk,
)
