"""Arguments of XNNPACK's operators on bytes: their checks, and how sums become bytes again.

    v = (sum of (x - x_zero) * (w - weight_zero) + bias) * scale
    out = clamp(round(v) + out_zero, low, high)

x and the weights are int8 or uint8, each for itself, and so is the output; zeros and bounds are of
the range of their tensors. A scale of float32 and a bias of int32 belong to each output channel.
The scale is x_scale * w_scale / out_scale, rounded to float32 as XNNPACK rounds it.

Kernels know signed bytes only: an unsigned one has its highest bit flipped, and is 128 less, as is
its zero. These are XNNPACK's numbers on x86, and on ARM but for uint8 and for depthwise
convolutions with a single scale of their weights, where halves are rounded up.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.int8.int8 import Scaling
from webpte.errors import GraphError, UnsupportedError

REQUANTIZATION = "out_zero: int, low: int, high: int"
BYTES = ("int8", "uint8")


def check_bytes(args: Args, *tensors: TensorArg) -> None:
    """Check that tensors are int8 or uint8."""
    for tensor in tensors:
        if tensor.dtype.name not in BYTES:
            raise UnsupportedError(
                f"{args.call}: value {tensor.id} is {tensor.dtype.name}; int8 and uint8 are known"
            )


def read_zero(args: Args, name: str, tensor: TensorArg) -> int:
    """Read a zero point, which must be in the range of its tensor."""
    zero, limits = args.integer(name), np.iinfo(tensor.dtype.numpy)
    if not limits.min <= zero <= limits.max:
        raise GraphError(f"{args.call}: {name}={zero} is no {tensor.dtype.name}")
    return zero


def read_bounds(args: Args) -> tuple[int, int]:
    """Read the bounds of the output, which must be in the range of its dtype."""
    low, high, limits = args.integer("low"), args.integer("high"), np.iinfo(args.out.dtype.numpy)
    if not limits.min <= low <= high <= limits.max:
        raise GraphError(f"{args.call}: {low} to {high} is not a range of {args.out.dtype.name}")
    return low, high


def read_scale(args: Args, name: str) -> np.float32:
    """Read a scale of a tensor, a positive float32."""
    with np.errstate(over="ignore", under="ignore"):
        scale = np.float32(args.number(name))
    if not (np.isfinite(scale) and scale >= np.finfo(np.float32).smallest_normal):
        raise GraphError(f"{args.call}: {name}={scale} is not a scale")
    return scale


def signed_zero(args: Args, name: str, tensor: TensorArg) -> int:
    """Read the zero point of a tensor after its bytes have been made signed."""
    zero = read_zero(args, name, tensor)
    return zero - 128 if tensor.dtype.name == "uint8" else zero


def read_scaling(args: Args) -> Scaling:
    """Read how sums become bytes, with the zeros that kernels subtract."""
    x, weight, out = args.tensor("x"), args.tensor("weight"), args.out
    check_bytes(args, x, weight, out)
    low, high = read_bounds(args)
    return Scaling(
        x_scale=1,
        x_zero=signed_zero(args, "x_zero", x),
        inverse=1,
        zero=read_zero(args, "out_zero", out),
        low=low,
        high=high,
        weight_zero=signed_zero(args, "weight_zero", weight),
        integer_bias=True,
    )
