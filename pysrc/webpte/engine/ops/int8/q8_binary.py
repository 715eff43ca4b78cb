"""Element-wise operators of XNNPACK on two tensors of bytes, with NumPy's broadcasting.

    q8_add, q8_sub   a and b times a_scale / out_scale and b_scale / out_scale, as integers with the
                     same shift, of which the larger has 21 bits; halves of the sum are rounded up
    q8_mul           the product times a_scale * b_scale / out_scale, rounded half to even

The result has out_zero added, and stays in low to high. Tensors are int8 or uint8, each for itself.
On ARM XNNPACK rounds halves of q8_mul up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import pack_axes, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.q8 import (
    REQUANTIZATION,
    check_bytes,
    read_bounds,
    read_scale,
    read_zero,
)
from webpte.engine.shapes import Dims, broadcast, broadcast_strides, collapse
from webpte.errors import UnsupportedError

Array = np.ndarray

SIGNATURE = (
    "a: tensor, b: tensor, a_scale: number, a_zero: int, b_scale: number, b_zero: int, "
    f"out_scale: number, {REQUANTIZATION} -> tensor"
)
# Ratios of scales that 32-bit sums hold.
SMALLEST, LARGEST = 2.0**-10, 2.0**8
FACTOR_BITS = 20


@dataclass(frozen=True)
class ByteBinary:
    """A single op; `sign` is the sign of b in a sum, and 0 for a product."""

    name: str
    sign: int

    @property
    def formula(self) -> str:
        return "weighted(x, y)" if self.sign else "product(x, y)"


BINARY = (ByteBinary("q8_add", 1), ByteBinary("q8_sub", -1), ByteBinary("q8_mul", 0))


@dataclass(frozen=True)
class Factors:
    """Numbers of a call: integers for sums, a scale for products."""

    a: int = 0
    b: int = 0
    shift: int = 1
    scale: float = 0


def read_factors(op: ByteBinary, args: Args) -> Factors:
    a, b, out = (read_scale(args, name) for name in ("a_scale", "b_scale", "out_scale"))
    with np.errstate(over="ignore", under="ignore"):
        ratios = (a / out, b / out) if op.sign else (a * b / out,)
    largest = max(ratios)
    if not (SMALLEST if op.sign else 0) <= largest < LARGEST:
        raise UnsupportedError(
            f"{args.call}: scales {a}, {b} and {out} are too far apart: a ratio of {largest:g}"
        )
    if not op.sign:
        return Factors(scale=float(largest))
    shift = FACTOR_BITS + 1 - math.frexp(float(largest))[1]
    # A power of two times a float32 is exact; rint rounds halves to even.
    first, second = (int(np.rint(math.ldexp(float(ratio), shift))) for ratio in ratios)
    return Factors(first, op.sign * second, shift)


def binary_shape(op: ByteBinary, args: Args) -> tuple[Dims]:
    a, b = args.tensor("a"), args.tensor("b")
    check_bytes(args, a, b, args.out)
    read_bounds(args)
    read_factors(op, args)
    return (broadcast(a.dims, b.dims),)


def is_flat(tensor: TensorArg, dims: Dims, strides: Dims) -> bool:
    """Return whether a tensor has the layout of the output."""
    _, (steps,) = collapse(dims, strides)
    return steps in ((), (1,)) and tensor.numel == math.prod(dims)


def lower_binary(op: ByteBinary, args: Args) -> list[Dispatch]:
    out, factors = args.out, read_factors(op, args)
    if out.numel == 0:
        return []
    a, b = args.tensor("a"), args.tensor("b")
    strides = [broadcast_strides(tensor.dims, out.dims) for tensor in (a, b)]
    flat = [is_flat(t, out.dims, s) for t, s in zip((a, b), strides, strict=True)]
    # Flat operands ignore the axes; zeros keep equal params equal.
    rank, axes = pack_axes(args, *(((),) if all(flat) else (out.dims, *strides)))
    words = quad_count(out.numel)
    types = [tensor.dtype.name == "uint8" for tensor in (a, b)]
    return [
        Dispatch(
            kernel="q8_binary",
            bindings=(a.id, b.id, out.id),
            params=pack(
                f"2I4iIf3i4x{len(axes)}I",
                *(words, rank, read_zero(args, "a_zero", a), read_zero(args, "b_zero", b)),
                *(factors.a, factors.b, factors.shift, factors.scale),
                *(read_zero(args, "out_zero", out), *read_bounds(args)),
                *axes,
            ),
            grid=quad_grid(words),
            types=(("FORMULA", op.formula),),
            overrides=(
                ("HAS_Y", True),
                *(("X_FLAT", flat[0]), ("X_UNSIGNED", types[0])),
                *(("Y_FLAT", flat[1]), ("Y_UNSIGNED", types[1])),
            ),
        )
    ]


def run_binary(op: ByteBinary, args: Args) -> Array:
    factors, out = read_factors(op, args), args.out
    a, b = (
        args.array(name).astype(np.int64) - read_zero(args, f"{name}_zero", args.tensor(name))
        for name in ("a", "b")
    )
    if op.sign:
        half = 1 << (factors.shift - 1)
        result = (a * factors.a + b * factors.b + half) >> factors.shift
    else:
        result = np.rint((a * b).astype(np.float32) * np.float32(factors.scale)).astype(np.int64)
    shifted = result + read_zero(args, "out_zero", out)
    return np.clip(shifted, *read_bounds(args)).astype(out.dtype.numpy)


for _op in BINARY:
    register(
        f"webpte.{_op.name}.default",
        SIGNATURE,
        shape=lambda args, op=_op: binary_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_binary(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_binary(op, args),  # type: ignore[misc]
    )
