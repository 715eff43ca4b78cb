"""Cumulative sums along a dim.

    aten.cumsum.default(self, dim, dtype) -> out

Computed in the output's type. A thread sums a short row, a workgroup a long row.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import common_type, same_shape
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import THREADS, Rows, power_of_two, rows_along
from webpte.engine.shapes import normalize_dim
from webpte.errors import UnsupportedError

PART = 16  # elements per thread


def lanes_of(rows: Rows, software: bool) -> int:
    """Return the threads per row; 1 on software adapters, which compile barriers slowly."""
    return 1 if software else min(power_of_two(ceil_div(rows.length, PART)), THREADS)


def lower_cumsum(args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    rows = rows_along(source, args.integer("dim"))
    if out.numel == 0:
        return []
    if out.dtype.storage.itemsize == 1:
        raise UnsupportedError(f"{args.call}: its kernel does not write {out.dtype.name}")
    lanes = lanes_of(rows, args.target.software)
    return [
        Dispatch(
            kernel="cumulative",
            bindings=(source.id, out.id),
            params=pack("4I", rows.count, rows.length, rows.inner, ceil_div(rows.length, lanes)),
            grid=fold_grid(ceil_div(rows.count * lanes, THREADS)),
            types=(
                ("ACC", common_type(out.dtype)),
                ("IN", source.dtype.wgsl),
                ("OUT", out.dtype.wgsl),
            ),
            overrides=(("LANES", lanes), ("ROWS", THREADS // lanes)),
        )
    ]


def run_cumsum(args: Args) -> np.ndarray:
    x, dtype = args.array("self"), args.out.dtype.numpy
    if dtype.kind != "f" and x.dtype.kind == "f":
        x = x.astype(dtype)  # torch casts before it sums
    wide = np.float64 if dtype.kind == "f" else np.int64
    axis = normalize_dim(args.integer("dim"), x.ndim)
    return np.cumsum(np.atleast_1d(x), axis=axis, dtype=wide).reshape(x.shape)


register(
    "aten.cumsum.default",
    "self: tensor, dim: int, dtype: any = None -> tensor",
    shape=same_shape,
    lower=lower_cumsum,
    reference=run_cumsum,
)
