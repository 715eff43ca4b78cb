"""Element-wise ops of two tensors, with NumPy's broadcasting: out[i] = f(self[..], other[..]).

A row has the WGSL formula of `x` and `y` (vec4s of the computed type `Vec`) and of `alpha`, and
the function in NumPy. Arithmetic is computed in the output's type, comparisons in the operands'
common type; integers as i32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import COMPARING, common_type, pack_axes, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims, broadcast, broadcast_strides
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

# How an operand is read; the values of X_MODE and Y_MODE in the shader.
FLAT, SINGLE, STRIDED = 0, 1, 2


@dataclass(frozen=True)
class Binary:
    """A single op. `integer` is the formula for integers; None computes them as floats.

    `computed` is the type to compute in: "out" the output's, "inputs" the operands' common type,
    "bool" for truth values. `result` is the type of the formula's result if it differs.
    """

    name: str
    formula: str | None  # float formula; None: not defined for floats
    numpy: Callable[[Array, Array], Array]
    integer: str | None = None
    computed: str = "out"
    result: str | None = None
    signature: str = "self: tensor, other: tensor -> tensor"


WITH_ALPHA = "self: tensor, other: tensor, alpha: number = 1 -> tensor"


def np_floor_quotient(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(y == 0, x / y, np.floor_divide(x, y)) if x.dtype.kind == "f" else x // y


def np_trunc_quotient(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        if x.dtype.kind == "f":
            return np.trunc(x / y)
        quotient = x // y
        return quotient + ((quotient * y != x) & (quotient < 0))


def np_power(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        if x.dtype.kind == "f":
            return np.power(x, y)
        magnitude = np.power(x, np.maximum(y, 0))
        return np.where(y < 0, np.where(np.abs(x) == 1, np.where(y % 2, x, 1), 0), magnitude)


def np_divide(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.divide(x, y)


def np_fmod(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.fmod(x, y)


def np_prelu(x: Array, slope: Array) -> Array:
    return np.where(x < 0, x * slope, x)


def np_modulo(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.remainder(x, y)


BINARY = (
    Binary("aten.mul.Tensor", "x * y", np.multiply, integer="x * y"),
    Binary("aten.div.Tensor", "x / y", np_divide),
    Binary(
        "aten.minimum.default",
        "select(select(y, x, x < y), x, is_nan_vec4f(x))",  # a NaN on either side wins
        np.minimum,
        integer="min(x, y)",
    ),
    Binary(
        "aten.maximum.default",
        "select(select(y, x, x > y), x, is_nan_vec4f(x))",
        np.maximum,
        integer="max(x, y)",
    ),
    Binary("aten.atan2.default", "precise_atan2(x, y)", np.arctan2),
    Binary("aten.fmod.Tensor", "remainders_of(x, y)", np_fmod, integer="x % y"),
    Binary(
        "aten.remainder.Tensor", "modulo_of(x, y)", np_modulo, integer="integer_modulo_of(x, y)"
    ),
    Binary("aten.pow.Tensor_Tensor", "real_pow(x, y)", np_power, integer="integer_pow(x, y)"),
    Binary("webpte.prelu.default", "select(x, x * y, x < Vec())", np_prelu),
    Binary("aten.logical_and.default", "x & y", np.logical_and, computed="bool", integer="x & y"),
    Binary("aten.logical_or.default", "x | y", np.logical_or, computed="bool", integer="x | y"),
    Binary("aten.logical_xor.default", "x != y", np.logical_xor, computed="bool", integer="x != y"),
    Binary("aten.bitwise_and.Tensor", None, np.bitwise_and, integer="x & y"),
    Binary("aten.bitwise_or.Tensor", None, np.bitwise_or, integer="x | y"),
    *(
        Binary(
            f"aten.{name}.Tensor",
            # A NaN is unequal to everything, but `!=` may be false for it.
            f"x {operator} y" if operator != "!=" else "!(x == y)",
            function,
            integer=f"x {operator} y",
            computed="inputs",
            result="bool",
        )
        for name, operator, function in COMPARING
    ),
)

ADDITIVE = {
    "aten.add.Tensor": ("x + y * alpha", np.add),
    "aten.sub.Tensor": ("x - y * alpha", np.subtract),
}

QUOTIENTS: dict[str | None, Binary] = {
    None: Binary("true", "x / y", np_divide),
    "floor": Binary(
        "floor",
        "floor_quotient(x, y)",
        np_floor_quotient,
        integer="integer_floor_quotient(x, y)",
    ),
    "trunc": Binary("trunc", "trunc(exact_quotient(x, y))", np_trunc_quotient, integer="x / y"),
}


def broadcast_shape(args: Args) -> tuple[Dims]:
    return (broadcast(args.tensor("self").dims, args.tensor("other").dims),)


def computed_type(op: Binary, x: TensorArg, y: TensorArg, out: TensorArg) -> str:
    if op.computed == "bool":
        return "bool"
    meeting = common_type(x.dtype, y.dtype) if op.computed == "inputs" else common_type(out.dtype)
    return "i32" if meeting == "i32" and op.integer is not None else "f32"


def reading_mode(operand: TensorArg, dims: Dims) -> int:
    if operand.numel == 1:
        return SINGLE
    # An operand with as many elements as the output is read flat: axes of size 1 change nothing.
    return FLAT if operand.numel == np.prod(dims, dtype=object) else STRIDED


def broadcast_reading(
    args: Args, operands: Sequence[TensorArg]
) -> tuple[list[int], int, list[int]]:
    """Return the reading mode of each operand, and the axes of the strided operands."""
    dims = args.out.dims
    modes = [reading_mode(operand, dims) for operand in operands]
    strides = [broadcast_strides(operand.dims, dims) for operand in operands]
    # Axes are unused if no operand is strided; zeros keep the params of such calls equal.
    return modes, *pack_axes(args, *((dims, *strides) if STRIDED in modes else ((),)))


def lower_binary(op: Binary, args: Args, alpha: float = 1) -> list[Dispatch]:
    x, y, out = args.tensor("self"), args.tensor("other"), args.out
    if out.numel == 0:
        return []
    compute = computed_type(op, x, y, out)
    scalar = "i32" if compute == "i32" else "f32"
    if scalar == "i32":
        alpha = args.integer("alpha") if alpha != 1 else 1
    formula = op.formula if compute == "f32" else op.integer
    if formula is None:
        raise GraphError(f"{args.call}: is not defined for {x.dtype.name} and {y.dtype.name}")
    modes, rank, axes = broadcast_reading(args, (x, y))
    quads = quad_count(out.numel)
    return [
        Dispatch(
            kernel="binary",
            bindings=(x.id, y.id, out.id),
            params=pack(f"2I{scalar[0]}4x{len(axes)}I", quads, rank, alpha, *axes),
            grid=quad_grid(quads),
            types=(
                ("COMPUTE", compute),
                ("FORMULA", formula),
                ("OUT", out.dtype.wgsl),
                ("RESULT", op.result or compute),
                ("SCALAR", scalar),
                ("X", x.dtype.wgsl),
                ("Y", y.dtype.wgsl),
            ),
            overrides=(("X_MODE", modes[0]), ("Y_MODE", modes[1])),
        )
    ]


def operands(op: Binary, args: Args) -> tuple[Array, Array]:
    """Return both arrays in the op's computed type, so that NumPy promotes no further."""
    x, y = args.array("self"), args.array("other")
    if op.computed == "out":
        # Arithmetic of bools is integer arithmetic; its result becomes a bool again.
        dtype = args.out.dtype.computed if args.out.dtype.name != "bool" else np.dtype(np.int32)
        return x.astype(dtype), y.astype(dtype)
    if op.computed == "inputs" and x.dtype != y.dtype:
        dtype = np.dtype(np.float32) if "f" in x.dtype.kind + y.dtype.kind else np.dtype(np.int64)
        return x.astype(dtype), y.astype(dtype)
    return x, y


