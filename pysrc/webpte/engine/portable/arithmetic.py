"""Element-wise kernels of two and more operands, with broadcasting: arithmetic, comparisons, logic.

A row has the function, the computed type, and the overloads: for two tensors, and for a tensor and
a Python number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.ops.core.numpy_math import byte_bound
from webpte.engine.ops.elementwise.binary import np_floor_quotient, np_power, np_trunc_quotient
from webpte.engine.ops.elementwise.ternary import np_add_product, np_add_quotient, np_interpolate
from webpte.engine.portable.promotion import (
    DT,
    Operand,
    convert,
    float_type,
    promote,
    result_type,
    working_type,
)
from webpte.engine.portable.registry import FLOATS, MOVED, TRUTH, register
from webpte.errors import ExecutionError

Array = np.ndarray


@dataclass(frozen=True)
class BinaryKernel:
    """A row of the table.

    `computed` is "common" (the operands' common type), "fraction" (a float type), "question" (the
    common type, with a bool as the result) or "truth" (bools). `op` is the equivalent operator of
    delegates for two tensors of a type in `types`, or for a tensor and a number if its name has
    `Scalar`.
    """

    name: str
    function: Callable[[Array, Array], Array]
    computed: str = "common"
    overloads: tuple[str, ...] = ("out",)
    other: str = "other"
    op: str | None = None
    types: frozenset[str] = FLOATS


def operate(row: BinaryKernel, x: Operand, y: Operand) -> Array:
    if row.computed == "truth":
        return row.function(convert(x, np.dtype(np.bool_)), convert(y, np.dtype(np.bool_)))
    dtype = result_type(x, y)
    if row.computed == "fraction":
        dtype = float_type(dtype)
    result = row.function(convert(x, working_type(dtype)), convert(y, working_type(dtype)))
    return result if row.computed == "question" else result.astype(dtype, copy=False)


def whole(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Wrap a division so that dividing integers by 0 is an error."""

    def checked(x: Array, y: Array) -> Array:
        if y.dtype.kind in "iu" and x.size and not y.all():
            raise ExecutionError("integers are divided by 0")
        return function(x, y)

    return checked


def power(x: Array, y: Array) -> Array:
    return np_power(x, y) if x.dtype.kind in "fi" else np.power(x, y)


TENSOR, SCALAR = "Tensor_out", "Scalar_out"
DIVIDE = BinaryKernel("div", np.divide, "fraction", ("out", SCALAR), op="aten.div.Tensor")
POWER = BinaryKernel("pow", power)
QUOTIENTS = {
    None: DIVIDE,
    "floor": BinaryKernel("floor", whole(np_floor_quotient)),
    "trunc": BinaryKernel("trunc", whole(np_trunc_quotient)),
}

