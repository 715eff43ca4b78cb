"""Convolutions of XNNPACK on bytes, in two spatial dims; q8.py has the numbers.

    x [B, C, H, W] -> out [B, O, OH, OW]
    weights [O, KH, KW, C/groups]; depthwise [1, KH, KW, O]
    scale float32 [O], bias int32 [O]
    padding [top, left, bottom, right], of places that hold x's zero

A transposed convolution crops by its padding, and is larger by its output padding at the bottom and
the right. The kernels are the same as in q8ta_conv.py; weights with a zero go to the direct kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.ops.conv.conv import Pair, spatial
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.int8 import PerChannel, check_per_channel
from webpte.engine.ops.int8.q8 import REQUANTIZATION, check_bytes, read_scaling
from webpte.engine.ops.int8.q8ta_conv import (
    Int8Convolution,
    convolve,
    lower_conv,
    read_geometry,
    read_groups,
)
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

OPERANDS = "x: tensor, x_zero: int, weight: tensor, weight_zero: int, scale: tensor, bias: tensor?"
CONV = (
    f"{OPERANDS}, {REQUANTIZATION}, kernel_size: ints, stride: ints, padding: ints, "
    "dilation: ints, groups: int, depthwise: bool -> tensor"
)
TRANSPOSED = (
    f"{OPERANDS}, {REQUANTIZATION}, kernel_size: ints, stride: ints, padding: ints, "
    "output_padding: ints, dilation: ints, groups: int -> tensor"
)


@dataclass(frozen=True)
class Margins:
    """Padding at the four sides; a transposed convolution loses as much."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def sums(self) -> Pair:
        return Pair(self.top + self.bottom, self.left + self.right)


def read_margins(args: Args) -> Margins:
    items = args.integers("padding")
    if len(items) != 4 or min(items) < 0:
        raise GraphError(f"{args.call}: padding {items} is not [top, left, bottom, right]")
    return Margins(*items)


def out_channels(args: Args, kernel: Pair, depthwise: bool) -> int:
    """Return the channels of the output, after checking the weights."""
    x, weight, groups = args.tensor("x"), args.tensor("weight"), read_groups(args)
    channels = x.dims[1]
    if depthwise and channels != groups:
        raise GraphError(f"{args.call}: {channels} channels in {groups} groups")
    outs = weight.dims[3 if depthwise else 0] if weight.rank == 4 else 0
    dims = (1, *kernel, outs) if depthwise else (outs, *kernel, channels // groups)
    if outs == 0 or outs % groups or weight.dims != dims:
        raise GraphError(
            f"{args.call}: weights {list(weight.dims)} for a kernel of {list(kernel)} "
            f"do not fit an input {list(x.dims)} in {groups} groups"
        )
    return outs


def read_call(args: Args, transposed: bool) -> Int8Convolution:
    x, weight = args.tensor("x"), args.tensor("weight")
    kernel, margins = spatial(args, "kernel_size", 2), read_margins(args)
    depthwise = not transposed and args.flag("depthwise")
    check_bytes(args, x, weight)
    channels = out_channels(args, kernel, depthwise)
    corner = Pair(margins.top, margins.left)
    conv = read_geometry(args, channels, corner, transposed, margins.sums)
    weights = PerChannel(weight, args.tensor("scale"), args.optional_tensor("bias"), True)
    check_per_channel(args, "scale", weights.scales, channels)
    check_per_channel(args, "bias", weights.bias, channels, integers=True)
    rows = (1, channels) if depthwise else (math.prod(weight.dims[1:]), conv.in_channels)
    return Int8Convolution(conv, read_scaling(args), weights, *rows, channels, depthwise)


def conv_shape(args: Args, transposed: bool) -> tuple[Dims]:
    conv = read_call(args, transposed).conv
    return ((conv.batch, conv.groups * conv.out_channels, *conv.out_size),)


# NumPy


def signed(array: Array, tensor: TensorArg) -> Array:
    """Return bytes as kernels see them."""
    return array.astype(np.float64) - (128 if tensor.dtype.name == "uint8" else 0)


def run_conv(args: Args, transposed: bool) -> Array:
    """Convolve with the float convolution's reference: float64 holds every sum exactly."""
    call, margins = read_call(args, transposed), read_margins(args)
    conv, scaling, weight = call.conv, call.scaling, args.tensor("weight")
    channels = conv.groups * conv.out_channels
    x = signed(args.array("x"), args.tensor("x")) - scaling.x_zero
    if not transposed:
        x = np.pad(
            x, ((0, 0), (0, 0), *((margins.top, margins.bottom),), (margins.left, margins.right))
        )
        conv = replace(conv, in_size=Pair(*x.shape[2:]), padding=Pair(0, 0))
    filters = signed(args.array("weight"), weight) - scaling.weight_zero
    matrix = filters.reshape(-1, channels).T if call.depthwise else filters.reshape(channels, -1)
    sums = convolve(conv, x, matrix).reshape(args.out.dims)
    bias = args.optional_array("bias")
    scale, offset = (
        None if numbers is None else numbers[:channels, None, None]
        for numbers in (args.array("scale"), bias)
    )
    assert scale is not None
    return scaling.result(sums, scale, offset).astype(args.out.dtype.numpy)


for _name, _signature in (("q8_conv", CONV), ("q8_conv_transposed", TRANSPOSED)):
    _transposed = _signature == TRANSPOSED
    register(
        f"webpte.{_name}.default",
        _signature,
        shape=lambda args, transposed=_transposed: conv_shape(args, transposed),  # type: ignore[misc]
        lower=lambda args, transposed=_transposed: lower_conv(  # type: ignore[misc]
            args, read_call(args, transposed)
        ),
        reference=lambda args, transposed=_transposed: run_conv(args, transposed),  # type: ignore[misc]
    )