def run_binary(op: Binary, args: Args) -> Array:
    return op.numpy(*operands(op, args))


def quotient(args: Args) -> Binary:
    mode = args.optional_string("mode")
    if mode not in QUOTIENTS:
        raise UnsupportedError(f"{args.call}: mode={mode!r} is not supported; use floor or trunc")
    return QUOTIENTS[mode]


def run_additive(op: Binary, args: Args) -> Array:
    x, y = operands(op, args)
    return op.numpy(x, y * x.dtype.type(args.number("alpha")))


# Ops that map two floats to a float.
FLOAT_BINARY = {
    op.name: op.formula
    for op in BINARY
    if op.computed == "out" and op.result is None and op.formula is not None
} | {name: formula for name, (formula, _) in ADDITIVE.items()}


def float_formula(name: str, args: Args) -> tuple[str, tuple[float, ...]] | None:
    """Return the formula and alpha of a call from two floats to a float; None for other ops."""
    if name not in FLOAT_BINARY:
        return None
    return FLOAT_BINARY[name], (args.number("alpha"),) if name in ADDITIVE else ()


for _op in BINARY:
    register(
        _op.name,
        _op.signature,
        shape=broadcast_shape,
        lower=lambda args, op=_op: lower_binary(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_binary(op, args),  # type: ignore[misc]
    )

for _name, (_formula, _function) in ADDITIVE.items():
    _op = Binary(_name, _formula, _function, integer=_formula)
    register(
        _name,
        WITH_ALPHA,
        shape=broadcast_shape,
        lower=lambda args, op=_op: lower_binary(op, args, args.number("alpha")),  # type: ignore[misc]
        reference=lambda args, op=_op: run_additive(op, args),  # type: ignore[misc]
    )

register(
    "aten.div.Tensor_mode",
    "self: tensor, other: tensor, mode: str? -> tensor",
    shape=broadcast_shape,
    lower=lambda args: lower_binary(quotient(args), args),
    reference=lambda args: run_binary(quotient(args), args),
)
