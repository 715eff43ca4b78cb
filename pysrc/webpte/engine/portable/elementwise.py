"""Element-wise kernels of a tensor: out[i] = f(self[i]), with scalar arguments.

The functions come from the delegates' table, `ops.elementwise.unary.UNARY`; only functions that no
delegate has are written here. Each is wrapped by PyTorch's rule for its result's type: a function
with fractional results computes integers in float32, a function from integers to integers keeps the
type, and a predicate returns bools.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from webpte.engine.ops.core.numpy_math import np_clamp, np_elu
from webpte.engine.ops.core.signature import parse_signature
from webpte.engine.ops.elementwise.unary import GELU, UNARY, Unary
from webpte.engine.portable.promotion import DT, float_type, working_type
from webpte.engine.portable.registry import FLOATS, MOVED, TRUTH, op_named_like, register
from webpte.errors import ExecutionError

Array = np.ndarray

# Rows of UNARY with separate kernels: clamp takes tensors too (arithmetic.py), hardtanh names its
# arguments differently, and threshold keeps integers, which its row computes in floats.
APART = {"aten.clamp.default", "aten.hardtanh.default", "aten.threshold.default"}
ROWS = {op.name: op for op in UNARY if op.name.endswith(".default") and op.name.startswith("aten.")}

# Functions that no delegate has.
FRACTIONS: dict[str, Callable[[Array], Array]] = {
    "erfc": lambda x: np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x)),
    "exp2": np.exp2,
}
PREDICATES: dict[str, Callable[[Array], Array]] = {
    "isneginf": lambda x: np.isinf(x) & (x < 0),
    "isposinf": lambda x: np.isinf(x) & (x > 0),
    "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
}


def gelu(x: Array, approximate: str) -> Array:
    if approximate not in GELU:
        raise ExecutionError(f"approximate={approximate!r} is not supported; use none or tanh")
    return GELU[approximate][1](x)


def logit(x: Array, eps: float | None) -> Array:
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def softshrink(x: Array, lambd: float) -> Array:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


def nan_to_num(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


WITH_ARGUMENTS: dict[str, tuple[str, Callable[..., Array]]] = {
    "gelu": ("approximate", gelu),
    "logit": ("eps", logit),
    "nan_to_num": ("nan, posinf, neginf", nan_to_num),
    "softshrink": ("lambd", softshrink),
}


def in_type(function: Callable[..., Array], dtype: DT, x: Array, *arguments: object) -> Array:
    """Apply a function in `dtype`; float16 is computed in float32 and rounded once."""
    result = function(x.astype(working_type(dtype), copy=False), *arguments)
    return np.asarray(result).astype(dtype, copy=False)


def fraction(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function with fractional results: it computes integers in float32."""
    return lambda x, *arguments: in_type(function, float_type(x.dtype), x, *arguments)


def same_type(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function with a result of its argument's type."""
    return lambda x, *arguments: in_type(function, x.dtype, x, *arguments)


def hardtanh(x: Array, low: float, high: float) -> Array:
    return np_clamp(x, *(map(int, (low, high)) if x.dtype.kind in "iu" else (low, high)))


def register_floats(name: str, parameters: str, function: Callable[..., Array]) -> None:
    """Register a kernel that offloads to its namesake operator for floats, or for its TYPES."""
    register(name, parameters, function, op=op_named_like(name), types=TYPES.get(name, FLOATS))


def register_predicate(name: str, function: Callable[..., Array]) -> None:
    types, apart = TYPES.get(name, FLOATS), {"out": TRUTH}
    register(name, "self", function, op=op_named_like(name), types=types, apart=apart)


def register_row(op: Unary) -> None:
    """Register the kernel of a row of the delegates' table."""
    name = op.name.replace("aten.", "aten::", 1).removesuffix("default") + "out"
    parameters = ", ".join(parameter.name for parameter in parse_signature(op.signature).parameters)
    if op.result == "bool" or op.computed == "bool":
        register_predicate(name, op.numpy)
    else:
        typed = fraction if op.integer is None else same_type
        register_floats(name, parameters, typed(op.numpy))


# Kernels that equal their operator on the GPU for types other than floats, too.
TYPES = {"aten::bitwise_not.out": MOVED - FLOATS, "aten::logical_not.out": MOVED}

for _name, _row in ROWS.items():
    if _name not in APART:
        register_row(_row)
# A function that became an operator of delegates needs a row above instead of this entry.
for _name, _function in FRACTIONS.items():
    if f"aten.{_name}.default" not in ROWS:
        register_floats(f"aten::{_name}.out", "self", fraction(_function))
for _name, _function in PREDICATES.items():
    if f"aten.{_name}.default" not in ROWS:
        register_predicate(f"aten::{_name}.out", _function)
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
_threshold = ROWS["aten.threshold.default"].numpy
register_floats("aten::threshold.out", "self, threshold, value", same_type(_threshold))
register("aten::round.decimals_out", "self, decimals", fraction(np.round))
