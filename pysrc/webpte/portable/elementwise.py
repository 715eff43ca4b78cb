"""Element-wise kernels of one tensor: out[i] = f(self[i]), with scalar arguments.

Three kinds of rows: functions that yield fractions (integers are computed in float32), functions
that keep the type, and questions, whose answer is a bool.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from webpte.errors import ExecutionError
from webpte.ops.core.numpy_math import (
    np_clamp,
    np_elu,
    np_erf,
    np_gelu,
    np_gelu_tanh,
    np_hardsigmoid,
    np_mish,
    np_sigmoid,
    np_sign,
    np_softplus,
)
from webpte.portable.promotion import DT, float_type, working_type
from webpte.portable.registry import FLOATS, MOVED, TRUTH, op_named_like, register

Array = np.ndarray

FRACTIONS: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np_erf,
    "erfc": lambda x: np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x)),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": np_sigmoid,
    "silu": lambda x: x * np_sigmoid(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "hardsigmoid": np_hardsigmoid,
    "hardswish": lambda x: x * np_hardsigmoid(x),
    "mish": np_mish,
}

SAME_TYPE: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "bitwise_not": np.invert,
    "ceil": np.ceil,
    "floor": np.floor,
    "frac": lambda x: x - np.trunc(x),
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.round,
    "sign": np_sign,
    "square": np.square,
    "trunc": np.trunc,
}

QUESTIONS: dict[str, Callable[[Array], Array]] = {
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isneginf": lambda x: np.isinf(x) & (x < 0),
    "isposinf": lambda x: np.isinf(x) & (x > 0),
    "logical_not": np.logical_not,
    "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
}


# Functions with arguments; all of floats, but for the clamps.


def gelu(x: Array, approximate: str) -> Array:
    known = {"none": np_gelu, "tanh": np_gelu_tanh}
    if approximate not in known:
        raise ExecutionError(f"approximate={approximate!r}; known are none and tanh")
    return known[approximate](x)


def logit(x: Array, eps: float | None) -> Array:
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def softshrink(x: Array, lambd: float) -> Array:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


def nan_to_num(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


WITH_ARGUMENTS: dict[str, tuple[str, Callable[..., Array]]] = {
    "elu": ("alpha, scale, input_scale", np_elu),
    "gelu": ("approximate", gelu),
    "hardshrink": ("lambd", lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x)),
    "leaky_relu": ("negative_slope", lambda x, slope: np.where(x < 0, x * slope, x)),
    "logit": ("eps", logit),
    "nan_to_num": ("nan, posinf, neginf", nan_to_num),
    "softplus": ("beta, threshold", np_softplus),
    "softshrink": ("lambd", softshrink),
}


def in_type(function: Callable[..., Array], dtype: DT, x: Array, *arguments: object) -> Array:
    """`function` of `x` in `dtype`, or where that is too coarse to compute in, rounded to it."""
    result = function(x.astype(working_type(dtype), copy=False), *arguments)
    return np.asarray(result).astype(dtype, copy=False)


def fraction(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, *arguments: in_type(function, float_type(x.dtype), x, *arguments)


def same_type(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, *arguments: in_type(function, x.dtype, x, *arguments)


def hardtanh(x: Array, low: float, high: float) -> Array:
    return np_clamp(x, *(map(int, (low, high)) if x.dtype.kind in "iu" else (low, high)))


def threshold(x: Array, limit: float, value: float) -> Array:
    return np.where(x <= limit, x.dtype.type(value), x)


def register_floats(name: str, parameters: str, function: Callable[..., Array]) -> None:
    register(name, parameters, function, op=op_named_like(name), types=TYPES.get(name, FLOATS))


# Where others than floats are the same on the GPU.
TYPES = {"aten::bitwise_not.out": MOVED - FLOATS, "aten::logical_not.out": MOVED}

for _name, _function in FRACTIONS.items():
    register_floats(f"aten::{_name}.out", "self", fraction(_function))
for _name, _function in SAME_TYPE.items():
    register_floats(f"aten::{_name}.out", "self", same_type(_function))
for _name, _function in QUESTIONS.items():
    _full = f"aten::{_name}.out"
    _types = TYPES.get(_full, FLOATS)
    _op = op_named_like(_full)
    register(_full, "self", _function, op=_op, types=_types, apart={"out": TRUTH})
for _name, (_arguments, _function) in WITH_ARGUMENTS.items():
    register_floats(f"aten::{_name}.out", f"self, {_arguments}", fraction(_function))
register(
    "aten::celu.out",
    "self, alpha",
    fraction(lambda x, alpha: np_elu(x, alpha, 1, 1 / alpha)),
    op="aten.elu.default",
    prepare=lambda x, alpha: (x, alpha, 1, 1 / alpha),
)

register_floats("aten::hardtanh.out", "self, min_val, max_val", same_type(hardtanh))
register_floats("aten::threshold.out", "self, threshold, value", same_type(threshold))
register("aten::round.decimals_out", "self, decimals", fraction(np.round))
