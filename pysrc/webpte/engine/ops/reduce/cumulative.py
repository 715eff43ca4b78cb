"""Cumulative sums, products and extremes along a dim.

    aten.cumsum.default(self, dim, dtype) -> out
    aten.cumprod.default(self, dim, dtype) -> out
    aten.cummax.default(self, dim) -> (values, indices)
    aten.cummin.default(self, dim) -> (values, indices)

Computed in the output's type. Of equal extremes the last has the index; NaN stays once it came. A
thread takes a short row, a workgroup a long row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import common_type, same_shape
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import THREADS, Rows, power_of_two, rows_along
from webpte.engine.ops.reduce.sort import KEYS, check_types, key_types
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import UnsupportedError

Array = np.ndarray

PART = 16  # elements per thread
# The operator in WGSL, the number before the first element, and NumPy's function.
NUMBERS: dict[str, tuple[str, int, Callable[..., Array]]] = {
    "aten.cumsum.default": ("+", 0, np.cumsum),
    "aten.cumprod.default": ("*", 1, np.cumprod),
}
EXTREMES = {"aten.cummax.default": np.maximum, "aten.cummin.default": np.minimum}


def lanes_of(rows: Rows, software: bool) -> int:
    """Return the threads per row; 1 on software adapters, which compile barriers slowly."""
    return 1 if software else min(power_of_two(ceil_div(rows.length, PART)), THREADS)


def dispatch(
    args: Args,
    bindings: tuple[Binding, ...],
    types: tuple[tuple[str, str], ...],
    overrides: tuple[tuple[str, float], ...] = (),
) -> list[Dispatch]:
    rows = rows_along(args.tensor("self"), args.integer("dim"))
    if rows.count * rows.length == 0:
        return []
    lanes = lanes_of(rows, args.target.software)
    return [
        Dispatch(
            kernel="cumulative",
            bindings=bindings,
            params=pack("4I", rows.count, rows.length, rows.inner, ceil_div(rows.length, lanes)),
            grid=fold_grid(ceil_div(rows.count * lanes, THREADS)),
            types=types,
            overrides=(("LANES", lanes), ("ROWS", THREADS // lanes), *overrides),
        )
    ]


def lower_numbers(how: tuple[str, int], args: Args) -> list[Dispatch]:
    operator, start = how
    source, out = args.tensor("self"), args.out
    if out.numel and out.dtype.storage.itemsize == 1:
        raise UnsupportedError(f"{args.call}: its kernel does not write {out.dtype.name}")
    types = (
        ("ACC", common_type(out.dtype)),
        ("IN", source.dtype.wgsl),
        ("KIND", "number"),
        ("OPERATOR", operator),
        ("OUT", out.dtype.wgsl),
        ("START", str(start)),
    )
    return dispatch(args, (source.id, out.id), types)


def run_numbers(function: Callable[..., Array], args: Args) -> Array:
    x, dtype = args.array("self"), args.out.dtype.numpy
    if dtype.kind != "f" and x.dtype.kind == "f":
        x = x.astype(dtype)  # torch casts before it sums
    wide = np.float64 if dtype.kind == "f" else np.int64
    axis = normalize_dim(args.integer("dim"), x.ndim)
    return function(np.atleast_1d(x), axis=axis, dtype=wide).reshape(x.shape)


def extreme_shapes(args: Args) -> tuple[Dims, Dims]:
    check_types(args, *args.outs)
    return (args.tensor("self").dims,) * 2


def lower_extreme(largest: bool, args: Args) -> list[Dispatch]:
    source, (values, places) = args.tensor("self"), args.outs
    if source.dtype.wgsl not in KEYS:
        raise UnsupportedError(f"{args.call}: its kernel does not take {source.dtype.name}")
    nan_key = "smallest_first" if source.dtype.is_float else "inverted"
    types = (*key_types(source), ("KIND", "extreme"), ("NAN_KEY", nan_key))
    ids = (source.id, values.id, places.id)
    return dispatch(args, ids, types, (("LARGEST", int(largest)),))


def np_extremes(function: np.ufunc, x: Array, dim: int) -> tuple[Array, Array]:
    """Return the cumulative extremes, and the last index of each."""
    rows = np.atleast_1d(x)
    axis = normalize_dim(dim, rows.ndim)
    values = function.accumulate(rows, axis=axis)
    steps = np.arange(rows.shape[axis]).reshape([-1] + [1] * (rows.ndim - 1 - axis))
    hits = np.where((rows == values) | (rows != rows), steps, 0)
    places = np.maximum.accumulate(hits, axis=axis)
    return values.reshape(x.shape), places.reshape(x.shape)


for _name, (_operator, _start, _numpy) in NUMBERS.items():
    register(
        _name,
        "self: tensor, dim: int, dtype: any = None -> tensor",
        shape=same_shape,
        lower=lambda args, how=(_operator, _start): lower_numbers(how, args),  # type: ignore[misc]
        reference=lambda args, how=_numpy: run_numbers(how, args),  # type: ignore[misc]
    )
for _name, _function in EXTREMES.items():
    register(
        _name,
        "self: tensor, dim: int -> tensors",
        shape=extreme_shapes,
        lower=lambda args, how=_function is np.maximum: lower_extreme(how, args),  # type: ignore[misc]
        reference=lambda args, how=_function: np_extremes(  # type: ignore[misc]
            how, args.array("self"), args.integer("dim")
        ),
    )