BINARY = (
    DIVIDE,
    BinaryKernel("mul", np.multiply, overloads=("out", SCALAR), op="aten.mul.Tensor"),
    BinaryKernel("maximum", np.maximum, op="aten.maximum.default"),
    BinaryKernel("minimum", np.minimum, op="aten.minimum.default"),
    BinaryKernel("max", np.maximum, op="aten.maximum.default"),
    BinaryKernel("min", np.minimum, op="aten.minimum.default"),
    BinaryKernel("fmax", np.fmax),
    BinaryKernel("fmin", np.fmin),
    BinaryKernel("atan2", np.arctan2, "fraction", op="aten.atan2.default"),
    BinaryKernel("copysign", np.copysign, "fraction"),
    BinaryKernel("hypot", np.hypot, "fraction"),
    BinaryKernel("logaddexp", np.logaddexp, "fraction"),
    BinaryKernel(
        "remainder", whole(np.remainder), overloads=(TENSOR, SCALAR), op="aten.remainder.Tensor"
    ),
    BinaryKernel("fmod", whole(np.fmod), overloads=(TENSOR, SCALAR), op="aten.fmod.Tensor"),
    BinaryKernel(
        "logical_and", np.logical_and, "truth", op="aten.logical_and.default", types=MOVED
    ),
    BinaryKernel("logical_or", np.logical_or, "truth", op="aten.logical_or.default", types=MOVED),
    BinaryKernel(
        "logical_xor", np.logical_xor, "truth", op="aten.logical_xor.default", types=MOVED
    ),
    BinaryKernel(
        "bitwise_and",
        np.bitwise_and,
        overloads=(TENSOR,),
        op="aten.bitwise_and.Tensor",
        types=MOVED - FLOATS,
    ),
    BinaryKernel("bitwise_and", np.bitwise_and, overloads=(SCALAR,)),
    BinaryKernel(
        "bitwise_or",
        np.bitwise_or,
        overloads=(TENSOR,),
        op="aten.bitwise_or.Tensor",
        types=MOVED - FLOATS,
    ),
    BinaryKernel("bitwise_or", np.bitwise_or, overloads=(SCALAR,)),
    BinaryKernel("bitwise_xor", np.bitwise_xor, overloads=(TENSOR, SCALAR)),
    BinaryKernel("bitwise_left_shift", np.left_shift, overloads=(TENSOR, "Tensor_Scalar_out")),
    BinaryKernel("bitwise_right_shift", np.right_shift, overloads=(TENSOR, "Tensor_Scalar_out")),
    BinaryKernel("__lshift__", np.left_shift, overloads=(TENSOR, SCALAR)),
    BinaryKernel("__rshift__", np.right_shift, overloads=(TENSOR, SCALAR)),
    BinaryKernel("eq", np.equal, "question", (TENSOR,), op="aten.eq.Tensor"),
    BinaryKernel("eq", np.equal, "question", (SCALAR,), op="aten.eq.Scalar"),
    BinaryKernel("ne", np.not_equal, "question", (TENSOR,), op="aten.ne.Tensor"),
    BinaryKernel("ne", np.not_equal, "question", (SCALAR,), op="aten.ne.Scalar"),
    BinaryKernel("lt", np.less, "question", (TENSOR,), op="aten.lt.Tensor"),
    BinaryKernel("lt", np.less, "question", (SCALAR,), op="aten.lt.Scalar"),
    BinaryKernel("le", np.less_equal, "question", (TENSOR,), op="aten.le.Tensor"),
    BinaryKernel("le", np.less_equal, "question", (SCALAR,), op="aten.le.Scalar"),
    BinaryKernel("gt", np.greater, "question", (TENSOR,), op="aten.gt.Tensor"),
    BinaryKernel("gt", np.greater, "question", (SCALAR,), op="aten.gt.Scalar"),
    BinaryKernel("ge", np.greater_equal, "question", (TENSOR,), op="aten.ge.Tensor"),
    BinaryKernel("ge", np.greater_equal, "question", (SCALAR,), op="aten.ge.Scalar"),
)


# Arithmetic with a third operand


def add(x: Operand, y: Operand, alpha: float) -> Array:
    dtype = result_type(x, y)
    if isinstance(alpha, float) and dtype.kind != "f":
        raise ExecutionError(f"alpha {alpha} does not fit a result of {dtype}")
    working = working_type(dtype)
    scaled = convert(y, working)
    if alpha != 1:
        scaled = scaled * convert(alpha, working)
    return (convert(x, working) + scaled).astype(dtype, copy=False)


def subtract(x: Operand, y: Operand, alpha: float) -> Array:
    if result_type(x, y).kind == "b":
        raise ExecutionError("bools cannot be subtracted")
    return add(x, y, -alpha)


def divide_rounded(x: Array, y: Operand, rounding_mode: str | None) -> Array:
    if rounding_mode not in QUOTIENTS:
        raise ExecutionError(
            f"rounding_mode={rounding_mode!r} is not supported; use floor or trunc"
        )
    return operate(QUOTIENTS[rounding_mode], x, y)


def power_of(x: Operand, exponent: Operand) -> Array:
    negative = isinstance(exponent, int) and exponent < 0
    if negative and result_type(x).kind in "iub":
        raise ExecutionError(f"integers cannot be raised to the power of {exponent}")
    return operate(POWER, x, exponent)


# One of several operands


def bounded(x: Array, low: Operand | None, high: Operand | None) -> Array:
    """Clamp `x`; the upper bound wins, and bounds beyond an integer type's range have no effect."""
    dtype = result_type(x, low, high)
    result = convert(x, dtype)
    if low is not None:
        result = np.maximum(result, bound(low, dtype))
    return result if high is None else np.minimum(result, bound(high, dtype))


def bound(value: Operand, dtype: DT) -> Array:
    if isinstance(value, int) and dtype.kind in "iu":
        value = byte_bound(value) if dtype == np.uint8 else value
        value = int(np.clip(value, np.iinfo(dtype).min, np.iinfo(dtype).max))
    return convert(value, dtype)


def choose(condition: Array, x: Array, y: Array) -> Array:
    dtype = result_type(x, y)
    return np.where(condition.astype(np.bool_), convert(x, dtype), convert(y, dtype))


def masked_fill(x: Array, mask: Array, value: Operand) -> Array:
    if promote(x.dtype, result_type(value)).kind != x.dtype.kind:
        raise ExecutionError(f"a {result_type(value)} value cannot fill a tensor of {x.dtype}")
    return np.where(mask, convert(value, x.dtype), x)


