"""Kernels that reduce: sums, extremes, variances, and cumulative sums and extremes.

Dims may be in any order; None or an empty list stands for all dims. Sums are computed in float64
or int64 and rounded once, to the output's type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from webpte.engine.ops.reduce.cumulative import np_extremes
from webpte.engine.portable.promotion import DT, float_type
from webpte.engine.portable.registry import FLOATS, INDICES, TRUTH, OutSpec, register, register_op
from webpte.engine.shapes import normalize_dim
from webpte.errors import ExecutionError

Array = np.ndarray

MEAN = "aten.mean.dim"

# kernel: (parameters, equivalent op of delegates)
SAME_AS_OP = {
    "aten::amax.out": ("self, dim, keepdim", "aten.amax.default"),
    "aten::amin.out": ("self, dim, keepdim", "aten.amin.default"),
    "aten::argmax.out": ("self, dim, keepdim", "aten.argmax.default"),
    "aten::argmin.out": ("self, dim, keepdim", "aten.argmin.default"),
    "aten::mean.out": ("self, dim, keepdim, dtype", MEAN),
    "aten::sum.IntList_out": ("self, dim, keepdim, dtype", "aten.sum.dim_IntList"),
}


def axes_of(x: Array, dims: Sequence[int] | int | None) -> tuple[int, ...]:
    listed = [dims] if isinstance(dims, int) else dims
    if not listed:
        return tuple(range(x.ndim))
    axes = {normalize_dim(dim, x.ndim) for dim in listed}
    if len(axes) != len(listed):
        raise ExecutionError(f"dims {list(listed)} name a dim twice")
    return tuple(sorted(axes)) if x.ndim else ()


def wide_type(dtype: DT) -> type[Any]:
    return np.float64 if dtype.kind == "f" else np.int64


# Sums and products


def mean_of_all(out: OutSpec, x: Array, dtype: int | None) -> Array:
    if out.dtype.numpy.kind != "f":
        raise ExecutionError(f"a mean is a float, not {out.dtype.name}")
    return np.asarray(np.mean(x.astype(np.float64)))


def total(out: OutSpec, x: Array, dtype: int | None) -> Array:
    return np.asarray(np.sum(x, dtype=wide_type(out.dtype.numpy))).astype(out.dtype.numpy)


def product(
    out: OutSpec, x: Array, dim: int | None, keepdim: bool, dtype: int | None = None
) -> Array:
    wide = wide_type(out.dtype.numpy)
    result = np.prod(x, axis=axes_of(x, dim), keepdims=keepdim, dtype=wide)
    return np.asarray(result).astype(out.dtype.numpy)


def running(
    function: Callable[..., Array], out: OutSpec, x: Array, dim: int, dtype: int | None
) -> Array:
    axis = normalize_dim(dim, x.ndim)
    totals = function(np.atleast_1d(x), axis=axis, dtype=wide_type(out.dtype.numpy))
    return totals.reshape(x.shape).astype(out.dtype.numpy)


def log_sum_exp(x: Array, dim: Sequence[int], keepdim: bool) -> Array:
    axes, wide = axes_of(x, dim), x.astype(np.float64)
    highest = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(highest), highest, 0)
    sums = np.sum(np.exp(wide - shift), axis=axes, keepdims=True)
    result = np.log(sums) + shift
    return (result if keepdim else result.squeeze(axes)).astype(float_type(x.dtype))


def running_log_sum_exp(x: Array, dim: int) -> Array:
    rows = np.atleast_1d(x).astype(np.float64)
    sums = np.logaddexp.accumulate(rows, axis=normalize_dim(dim, rows.ndim))
    return sums.reshape(x.shape).astype(float_type(x.dtype))


# Truth


def over(function: Callable[..., Any]) -> Callable[..., Array]:
    """Wrap a NumPy reduction as `function(x, dim, keepdim)`."""
    return lambda x, dim=None, keepdim=False: np.asarray(
        function(x, axis=axes_of(x, dim), keepdims=keepdim)
    )


# Extremes


def extreme(function: Callable[..., Any], x: Array) -> Array:
    if x.size == 0:
        raise ExecutionError(f"{list(x.shape)} has no elements to choose from")
    return np.asarray(function(x))


def extreme_along(
    function: Callable[..., Array], x: Array, dim: int, keepdim: bool
) -> tuple[Array, Array]:
    axis, rows = normalize_dim(dim, x.ndim), np.atleast_1d(x)
    if rows.shape[axis] == 0:
        raise ExecutionError(f"{list(x.shape)} has no elements along dim {dim}")
    places = np.expand_dims(function(rows, axis=axis), axis)
    values = np.take_along_axis(rows, places, axis)
    if x.ndim == 0:
        return values.reshape(()), places.reshape(())
    if not keepdim:
        values, places = values.squeeze(axis), places.squeeze(axis)
    return values, places


# Variances and norms


def variance(
    x: Array, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> tuple[Array, Array]:
    """Return variances and means in float64; the correction is 1 unless given, as in PyTorch."""
    axes, wide = axes_of(x, dim), x.astype(np.float64)
    count = math.prod(x.shape[axis] for axis in axes)
    divisor = np.float64(max(count - (1 if correction is None else correction), 0))
    mean = np.sum(wide, axis=axes, keepdims=True) / np.float64(count)
    result = np.sum((wide - mean) ** 2, axis=axes, keepdims=True) / divisor
    if not keepdim:
        mean, result = mean.squeeze(axes), result.squeeze(axes)
    return result.astype(float_type(x.dtype)), mean.astype(float_type(x.dtype))


def with_correction(x: Array, dim: Any, correction: float | None, keepdim: bool) -> Array:
    return variance(x, dim, correction, keepdim)[0]


def with_unbiased(x: Array, dim: Any, unbiased: bool, keepdim: bool) -> Array:
    return variance(x, dim, int(unbiased), keepdim)[0]


def deviation(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arguments: np.sqrt(function(*arguments))


def norm(x: Array, order: float, dim: Sequence[int] | None = None, keepdim: bool = False) -> Array:
    axes, size = axes_of(x, dim), np.abs(x.astype(np.float64))
    if math.isinf(order):
        choose = np.max if order > 0 else np.min
        result = choose(size, axis=axes, keepdims=keepdim)
    elif order == 0:
        result = np.sum(size != 0, axis=axes, keepdims=keepdim, dtype=np.float64)
    else:
        result = np.sum(size**order, axis=axes, keepdims=keepdim) ** (1 / order)
    return np.asarray(result).astype(float_type(x.dtype))


for _name, (_parameters, _op) in SAME_AS_OP.items():
    _apart = {"out": INDICES} if ".arg" in _op else {}
    register_op(_name, _parameters, _op, notes=f"`{_op}`", apart=_apart)


def of_all(x: object, *_: object) -> tuple[object, ...]:
    """Return the arguments of a reduction over all dims."""
    return x, None, False


register(
    "aten::sum.out", "self, dtype", total, typed=True, op="aten.sum.dim_IntList", prepare=of_all
)
register("aten::mean.dtype_out", "self, dtype", mean_of_all, typed=True, op=MEAN, prepare=of_all)
register("aten::prod.int_out", "self, dim, keepdim, dtype", product, typed=True)
register(
    "aten::prod.out",
    "self, dtype",
    lambda out, x, dtype: product(out, x, None, False),
    typed=True,
)
for _name, _running in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
    register(
        f"aten::{_name}.out",
        "self, dim, dtype",
        partial(running, _running),
        typed=True,
        op=f"aten.{_name}.default",
    )
register("aten::logsumexp.out", "self, dim, keepdim", log_sum_exp)
register("aten::logcumsumexp.out", "self, dim", running_log_sum_exp)


def as_dims(x: object, dim: Any, keepdim: bool) -> tuple[object, ...]:
    return x, [dim] if isinstance(dim, int) else dim, keepdim


for _name, _function in (("any", np.any), ("all", np.all)):
    register(
        f"aten::{_name}.all_out",
        "self",
        over(_function),
        op=f"aten.{_name}.dims",
        prepare=of_all,
        types=TRUTH,
    )
    for _overload in ("out", "dims_out"):
        register(
            f"aten::{_name}.{_overload}",
            "self, dim, keepdim",
            over(_function),
            op=f"aten.{_name}.dims",
            prepare=as_dims,
            types=TRUTH,
        )

EXTREMES: dict[str, Callable[..., Any]] = {"max": np.max, "min": np.min}
for _name, _extreme in EXTREMES.items():
    register(
        f"aten::{_name}.unary_out",
        "self",
        partial(extreme, _extreme),
        op=f"aten.a{_name}.default",
        prepare=of_all,
    )
    register(
        f"aten::{_name}.dim_{_name}",
        "self, dim, keepdim",
        partial(extreme_along, np.argmax if _name == "max" else np.argmin),
        outputs=2,
        op=f"aten.{_name}.dim",
        apart={"out1": INDICES},
    )
for _name, _ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
    register(
        f"aten::{_name}.out",
        "self, dim",
        partial(np_extremes, _ufunc),
        outputs=2,
        op=f"aten.{_name}.default",
        types=FLOATS | {"int32"},
        apart={"out1": INDICES},
    )

CORRECTED, UNBIASED = "self, dim, correction, keepdim", "self, dim, unbiased, keepdim"


def corrected(x: object, dim: object, unbiased: bool, keepdim: bool) -> tuple[object, ...]:
    return x, dim, int(unbiased), keepdim


for _name, _change in (("var", lambda f: f), ("std", deviation)):
    _op = f"aten.{_name}.correction"
    register(f"aten::{_name}.correction_out", CORRECTED, _change(with_correction), op=_op)
    register(f"aten::{_name}.out", UNBIASED, _change(with_unbiased), op=_op, prepare=corrected)
register(
    "aten::var_mean.correction_out",
    CORRECTED,
    variance,
    outputs=2,
    op="aten.var_mean.correction",
)
register(
    "aten::linalg_vector_norm.out",
    "self, ord, dim, keepdim, dtype",
    lambda x, order, dim, keepdim, dtype: norm(x, order, dim, keepdim),
)
register("aten::norm.Scalar_out", "self, p", norm)
register(
    "aten::norm.out",
    "self, p, dim, keepdim",
    lambda x, p, dim, keepdim: norm(x, 2 if p is None else p, dim, keepdim),
)
