"""Positions of extremes: argmax and argmin, along a dim or over all elements.

    aten.argmax.default(self, dim, keepdim) -> out (int)
    aten.max.dim(self, dim, keepdim) -> (values, indices)

The first of equal elements wins, and a NaN beats everything, as in torch. Few long rows (the logits
of a large vocabulary) are split into parts, and a second dispatch picks the best part's result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import Rows, contiguous_layout, rows_along
from webpte.engine.ops.reduce.reduce import LARGEST, SMALLEST, Reduction, kept_shape, reduce_tensor
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import GraphError

Array = np.ndarray

SIGNATURE = "self: tensor, dim: int? = None, keepdim: bool = False -> tensor"

ARG_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "aten.argmax.default": np.argmax,
    "aten.argmin.default": np.argmin,
}


WITH_VALUES: dict[str, tuple[Reduction, Callable[..., Array]]] = {
    "aten.max.dim": (LARGEST, np.argmax),
    "aten.min.dim": (SMALLEST, np.argmin),
}


def arg_shape(args: Args) -> tuple[Dims, ...]:
    """Return the shape of all outputs: indices, or values and indices."""
    source, dim = args.tensor("self"), args.optional_integer("dim")
    rows, outs = rows_of(args), args.outs
    if rows.length == 0:
        raise GraphError(
            f"{args.call}: {list(source.dims)} has no elements to choose from along dim {dim}"
        )
    if outs[-1].dtype.stored != "int32":
        raise GraphError(f"{args.call}: indices are int32 or int64, not {outs[-1].dtype.name}")
    axes = range(source.rank) if dim is None else [normalize_dim(dim, source.rank)]
    return (kept_shape(source.dims, axes, args.flag("keepdim")),) * len(outs)


def rows_of(args: Args) -> Rows:
    source, dim = args.tensor("self"), args.optional_integer("dim")
    return Rows(1, source.numel, 1) if dim is None else rows_along(source, dim)


def lower_arg(smallest: bool, args: Args) -> list[Dispatch]:
    rows = rows_of(args)
    if rows.count == 0:
        return []
    parts = rows.layout(args.target).parts(rows.count, rows.length, args.target)
    out = args.outs[-1].id
    if parts == 1:
        return [search(args, rows, smallest, out)]
    between = Scratch("argreduce parts", 8 * rows.count * parts)
    layout = contiguous_layout(parts, args.target)
    merge = Dispatch(
        kernel="argreduce_merge",
        bindings=(between, out),
        params=pack("2I", rows.count, parts),
        grid=layout.grid(rows.count),
        overrides=layout.overrides,
    )
    return [search(args, rows, smallest, between, parts), merge]


def search(args: Args, rows: Rows, smallest: bool, out: Binding, parts: int = 1) -> Dispatch:
    source, layout = args.tensor("self"), rows.layout(args.target)
    key = "float_key(x)" if source.dtype.is_float else "integer_key(i32(x))"
    return Dispatch(
        kernel="argreduce",
        bindings=(source.id, out),
        params=pack("5I", rows.count, rows.length, rows.inner, parts, ceil_div(rows.length, parts)),
        grid=layout.grid(rows.count * parts),
        types=(
            ("IN", source.dtype.wgsl),
            ("KEY", key),
            ("RESULT", "i32" if parts == 1 else "vec2u"),
            ("SWIZZLE", ".y" if parts == 1 else ""),
        ),
        overrides=(*layout.overrides, ("SMALLEST", int(smallest))),
    )


def run_arg(function: Callable[..., Array], args: Args) -> Array:
    rows = rows_of(args)
    by_rows = args.array("self").reshape(rows.outer, rows.length, rows.inner)
    return np.asarray(function(by_rows, axis=1)).reshape(arg_shape(args)[0])


def lower_with_values(op: Reduction, args: Args) -> list[Dispatch]:
    source, values = args.tensor("self"), args.outs[0]
    places = lower_arg(op is SMALLEST, args)
    if not places:
        return []
    axes = [normalize_dim(args.integer("dim"), source.rank)] if source.rank else []
    return [*places, *reduce_tensor(op, args, source, values, axes)]


def run_with_values(function: Callable[..., Array], args: Args) -> list[Array]:
    rows, shapes = rows_of(args), arg_shape(args)
    by_rows = args.array("self").reshape(rows.outer, rows.length, rows.inner)
    places = np.expand_dims(function(by_rows, axis=1), 1)
    values = np.take_along_axis(by_rows, places, 1)
    return [values.reshape(shapes[0]), places.reshape(shapes[1])]


for _name, (_op, _function) in WITH_VALUES.items():
    register(
        _name,
        "self: tensor, dim: int, keepdim: bool = False -> tensors",
        shape=arg_shape,
        lower=lambda args, op=_op: lower_with_values(op, args),  # type: ignore[misc]
        reference=lambda args, function=_function: run_with_values(function, args),  # type: ignore[misc]
    )

for _name, _function in ARG_REDUCTIONS.items():
    register(
        _name,
        SIGNATURE,
        shape=arg_shape,
        lower=lambda args, small=_function is np.argmin: lower_arg(small, args),  # type: ignore[misc]
        reference=lambda args, function=_function: run_arg(function, args),  # type: ignore[misc]
    )
