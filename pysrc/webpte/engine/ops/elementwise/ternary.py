"""Element-wise ops of three tensors, with broadcasting: out[i] = f(self[..], other[..], third[..]).

    aten.clamp.Tensor(self, min, max)                         either bound may be null
    aten.addcmul(self, tensor1, tensor2, value)               self + value * tensor1 * tensor2
    aten.addcdiv(self, tensor1, tensor2, value)               self + value * tensor1 / tensor2
    aten.lerp.Tensor(self, end, weight)                       self + weight * (end - self)

A row has the WGSL formula of `x`, `y`, `z` (vec4s of f32) and `value`, and the NumPy function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.elementwise.binary import broadcast_reading
from webpte.engine.shapes import Dims, broadcast
from webpte.errors import UnsupportedError

Array = np.ndarray


@dataclass(frozen=True)
class Ternary:
    """A single op. `names`: its tensors after the first; `valued`: whether it takes a `value`."""

    name: str
    formula: str
    numpy: Callable[..., Array]
    names: tuple[str, str]
    valued: bool = False
    optional: bool = False

    @property
    def signature(self) -> str:
        kind = "tensor?" if self.optional else "tensor"
        value = ", value: number = 1" if self.valued else ""
        return f"self: tensor, {self.names[0]}: {kind}, {self.names[1]}: {kind}{value} -> tensor"


def np_add_product(x: Array, a: Array, b: Array, value: Array | float) -> Array:
    return x + value * a * b


def np_add_quotient(x: Array, a: Array, b: Array, value: Array | float) -> Array:
    return x + value * a / b


def np_interpolate(start: Array, end: Array, weight: Array) -> Array:
    return np.where(
        np.abs(weight) < 0.5,
        start + weight * (end - start),
        end - (end - start) * (1 - weight),
    )


def np_bounded(x: Array, low: Array | None, high: Array | None) -> Array:
    """Clamp `x`; the upper bound wins, and a NaN anywhere stays."""
    raised = x if low is None else np.maximum(x, low)
    return raised if high is None else np.minimum(raised, high)


RAISED, LOWERED = "larger_vec4f(x, y)", "smaller_vec4f(x, z)"
CLAMP = "aten.clamp.Tensor"
PAIR = ("tensor1", "tensor2")

TERNARY = (
    Ternary(
        CLAMP, "smaller_vec4f(larger_vec4f(x, y), z)", np_bounded, ("min", "max"), optional=True
    ),
    Ternary("aten.addcmul.default", "x + value * y * z", np_add_product, PAIR, valued=True),
    Ternary("aten.addcdiv.default", "x + value * y / z", np_add_quotient, PAIR, valued=True),
    Ternary("aten.lerp.Tensor", "interpolated(x, y, z)", np_interpolate, ("end", "weight")),
)


def operands(op: Ternary, args: Args) -> list[TensorArg | None]:
    return [args.tensor("self"), *(args.optional_tensor(name) for name in op.names)]


def ternary_shape(op: Ternary, args: Args) -> tuple[Dims]:
    return (broadcast(*(tensor.dims for tensor in operands(op, args) if tensor is not None)),)


def formula_of(op: Ternary, given: list[TensorArg | None]) -> str:
    if None not in given:
        return op.formula
    return "x" if given[1] is given[2] else RAISED if given[2] is None else LOWERED


def lower_ternary(op: Ternary, args: Args) -> list[Dispatch]:
    given, out = operands(op, args), args.out
    if out.numel == 0:
        return []
    if not all(tensor.dtype.is_float for tensor in (*filter(None, given), out)):
        raise UnsupportedError(f"{args.call}: its kernel takes and returns floats only")
    x = args.tensor("self")
    tensors = [tensor or x for tensor in given]  # the formula ignores absent operands
    modes, rank, axes = broadcast_reading(args, tensors)
    quads, value = quad_count(out.numel), args.number("value") if op.valued else 1
    return [
        Dispatch(
            kernel="ternary",
            bindings=(*(tensor.id for tensor in tensors), out.id),
            params=pack(f"2If4x{len(axes)}I", quads, rank, float(value), *axes),
            grid=quad_grid(quads),
            types=(
                ("FORMULA", formula_of(op, given)),
                ("OUT", out.dtype.wgsl),
                *zip("XYZ", (tensor.dtype.wgsl for tensor in tensors), strict=True),
            ),
            overrides=tuple(zip(("X_MODE", "Y_MODE", "Z_MODE"), modes, strict=True)),
        )
    ]


def run_ternary(op: Ternary, args: Args) -> Array:
    dtype = args.out.dtype.computed
    arrays = [args.optional_array(name) for name in ("self", *op.names)]
    cast = [None if array is None else array.astype(dtype) for array in arrays]
    with np.errstate(all="ignore"):
        return op.numpy(*cast, *((dtype.type(args.number("value")),) if op.valued else ()))


for _op in TERNARY:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: ternary_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_ternary(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_ternary(op, args),  # type: ignore[misc]
    )
