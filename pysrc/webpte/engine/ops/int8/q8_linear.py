"""Linear layers of XNNPACK on bytes, and with weights of bytes: x [.., K] @ W^T, W [N, K].

    q8_linear            x, W and the output are int8 or uint8; q8.py has the numbers
    linear_dq8ca_q8csw   x is rounded to int8 first, with a scale and a zero per row:
                         q = clamp(round(x * (1 / x_scale)) + x_zero, -128, 127)
                         out = (sum of (q - x_zero) * w) * x_scale * scales[n] + bias[n]
                         with `inverted`, the inverse of each scale is given

The kernels are the same as in q8ta_linear.py.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.int8 import PerChannel, Scaling, check_int8
from webpte.engine.ops.int8.q8 import REQUANTIZATION, check_bytes, read_scaling
from webpte.engine.ops.int8.q8_conv import OPERANDS, signed
from webpte.engine.ops.int8.q8ta_linear import LinearQ8, check_weights, lower_linear
from webpte.engine.ops.quant.quantize import RowParams, np_quantize, quantize_rows, scale_pair
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

LINEAR = f"{OPERANDS}, {REQUANTIZATION} -> tensor"
DYNAMIC = (
    "x: tensor, x_scale: tensor, x_zero: tensor, weight: tensor, scales: tensor, "
    "bias: tensor? = None, inverted: bool = False -> tensor"
)


def out_dims(linear: LinearQ8) -> tuple[Dims]:
    return ((*linear.x.dims[:-1], linear.n),)


# Bytes


def read_call(args: Args) -> LinearQ8:
    x, weight = args.tensor("x"), args.tensor("weight")
    check_bytes(args, x, weight)
    weights = PerChannel(weight, args.tensor("scale"), args.optional_tensor("bias"), True)
    check_weights(args, weights)
    return LinearQ8(x, weights, read_scaling(args))


def run_linear(args: Args) -> Array:
    linear, scaling = read_call(args), read_call(args).scaling
    x = signed(args.array("x"), linear.x) - scaling.x_zero
    weight = signed(args.array("weight"), linear.weight) - scaling.weight_zero
    scale, bias = args.array("scale")[: linear.n], args.optional_array("bias")
    sums = x @ weight[:, : linear.k].T
    result = scaling.result(sums, scale, None if bias is None else bias[: linear.n])
    return result.astype(args.out.dtype.numpy)


register(
    "webpte.q8_linear.default",
    LINEAR,
    shape=lambda args: out_dims(read_call(args)),
    lower=lambda args: lower_linear(args, read_call(args)),
    reference=run_linear,
)


# Floats


def read_dynamic(args: Args) -> LinearQ8:
    x, weight = args.tensor("x"), args.tensor("weight")
    scale, zero = args.tensor("x_scale"), args.tensor("x_zero")
    check_int8(args, weight)
    if not x.dtype.is_float or not args.out.dtype.is_float or not scale.dtype.is_float:
        raise UnsupportedError(f"{args.call}: x, its scales and the output are floats")
    weights = PerChannel(weight, args.tensor("scales"), args.optional_tensor("bias"))
    check_weights(args, weights)
    rows = RowParams(scale, zero, args.flag("inverted"))
    # Rows of x have no padding, and neither have the rows of bytes.
    memory = Scratch("int8 rows", max(16, 1 << (max(x.numel, 1) - 1).bit_length()))
    linear = LinearQ8(x, weights, Scaling(1, 0), rows, memory)
    if scale.numel != linear.m or zero.numel != linear.m:
        raise GraphError(
            f"{args.call}: {scale.numel} scales and {zero.numel} zeros for {linear.m} rows of x"
        )
    return linear


def lower_dynamic(args: Args) -> list[Dispatch]:
    linear = read_dynamic(args)
    dispatches = lower_linear(args, linear)
    if not dispatches or linear.k == 0:
        return dispatches
    assert linear.rows is not None
    assert linear.quantized is not None
    return [quantize_rows(linear.x, linear.rows, linear.quantized), *dispatches]


def run_dynamic(args: Args) -> Array:
    linear, x = read_dynamic(args), args.array("x")
    given, zero = (args.array(name).reshape(-1, 1) for name in ("x_scale", "x_zero"))
    scale, inverse = scale_pair(given, args.flag("inverted"))
    quantized = np_quantize(x.reshape(linear.m, linear.k), inverse, zero, (-128, 127))
    weight = args.array("weight")[:, : linear.k].astype(np.float64)
    sums = (quantized - zero.astype(np.float64)) @ weight.T
    result = sums * scale * args.array("scales")[: linear.n].astype(np.float64)
    if (bias := args.optional_array("bias")) is not None:
        result = result + bias[: linear.n]
    return result.reshape(args.out.dims).astype(args.out.dtype.numpy)


register(
    "webpte.linear_dq8ca_q8csw.default",
    DYNAMIC,
    shape=lambda args: out_dims(read_dynamic(args)),
    lower=lower_dynamic,
    reference=run_dynamic,
)
