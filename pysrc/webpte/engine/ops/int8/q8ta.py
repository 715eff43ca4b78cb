"""Element-wise ops from int8 to int8: floats in between, out = requantize(f((x - zero) * scale)).

q8ta_add             a + alpha * b, with NumPy's broadcasting; add_q8ta_q8ta_q8to in 1.1
q8ta_relu            max(x, 0)
q8ta_pixel_shuffle   [.., C r r, H, W] -> [.., C, H r, W r]; it gets the inverse of its scale
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import pack_axes, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.int8 import check_int8
from webpte.engine.ops.quant.quantize import inverse_of, np_dequantize, np_requantize
from webpte.engine.shapes import (
    Dims,
    broadcast,
    broadcast_strides,
    collapse,
    contiguous_strides,
    numel,
)
from webpte.errors import GraphError

Array = np.ndarray

ADD = (
    "x: tensor, y: tensor, x_scale: number, x_zero: int, y_scale: number, y_zero: int, "
    "out_scale: number, out_zero: int, alpha: number -> tensor"
)
RELU = "x: tensor, x_scale: number, x_zero: int, out_scale: number, out_zero: int -> tensor"
PIXEL_SHUFFLE = (
    "x: tensor, x_scale: number, x_zero: int, out_inverse: number, out_zero: int, factor: int "
    "-> tensor"
)


@dataclass(frozen=True)
class QuantizedOperand:
    """A tensor with its scale and zero, and its strides along the dims of the output."""

    tensor: TensorArg
    scale: float
    zero: int
    dims: Dims  # dims of the output
    strides: Dims

    @property
    def flat(self) -> bool:
        _, (steps,) = collapse(self.dims, self.strides)
        return steps in ((), (1,)) and self.tensor.numel == numel(self.dims)


def operand(args: Args, name: str, dims: Dims, strides: Dims) -> QuantizedOperand:
    tensor, zero = args.tensor(name), args.integer(f"{name}_zero")
    return QuantizedOperand(tensor, args.number(f"{name}_scale"), zero, dims, strides)


def lower(
    args: Args, formula: str, operands: list[QuantizedOperand], inverse: float, alpha: float = 0
) -> list[Dispatch]:
    """Return a dispatch over all words of the output; `formula` uses the floats x and y."""
    out = args.out
    if out.numel == 0:
        return []
    x, y = operands[0], operands[-1]
    flat = all(operand.flat for operand in operands)
    # Flat operands ignore the axes; zeros keep equal params equal.
    rank, axes = pack_axes(args, *(((),) if flat else (x.dims, x.strides, y.strides)))
    words = quad_count(out.numel)
    return [
        Dispatch(
            kernel="q8ta",
            bindings=(x.tensor.id, y.tensor.id if len(operands) > 1 else None, out.id),
            params=pack(
                f"2I7fI8x{len(axes)}I",
                *(words, rank, x.scale, x.zero, y.scale, y.zero),
                *(inverse, args.integer("out_zero"), alpha, 0),
                *axes,
            ),
            grid=quad_grid(words),
            types=(("FORMULA", formula),),
            overrides=(("HAS_Y", len(operands) > 1), ("X_FLAT", x.flat), ("Y_FLAT", y.flat)),
        )
    ]


def floats(args: Args, name: str) -> Array:
    return np_dequantize(
        args.array(name), args.number(f"{name}_scale"), args.integer(f"{name}_zero")
    )


# Addition


def add_shape(args: Args) -> tuple[Dims]:
    check_int8(args, args.tensor("x"), args.tensor("y"), args.out)
    return (broadcast(args.tensor("x").dims, args.tensor("y").dims),)


def lower_add(args: Args) -> list[Dispatch]:
    (dims,) = add_shape(args)
    operands = [
        operand(args, name, dims, broadcast_strides(args.tensor(name).dims, dims))
        for name in ("x", "y")
    ]
    inverse = inverse_of(args, args.number("out_scale"))
    return lower(
        args, "alone(x) + alone(params.alpha * y)", operands, inverse, args.number("alpha")
    )


def run_add(args: Args) -> Array:
    total = floats(args, "x") + np.float32(args.number("alpha")) * floats(args, "y")
    return np_requantize(
        total, inverse_of(args, args.number("out_scale")), args.integer("out_zero")
    )


# Relu


def relu_shape(args: Args) -> tuple[Dims]:
    check_int8(args, args.tensor("x"), args.out)
    return (args.tensor("x").dims,)


def lower_relu(args: Args) -> list[Dispatch]:
    dims = args.tensor("x").dims
    x = operand(args, "x", dims, contiguous_strides(dims))
    return lower(args, "max(x, vec4<f32>())", [x], inverse_of(args, args.number("out_scale")))


def run_relu(args: Args) -> Array:
    positive = np.maximum(floats(args, "x"), np.float32(0))
    return np_requantize(
        positive, inverse_of(args, args.number("out_scale")), args.integer("out_zero")
    )


# Pixel shuffle


def shuffled(args: Args) -> tuple[Dims, int]:
    """Return the dims (.., C, r, r, H, W) of the input, and r."""
    dims, factor = args.tensor("x").dims, args.integer("factor")
    if len(dims) < 3 or factor < 1 or dims[-3] % (factor * factor):
        raise GraphError(f"{args.call}: {list(dims)} cannot be shuffled by {factor}")
    channels = dims[-3] // (factor * factor)
    return (*dims[:-3], channels, factor, factor, *dims[-2:]), factor


def shuffle_shape(args: Args) -> tuple[Dims]:
    check_int8(args, args.tensor("x"), args.out)
    (*lead, channels, _, _, height, width), factor = shuffled(args)
    return ((*lead, channels, height * factor, width * factor),)


def shuffle_order(rank: int) -> list[int]:
    """Return the permutation from (.., C, r, r, H, W) to (.., C, H, r, W, r)."""
    first = rank - 4
    return [*range(first), first + 2, first, first + 3, first + 1]


def lower_shuffle(args: Args) -> list[Dispatch]:
    dims, _ = shuffled(args)
    strides, order = contiguous_strides(dims), shuffle_order(len(dims))
    x = operand(args, "x", tuple(dims[i] for i in order), tuple(strides[i] for i in order))
    return lower(args, "x", [x], float(np.float32(args.number("out_inverse"))))


def run_shuffle(args: Args) -> Array:
    dims, _ = shuffled(args)
    moved = floats(args, "x").reshape(dims).transpose(shuffle_order(len(dims)))
    inverse, zero = args.number("out_inverse"), args.integer("out_zero")
    return np_requantize(moved.reshape(shuffle_shape(args)[0]), inverse, zero)


for _name in ("et_vk.q8ta_add.default", "et_vk.add_q8ta_q8ta_q8to.default"):
    register(_name, ADD, shape=add_shape, lower=lower_add, reference=run_add)
register("et_vk.q8ta_relu.default", RELU, shape=relu_shape, lower=lower_relu, reference=run_relu)
register(
    "et_vk.q8ta_pixel_shuffle.default",
    PIXEL_SHUFFLE,
    shape=shuffle_shape,
    lower=lower_shuffle,
    reference=run_shuffle,
)
