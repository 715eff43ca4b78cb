"""aten.where(condition, self, other): selects element by element; all three broadcast.

Elements keep their bits. Where the operands' types differ, both are cast to the output's.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import common_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.elementwise.binary import broadcast_reading
from webpte.engine.shapes import Dims, broadcast
from webpte.errors import GraphError

OPERANDS = ("condition", "self", "other")


def operands(args: Args) -> list[TensorArg]:
    condition, x, y = (args.tensor(name) for name in OPERANDS)
    if condition.dtype.name not in ("bool", "uint8"):
        raise GraphError(f"{args.call}: the condition is {condition.dtype.name}, not bool")
    return [condition, x, y]


def where_shape(args: Args) -> tuple[Dims]:
    return (broadcast(*(operand.dims for operand in operands(args))),)


def stored_types(args: Args, x: TensorArg, y: TensorArg) -> tuple[str, str, str, str]:
    """Return the stored types of x, y and the output, and the type to compute in."""
    out = args.out.dtype
    if x.dtype.stored == y.dtype.stored == out.stored == "float32":
        return ("i32",) * 4
    return x.dtype.wgsl, y.dtype.wgsl, out.wgsl, common_type(out)


def lower_where(args: Args) -> list[Dispatch]:
    (condition, x, y), out = operands(args), args.out
    if out.numel == 0:
        return []
    modes, rank, axes = broadcast_reading(args, (condition, x, y))
    quads = quad_count(out.numel)
    x_type, y_type, out_type, compute = stored_types(args, x, y)
    return [
        Dispatch(
            kernel="where",
            bindings=(condition.id, x.id, y.id, out.id),
            params=pack(f"2I8x{len(axes)}I", quads, rank, *axes),
            grid=quad_grid(quads),
            types=(
                ("COMPUTE", compute),
                ("CONDITION", condition.dtype.wgsl),
                ("OUT", out_type),
                ("X", x_type),
                ("Y", y_type),
            ),
            overrides=tuple(zip(("CONDITION_MODE", "X_MODE", "Y_MODE"), modes, strict=True)),
        )
    ]


def run_where(args: Args) -> np.ndarray:
    dtype = args.out.dtype.numpy
    x, y = args.array("self").astype(dtype), args.array("other").astype(dtype)
    return np.where(args.array("condition") != 0, x, y)


register(
    "aten.where.self",
    "condition: tensor, self: tensor, other: tensor -> tensor",
    shape=where_shape,
    lower=lower_where,
    reference=run_where,
)