# Sums of products


def in_common(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function so that it computes in the common type of its arguments."""

    def run(*operands: Operand) -> Array:
        dtype = result_type(*operands)
        working = working_type(dtype)
        result = function(*(convert(operand, working) for operand in operands))
        return result.astype(dtype, copy=False)

    return run


def add_quotient(x: Array, a: Array, b: Array, value: Array) -> Array:
    if x.dtype.kind != "f":
        raise ExecutionError(f"a quotient needs floats, not {x.dtype}")
    return np_add_quotient(x, a, b, value)


def of_row(row: BinaryKernel) -> Callable[..., Array]:
    return lambda x, y: operate(row, x, y)


def of_tensors(x: Any, other: Any, *rest: Any) -> tuple[Any, ...]:
    """Return the arguments of an operator of two tensors; a second number becomes a tensor."""
    if isinstance(other, int | float):
        with np.errstate(over="ignore"):
            other = np.asarray(other, np.float32)
    return x, other, *rest


for _row in BINARY:
    for _overload in _row.overloads:
        register(
            f"aten::{_row.name}.{_overload}",
            f"self, {_row.other}",
            of_row(_row),
            op=_row.op,
            prepare=None if _row.op and _row.op.endswith(".Scalar") else of_tensors,
            types=_row.types,
            apart={"out": TRUTH} if _row.computed in ("question", "truth") else {},
        )

for _overload in ("out", SCALAR):
    for _name, _function in (("add", add), ("sub", subtract)):
        register(
            f"aten::{_name}.{_overload}",
            "self, other, alpha",
            _function,
            op=f"aten.{_name}.Tensor",
            prepare=of_tensors,
        )
for _overload in (TENSOR, SCALAR):
    register(
        f"aten::rsub.{_overload}",
        "self, other, alpha",
        lambda x, y, alpha: subtract(y, x, alpha),
        op="aten.sub.Tensor",
        prepare=lambda x, other, alpha: (*of_tensors(x, other)[::-1], alpha),
    )
for _overload in ("out_mode", "Scalar_mode_out"):
    register(
        f"aten::div.{_overload}",
        "self, other, rounding_mode",
        divide_rounded,
        op="aten.div.Tensor_mode",
        prepare=of_tensors,
    )
for _overload in ("out", SCALAR):
    register(
        f"aten::floor_divide.{_overload}",
        "self, other",
        of_row(QUOTIENTS["floor"]),
        op="aten.div.Tensor_mode",
        prepare=lambda x, other: of_tensors(x, other, "floor"),
    )
for _overload, _op in (
    ("Tensor_Tensor_out", "aten.pow.Tensor_Tensor"),
    ("Tensor_Scalar_out", "aten.pow.Tensor_Scalar"),
    (SCALAR, None),
):
    register(f"aten::pow.{_overload}", "self, exponent", power_of, op=_op)
register("aten::clamp.out", "self, min, max", bounded, op="aten.clamp.default")
register("aten::clamp.Tensor_out", "self, min, max", bounded, op="aten.clamp.Tensor")
for _name, _side, _bounds, _op in (
    ("clamp_min", "min", lambda x, low: (x, low, None), "aten.maximum.default"),
    ("clamp_max", "max", lambda x, high: (x, None, high), "aten.minimum.default"),
):

    def _clamp(x: Array, value: Operand, bounds: Any = _bounds) -> Array:
        return bounded(*bounds(x, value))

    register(f"aten::{_name}.{TENSOR}", f"self, {_side}", _clamp, op=_op)
    register(
        f"aten::{_name}.out", f"self, {_side}", _clamp, op="aten.clamp.default", prepare=_bounds
    )
for _overload in (TENSOR, SCALAR):
    register(
        f"aten::masked_fill.{_overload}",
        "self, mask, value",
        masked_fill,
        op="aten.where.self",
        prepare=lambda x, mask, value: (mask, of_tensors(x, value)[1], x),
        apart={"mask": TRUTH},
    )
    register(
        f"aten::lerp.{_overload}",
        "self, end, weight",
        in_common(np_interpolate),
        op="aten.lerp.Tensor",
        prepare=lambda x, end, weight: (x, *of_tensors(end, weight)),
    )
register(
    "aten::where.self_out",
    "condition, self, other",
    choose,
    op="aten.where.self",
    types=MOVED,
    apart={"condition": TRUTH},
)
for _name, _of_three in (("addcmul", np_add_product), ("addcdiv", add_quotient)):
    register(
        f"aten::{_name}.out",
        "self, tensor1, tensor2, value",
        in_common(_of_three),
        op=f"aten.{_name}.default",
    )
