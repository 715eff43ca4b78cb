"""Element-wise ops of one tensor: out[i] = f(self[i]), and casts.

A row has the WGSL formula of `x` (a vec4 of the computed type `Vec`) and of the scalar arguments
`a`, `b` and `c`, and the function in NumPy. Integers are computed as i32 where the row has a
formula for them, so that they stay exact; everything else is computed as f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.dtypes import BFLOAT16, DTYPES, DType
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.numpy_math import (
    byte_bound,
    np_clamp,
    np_elu,
    np_erf,
    np_gelu,
    np_gelu_tanh,
    np_hardsigmoid,
    np_mish,
    np_pow,
    np_sigmoid,
    np_sign,
    np_softplus,
    within_int32,
)
from webpte.engine.ops.core.quads import (
    COMPARING,
    INT32_MAX,
    INT32_MIN,
    clamp_int32,
    common_type,
    fits_int32,
    quad_count,
    quad_grid,
    same_shape,
)
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.errors import UnsupportedError

Array = np.ndarray
Scalars = tuple[float, ...]


@dataclass(frozen=True)
class Unary:
    """A single op. `integer` is the formula for integers; None computes them as floats.

    `scalars` maps the call's arguments to the formula's `a`, `b` and `c`. `computed` is "number",
    "bool" (the formula takes bools) or "bool for bool" (it takes bools for bool tensors). `result`
    is the type of the formula's result if it differs from the computed type.
    """

    name: str
    formula: str
    numpy: Callable[..., Array]
    integer: str | None = None
    signature: str = "self: tensor -> tensor"
    scalars: Callable[[Args], Scalars] = lambda args: ()
    computed: str = "number"
    result: str | None = None


def one(name: str) -> Callable[[Args], Scalars]:
    """Return a reader of a scalar argument, as `a`."""
    return lambda args: (args.number(name),)


def several(*names: str) -> Callable[[Args], Scalars]:
    """Return a reader of scalar arguments, as `a`, `b` and `c`."""
    return lambda args: tuple(args.number(name) for name in names)


def bounds(args: Args) -> Scalars:
    """Return `min` and `max` as `a` and `b`; an absent bound becomes an infinity."""
    low, high = args.optional_number("min"), args.optional_number("max")
    both = (-math.inf if low is None else low, math.inf if high is None else high)
    return tuple(map(byte_bound, both)) if args.out.dtype.name == "uint8" else both


ROUND_BFLOAT16 = "webpte.round_bfloat16.default"
POWER = "aten.pow.Tensor_Scalar"
RELU, INTEGER_RELU = "keep_nan(x, max(x, Vec()))", "max(x, Vec())"
CLAMP = "bounded(x, a, b)"
INTEGER_CLAMP = "min(max(x, Vec(a)), Vec(b))"

# name: (formula for floats, NumPy); integers become floats
FUNCTIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "acos": ("precise_acos(x)", np.arccos),
    "acosh": ("precise_acosh(x)", np.arccosh),
    "asin": ("precise_asin(x)", np.arcsin),
    "asinh": ("precise_asinh(x)", np.arcsinh),
    "atan": ("precise_atan(x)", np.arctan),
    "atanh": ("precise_atanh(x)", np.arctanh),
    "cosh": ("precise_cosh(x)", np.cosh),
    "erf": ("erf(x)", np_erf),
    "expm1": ("precise_expm1(x)", np.expm1),
    "hardsigmoid": ("keep_nan(x, bounded(x + 3.0, 0.0, 6.0) / 6.0)", np_hardsigmoid),
    "log": ("precise_log(x)", np.log),
    "log10": ("precise_log10(x)", np.log10),
    "log1p": ("precise_log1p(x)", np.log1p),
    "log2": ("precise_log2(x)", np.log2),
    "mish": ("mish(x)", np_mish),
    "reciprocal": ("1.0 / x", np.reciprocal),
    "silu": ("x * sigmoid(x)", lambda x: x * np_sigmoid(x)),
    "sinh": ("precise_sinh(x)", np.sinh),
    "tan": ("precise_tan(x)", np.tan),
}

# name: (formula for floats, for integers, NumPy); the type stays
ROUNDED: dict[str, tuple[str, str, Callable[[Array], Array]]] = {
    "ceil": ("ceil(x)", "x", np.ceil),
    "floor": ("floor(x)", "x", np.floor),
    "frac": ("x - trunc(x)", "Vec()", lambda x: x - np.trunc(x)),
    "sign": ("sign_of(x)", "sign(x)", np_sign),
    "square": ("x * x", "x * x", np.square),
    "trunc": ("trunc(x)", "x", np.trunc),
}

# name: (formula, NumPy)
QUESTIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "isinf": ("is_infinite(x)", np.isinf),
    "isnan": ("is_nan_vec4f(x)", np.isnan),
}

UNARY = (
    *(Unary(f"aten.{name}.default", *row) for name, row in FUNCTIONS.items()),
    *(
        Unary(f"aten.{name}.default", floats, function, integer=integers)
        for name, (floats, integers, function) in ROUNDED.items()
    ),
    *(Unary(f"aten.{name}.default", *row, result="bool") for name, row in QUESTIONS.items()),
    Unary(
        "aten.elu.default",
        "elu(x, a, b, c)",
        np_elu,
        signature="self: tensor, alpha: number = 1, scale: number = 1, input_scale: number = 1 "
        "-> tensor",
        scalars=several("alpha", "scale", "input_scale"),
    ),
    Unary(
        "aten.softplus.default",
        "softplus(x, a, b)",
        np_softplus,
        signature="self: tensor, beta: number = 1, threshold: number = 20 -> tensor",
        scalars=several("beta", "threshold"),
    ),
    Unary(
        "aten.threshold.default",
        "select(x, Vec(b), x <= Vec(a))",
        lambda x, limit, value: np.where(x <= limit, x.dtype.type(value), x),
        signature="self: tensor, threshold: number, value: number -> tensor",
        scalars=several("threshold", "value"),
    ),
    # Of our own: on the GPU, tensors of bfloat16 hold results that are not rounded yet.
    Unary(ROUND_BFLOAT16, "bfloat16_of(x)", DTYPES[BFLOAT16].cast),
    Unary("aten.abs.default", "abs(x)", np.abs, integer="abs(x)"),
    Unary("aten.neg.default", "-x", np.negative, integer="-x"),
    Unary("aten.round.default", "round(x)", np.round, integer="x"),
    Unary("aten.relu.default", RELU, lambda x: np.maximum(x, 0), integer=INTEGER_RELU),
    Unary("aten.exp.default", "keep_nan(x, exp(x))", np.exp),
    Unary("aten.sqrt.default", "sqrt(x)", np.sqrt),
    Unary("aten.rsqrt.default", "inverseSqrt(x)", lambda x: 1 / np.sqrt(x)),
    Unary("aten.sin.default", "precise_sin(x)", np.sin),
    Unary("aten.cos.default", "precise_cos(x)", np.cos),
    Unary("aten.tanh.default", "stable_tanh(x)", np.tanh),
    Unary("aten.sigmoid.default", "sigmoid(x)", np_sigmoid),
    Unary(
        "aten.hardswish.default",
        "x * clamp(x + 3.0, Vec(), Vec(6.0)) / 6.0",
        lambda x: x * np_hardsigmoid(x),
    ),
    Unary(
        "aten.hardshrink.default",
        "select(x, Vec(), (x >= Vec(-a)) & (x <= Vec(a)))",
        lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x),
        signature="self: tensor, lambd: number = 0.5 -> tensor",
        scalars=one("lambd"),
    ),
    Unary(
        "aten.leaky_relu.default",
        "select(x, x * a, x < Vec())",
        lambda x, slope: np.where(x < 0, x * slope, x),
        signature="self: tensor, negative_slope: number = 0.01 -> tensor",
        scalars=one("negative_slope"),
    ),
    Unary(
        "aten.clamp.default",
        CLAMP,
        np_clamp,
        integer=INTEGER_CLAMP,
        signature="self: tensor, min: number?, max: number? -> tensor",
        scalars=bounds,
    ),
    Unary(
        "aten.hardtanh.default",
        CLAMP,
        np_clamp,
        integer=INTEGER_CLAMP,
        signature="self: tensor, min: number = -1, max: number = 1 -> tensor",
        scalars=bounds,
    ),
    Unary(
        POWER,
        "real_pow(x, Vec(a))",
        np_pow,
        integer="integer_pow(x, Vec(a))",
        signature="self: tensor, exponent: number -> tensor",
        scalars=one("exponent"),
    ),
    Unary("aten.logical_not.default", "!x", np.logical_not, computed="bool"),
    Unary("aten.bitwise_not.default", "!x", np.invert, integer="~x", computed="bool for bool"),
    *(
        Unary(
            f"aten.{name}.Scalar",
            # A NaN is unequal to everything, but `!=` may be false for it.
            f"x {operator} Vec(a)" if operator != "!=" else "!(x == Vec(a))",
            function,
            integer=f"x {operator} Vec(a)",
            signature="self: tensor, other: number -> tensor",
            scalars=one("other"),
            result="bool",
        )
        for name, operator, function in COMPARING
    ),
)

GELU = {
    "none": ("0.5 * x * (1.0 + erf(x * 0.70710678))", np_gelu),
    # tanh saturates long before 10, and the cube of a large x would overflow.
    "tanh": (
        "0.5 * x * (1.0 + stable_tanh(clamp(0.79788456 * (x + 0.044715 * x * x * x), "
        "Vec(-10.0), Vec(10.0))))",
        np_gelu_tanh,
    ),
}

CASTS = {
    "aten._to_copy.default": (
        "self: tensor, dtype: any = None, layout: any = None, device: any = None, "
        "pin_memory: any = None, non_blocking: any = None, memory_format: any = None -> tensor"
    ),
    "dim_order_ops._to_dim_order_copy.default": (
        "self: tensor, dtype: any = None, layout: any = None, device: any = None, "
        "pin_memory: any = None, non_blocking: any = None, dim_order: any = None -> tensor"
    ),
}


GELU_NAME = "aten.gelu.default"
# Ops that map floats to floats.
FLOAT_UNARY = {op.name: op for op in UNARY if op.computed == "number" and op.result is None}
# Ops with a formula in `float_formula`: they can end a GEMM or a convolution.
ACTIVATIONS = frozenset({*FLOAT_UNARY, GELU_NAME})
ROOTS = {0.5: "sqrt(x)", -0.5: "inverseSqrt(x)"}  # torch computes these powers as roots
COMPARISONS = {op.name: op.numpy for op in UNARY if op.name.endswith(".Scalar") and op.result}


def computed_type(op: Unary, source: DType, out: DType, scalars: Scalars) -> str:
    """Return bool, i32 or f32: the narrowest type in which the result is exact."""
    if op.computed == "bool" or (op.computed == "bool for bool" and source.name == "bool"):
        return "bool"
    # Clamp bounds may lie beyond int32, where they have no effect; other scalars have to fit.
    whole = all(fits_int32(scalar) or op.integer == INTEGER_CLAMP for scalar in scalars)
    if op.integer is not None and whole and not source.is_float and not out.is_float:
        return "i32"
    return "f32"


def beyond_int32(op: Unary, source: DType, scalars: Scalars) -> tuple[str, int] | None:
    """Return an equivalent formula for int32 and a scalar beyond int32; else None."""
    if source.is_float or op.name not in COMPARISONS:
        return None
    (scalar,) = scalars
    if scalar > INT32_MAX:
        return ("x <= Vec(a)" if COMPARISONS[op.name](0, 1) else "x > Vec(a)"), INT32_MAX
    if scalar < INT32_MIN:
        return ("x >= Vec(a)" if COMPARISONS[op.name](1, 0) else "x < Vec(a)"), INT32_MIN
    return None


def lower_unary(op: Unary, args: Args) -> list[Dispatch]:
    scalars = op.scalars(args)
    if (same := beyond_int32(op, args.tensor("self").dtype, scalars)) is not None:
        return dispatch(args, same[0], "i32", "bool", (same[1],))
    compute = computed_type(op, args.tensor("self").dtype, args.out.dtype, scalars)
    formula = op.integer if compute == "i32" else op.formula
    assert formula is not None
    if op.name == POWER:
        formula = ROOTS.get(scalars[0], formula)
    return dispatch(args, formula, compute, op.result or compute, scalars)


def dispatch(
    args: Args, formula: str, compute: str, result: str, scalars: Scalars = ()
) -> list[Dispatch]:
    """Return a dispatch over all quads; no dispatch for an empty tensor."""
    source, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    quads = quad_count(out.numel)
    scalar = "i32" if compute == "i32" else "f32"
    values: list[Any] = [*scalars, 0, 0, 0][:3]
    if scalar == "i32":
        values = [clamp_int32(value) for value in values]
    return [
        Dispatch(
            kernel="unary",
            bindings=(source.id, out.id),
            params=pack("I3i" if scalar == "i32" else "I3f", quads, *values),
            grid=quad_grid(quads),
            types=(
                ("COMPUTE", compute),
                ("FORMULA", formula),
                ("IN", source.dtype.wgsl),
                ("OUT", out.dtype.wgsl),
                ("RESULT", result),
                ("SCALAR", scalar),
            ),
        )
    ]


def run_unary(op: Unary, args: Args) -> Array:
    x, scalars = args.array("self"), op.scalars(args)
    if args.out.dtype.is_float and x.dtype.kind in "iub":
        x = x.astype(args.out.dtype.computed)
    elif computed_type(op, args.tensor("self").dtype, args.out.dtype, scalars) == "i32":
        # The exporter writes 2 as 2.0 if both occur; a float would make NumPy promote.
        scalars = tuple(s if math.isinf(s) else int(s) for s in scalars)
    return op.numpy(x, *scalars)


def gelu_variant(args: Args) -> tuple[str, Callable[[Array], Array]]:
    approximate = args.string("approximate")
    if approximate not in GELU:
        raise UnsupportedError(
            f"{args.call}: approximate={approximate!r} is not supported; use none or tanh"
        )
    return GELU[approximate]


def float_formula(name: str, args: Args) -> tuple[str, Scalars] | None:
    """Return the formula and scalars of a call that maps floats to floats; None for other ops."""
    if name == GELU_NAME:
        return gelu_variant(args)[0], ()
    op = FLOAT_UNARY.get(name)
    if op is None:
        return None
    scalars = op.scalars(args)
    return (ROOTS.get(scalars[0], op.formula) if name == POWER else op.formula), scalars


def lower_cast(args: Args) -> list[Dispatch]:
    source, out = args.tensor("self").dtype, args.out.dtype
    if out.name == "float16" and source.name != "float16":
        # Round as the host does: devices differ on values that f16 cannot hold.
        return dispatch(args, "half_of(x)", "f32", "f32")
    if out.name == BFLOAT16 and source.name != BFLOAT16:
        return dispatch(args, "bfloat16_of(x)", "f32", "f32")
    compute = common_type(source)
    return dispatch(args, "x", compute, compute)


def run_cast(args: Args) -> Array:
    x, out = args.array("self"), args.out.dtype
    whole = x.dtype.kind == "f" and out.numpy.kind in "iu"
    return out.cast(within_int32(x) if whole else x)


for _op in UNARY:
    register(
        _op.name,
        _op.signature,
        shape=same_shape,
        lower=lambda args, op=_op: lower_unary(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_unary(op, args),  # type: ignore[misc]
    )

register(
    GELU_NAME,
    "self: tensor, approximate: str = 'none' -> tensor",
    shape=same_shape,
    lower=lambda args: dispatch(args, gelu_variant(args)[0], "f32", "f32"),
    reference=lambda args: gelu_variant(args)[1](args.array("self")),
)

for _name, _signature in CASTS.items():
    register(
        _name,
        _signature,
        shape=same_shape,
        lower=lower_cast,
        reference=run_cast,
        alias_of="self",
    )
