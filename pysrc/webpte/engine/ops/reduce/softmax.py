"""Softmax and its logarithm along a dim.

aten._softmax.default(self, dim, half_to_float) -> out
softmax(x) = exp(x - max(x)) / sum(exp(x - max(x)))
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import Rows, check_floats, float_item, rows_along
from webpte.engine.shapes import Dims, normalize_dim

Array = np.ndarray

SIGNATURE = "self: tensor, dim: int, half_to_float: any = None -> tensor"


def np_softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def np_log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


SOFTMAXES: dict[str, Callable[[Array, int], Array]] = {
    "aten._softmax.default": np_softmax,
    "aten._log_softmax.default": np_log_softmax,
}


def softmax_shape(args: Args) -> tuple[Dims]:
    source = args.tensor("self")
    check_floats(args, source)
    normalize_dim(args.integer("dim"), source.rank)
    return (source.dims,)


def lower_softmax(logarithm: bool, args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    rows = rows_along(source, args.integer("dim"))
    item, elements = float_item(rows.length) if rows.inner == 1 else ("f32", 1)
    items = Rows(rows.outer, rows.length // elements, rows.inner)
    layout = items.layout(args.target)
    return [
        Dispatch(
            kernel="softmax",
            bindings=(source.id, out.id),
            params=pack("3If", items.count, items.length, items.inner, math.nan),
            grid=layout.grid(items.count),
            types=(("FLOAT", float_type(args, source, out)), ("ITEM", item)),
            overrides=(*layout.overrides, ("LOGARITHM", int(logarithm))),
        )
    ]


def run_softmax(function: Callable[[Array, int], Array], args: Args) -> Array:
    x = args.array("self")
    wide = np.atleast_1d(x).astype(np.float64)
    return function(wide, args.integer("dim")).reshape(x.shape)


for _name, _function in SOFTMAXES.items():
    register(
        _name,
        SIGNATURE,
        shape=softmax_shape,
        lower=lambda args, log="log" in _name: lower_softmax(log, args),  # type: ignore[misc]
        reference=lambda args, function=_function: run_softmax(function, args),  # type: ignore[misc]
    )
