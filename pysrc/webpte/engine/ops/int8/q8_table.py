"""A function of bytes by its table: out[i] = table[unsigned byte x[i]].

x, the table of 256 and the output are int8 or uint8; the table and the output have the same type.
engine/xnnpack/tables.py makes the tables of XNNPACK's unary nodes.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.q8 import check_bytes
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

ENTRIES = 256


def table_shape(args: Args) -> tuple[Dims]:
    x, table, out = args.tensor("x"), args.tensor("table"), args.out
    check_bytes(args, x, table, out)
    if table.dims != (ENTRIES,):
        raise GraphError(f"{args.call}: a table {list(table.dims)}; it has {ENTRIES} entries")
    if table.dtype.name != out.dtype.name:
        raise GraphError(f"{args.call}: {table.dtype.name} entries for {out.dtype.name} results")
    return (x.dims,)


def lower_table(args: Args) -> list[Dispatch]:
    words = quad_count(args.out.numel)
    if words == 0:
        return []
    return [
        Dispatch(
            kernel="q8_table",
            bindings=(args.tensor("x").id, args.tensor("table").id, args.out.id),
            params=pack("I12x", words),
            grid=quad_grid(words),
        )
    ]


def run_table(args: Args) -> Array:
    found: Array = args.array("table")[args.array("x").view(np.uint8)]
    return found


register(
    "webpte.q8_table.default",
    "x: tensor, table: tensor -> tensor",
    shape=table_shape,
    lower=lower_table,
    reference=run_table,
)
