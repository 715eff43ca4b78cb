"""Constants of convolutions and linear layers: weights, their scales, biases."""

from __future__ import annotations

import numpy as np

from webpte.engine.dtypes import BFLOAT16, DTYPES
from webpte.engine.format.xnnpack import PerBlockQuant, PerTensorQuant, XnnTensor
from webpte.engine.graph.graph import Constant, Tensor
from webpte.engine.shapes import Dims
from webpte.engine.xnnpack.constants import relaid, widened
from webpte.engine.xnnpack.lowering import Lowering
from webpte.engine.xnnpack.quantized import params
from webpte.errors import GraphError

FLOAT = DTYPES["float32"]


def cast_constant(lowering: Lowering, value: XnnTensor, dtype: str) -> Tensor:
    """Return a constant in another float type, or the tensor of a value that is computed.

    Constants of 32 bits remain so beside bf16: both are stored, and computed with, as float32.
    """
    source = lowering.dtype(value).name
    if not lowering.dtype(value).is_float:
        raise GraphError(f"value {value.id} of {source}, where a float is needed")
    if value.constant is None or source == dtype or (source, dtype) == ("float32", BFLOAT16):
        return lowering.plain(value)
    # row by row, so that no large constant is converted as a whole
    rows, inner = (value.dims[0], value.dims[1:]) if value.dims else (1, ())
    constant = relaid(lowering.constant(value), inner, range(len(inner)), source, dtype, rows)
    return lowering.writer.new_tensor(DTYPES[dtype], value.dims, constant)


def weight_zero(weight: XnnTensor) -> int:
    per = weight.quantization
    return per.zero_point if isinstance(per, PerTensorQuant) else 0


def requantization(
    lowering: Lowering, x: XnnTensor, weight: XnnTensor, out: XnnTensor, channels: int, axis: int
) -> Tensor:
    """Return the factors from sums of products to the numbers of the output, per channel."""
    scales = np.float32(params(x).scale) * lowering.scales(weight, channels, axis)
    factors = scales / np.float32(params(out).scale)
    constant = Constant.in_memory(factors.astype(np.float32))
    return lowering.writer.new_tensor(DTYPES["float32"], (channels,), constant)


def row_scales(lowering: Lowering, weight: XnnTensor) -> Tensor:
    """Return the scales of the rows of weights as a tensor [rows]."""
    rows = weight.dims[0]
    scales = lowering.scales(weight, rows)
    return lowering.writer.new_tensor(FLOAT, (rows,), Constant.in_memory(scales))


def four_bits(lowering: Lowering, weight: XnnTensor) -> tuple[Tensor, Tensor, int]:
    """Return codes [rows, bytes], scales [groups, rows] and the size of a group."""
    rows, inner = weight.dims
    file_bytes = (inner + 1) // 2
    row_bytes = (file_bytes + 3) // 4 * 4
    constant = widened(lowering.constant(weight), rows, file_bytes, row_bytes)
    codes = lowering.writer.new_tensor(DTYPES["uint8"], (rows, row_bytes), constant)
    per = weight.quantization
    if not isinstance(per, PerBlockQuant):
        scales = Constant.in_memory(lowering.scales(weight, rows))
        return codes, lowering.writer.new_tensor(FLOAT, (1, rows), scales), inner
    if per.axis != 0:
        raise GraphError(f"weights with scales along dim {per.axis}")
    groups = inner // per.size
    if groups * per.size != inner:
        raise GraphError(f"weights of {inner} columns in groups of {per.size}")
    transposed = _transposed_scales(lowering, weight, per, (rows, groups))
    return codes, lowering.writer.new_tensor(FLOAT, (groups, rows), transposed), per.size


def _transposed_scales(
    lowering: Lowering, weight: XnnTensor, per: PerBlockQuant, dims: Dims
) -> Constant:
    """Return scales [rows, groups] as float32 [groups, rows].

    XNNPACK's delegate rounds floats to bf16: they are raised by 2**-8, and cut off.
    """
    found, dtype = lowering.block_scales(weight, per)
    if found is not None:
        return relaid(found, dims, (1, 0), dtype, "float32")
    scales = np.array(per.scales, np.float32)
    if scales.size != dims[0] * dims[1]:
        raise GraphError(f"{scales.size} scales for {dims[0]} rows of {dims[1]} groups")
    rounded = (scales * np.float32(1.00389105)).view(np.uint32) & np.uint32(0xFFFF0000)
    return Constant.in_memory(rounded.view(np.float32).reshape(dims).T)
