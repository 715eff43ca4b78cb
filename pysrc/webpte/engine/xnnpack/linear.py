"""Lowering of linear layers, of softmax, and of changes between types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.xnnpack import (
    PerRowQuant,
    PerTensorQuant,
    XnnDataType,
    XnnNode,
    XnnTensor,
)
from webpte.engine.graph.graph import Tensor
from webpte.engine.xnnpack.constants import relaid
from webpte.engine.xnnpack.elementwise import compute_clamped
from webpte.engine.xnnpack.lowering import DynamicRows, Lowering, NodeLowering, OrderedTensor
from webpte.engine.xnnpack.quantized import is_signed, lower_table, params, quantized_limits
from webpte.engine.xnnpack.tables import limits
from webpte.engine.xnnpack.validate import TRANSPOSE_WEIGHTS
from webpte.engine.xnnpack.weights import (
    FLOAT,
    cast_constant,
    four_bits,
    requantization,
    row_scales,
    weight_zero,
)
from webpte.errors import GraphError

# weights [in, out], and a product with the second matrix transposed
TRANSPOSED = TRANSPOSE_WEIGHTS
FOUR_BITS = (XnnDataType.QCINT4, XnnDataType.QBINT4)


def lower_linear(lowering: Lowering, node: XnnNode) -> None:
    x, weight = lowering.value(node, "input1_id"), lowering.value(node, "filter_id")
    bias, out = lowering.optional(node, "bias_id"), lowering.value(node, "output_id")
    if bias is not None and bias.dims not in (out.dims[-1:], (1, *out.dims[-1:])):
        raise GraphError(f"a bias {list(bias.dims)} for {list(out.dims[-1:])} columns")
    if bias is not None and bias.constant is not None:
        bias = replace(bias, dims=out.dims[-1:])
    if len(weight.dims) != 2:
        raise GraphError(f"weights {list(weight.dims)}; they are a matrix")
    columns = weight.dims[1 if node.integers["flags"] & TRANSPOSED else 0]
    lowering.expect(out, (*x.dims[:-1], columns))
    rows = lowering.dynamic.get(x.id)
    if rows is None and x.quantizes_input:
        rows = quantize_rows(lowering, x)
    if isinstance(x.quantization, PerTensorQuant) and rows is None:
        _lower_q8(lowering, node, x, weight, bias, out)
    elif rows is not None:
        _lower_dynamic(lowering, node, rows, weight, bias, out)
    elif weight.quantization is not None:
        _lower_weight_only(lowering, node, x, weight, bias, out)
    else:
        matrix = _float_weights(lowering, node, weight, lowering.dtype(x).name)
        addend = None if bias is None else cast_constant(lowering, bias, lowering.dtype(x).name)
        args = (lowering.plain(x), matrix, addend)
        compute_clamped(lowering, node, out, "aten.linear.default", args)


def _float_weights(lowering: Lowering, node: XnnNode, weight: XnnTensor, dtype: str) -> Tensor:
    """Return weights [out, in] in the dtype of the input."""
    if not node.integers["flags"] & TRANSPOSED:
        return cast_constant(lowering, weight, dtype)
    if weight.constant is None:
        return lowering.held(weight, (1, 0)).tensor
    source = lowering.dtype(weight).name
    constant = relaid(lowering.constant(weight), weight.dims, (1, 0), source, dtype)
    return lowering.writer.new_tensor(DTYPES[dtype], weight.dims[::-1], constant)


def _lower_q8(
    lowering: Lowering,
    node: XnnNode,
    x: XnnTensor,
    weight: XnnTensor,
    bias: XnnTensor | None,
    out: XnnTensor,
) -> None:
    """Append a layer of 8-bit values, which is requantized with XNNPACK's rounding."""
    turned = bool(node.integers["flags"] & TRANSPOSED)
    if weight.datatype in FOUR_BITS or not isinstance(out.quantization, PerTensorQuant):
        lowering.refuse(node, f"of 8 bits with {weight.datatype.name}")
        return
    channels = weight.dims[1] if turned else weight.dims[0]
    matrix = lowering.plain(weight)
    if turned:
        name = lowering.dtype(weight).name
        constant = relaid(lowering.constant(weight), weight.dims, (1, 0), name, name)
        matrix = lowering.writer.new_tensor(lowering.dtype(weight), weight.dims[::-1], constant)
    scale = requantization(lowering, x, weight, out, channels, int(turned))
    lowering.compute(
        out,
        "webpte.q8_linear.default",
        (
            *(lowering.plain(x), params(x).zero_point, matrix, weight_zero(weight), scale),
            None if bias is None else lowering.plain(bias),
            *(params(out).zero_point, *quantized_limits(node, out)),
        ),
    )


def _lower_dynamic(
    lowering: Lowering,
    node: XnnNode,
    rows: DynamicRows,
    weight: XnnTensor,
    bias: XnnTensor | None,
    out: XnnTensor,
) -> None:
    """Append a layer whose input is rounded to int8 in each run, row by row."""
    if node.integers["flags"] & TRANSPOSED:
        lowering.refuse(node, "quantized in each run, with transposed weights")
        return
    x = lowering.plain(rows.source)
    addend = None if bias is None else cast_constant(lowering, bias, "float32")
    args: tuple[Any, ...]
    if weight.datatype in FOUR_BITS:
        codes, scales, group = four_bits(lowering, weight)
        args = (x, rows.inverse, rows.zero, codes, None, scales, group, addend, True)
        name = "et_vk.linear_dq8ca_q4gsw.default"
    elif weight.datatype is XnnDataType.QCINT8:
        scales = row_scales(lowering, weight)
        args = (x, rows.inverse, rows.zero, lowering.plain(weight), scales, addend, True)
        name = "webpte.linear_dq8ca_q8csw.default"
    else:
        lowering.refuse(node, f"quantized in each run, with {weight.datatype.name}")
        return
    wide = lowering.in_float32(out)
    compute_clamped(lowering, node, wide, name, args)
    lowering.cast(wide, out)


def _lower_weight_only(
    lowering: Lowering,
    node: XnnNode,
    x: XnnTensor,
    weight: XnnTensor,
    bias: XnnTensor | None,
    out: XnnTensor,
) -> None:
    """Append a layer of floats with weights of 4 or 8 bits."""
    if weight.datatype in FOUR_BITS and not node.integers["flags"] & TRANSPOSED:
        codes, scales, group = four_bits(lowering, weight)
        addend = None if bias is None else cast_constant(lowering, bias, "float32")
        args = (lowering.plain(x), codes, scales, group, addend)
        compute_clamped(lowering, node, out, "et_vk.linear_q4gsw.default", args)
    elif weight.datatype is XnnDataType.QCINT8 and bias is None:
        args8 = (lowering.plain(x), lowering.plain(weight), row_scales(lowering, weight))
        compute_clamped(lowering, node, out, "aten._weight_int8pack_mm.default", args8)
    else:
        lowering.refuse(node, f"of floats with {weight.datatype.name}")


def lower_softmax(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    if out.quantization is not None:
        lowering.refuse(node, "of 8 bits")
        return
    if not x.dims:
        raise GraphError("softmax of a value without dims")
    held = lowering.held(x)
    lowering.expect(out, x.dims)
    axis = held.order.index(len(x.dims) - 1)
    lowering.compute(out, "aten._softmax.default", (held.tensor, axis, False), held.order)


def lower_convert(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    if isinstance(out.quantization, PerRowQuant):
        lowering.dynamic[out.id] = quantize_rows(lowering, x, out.quantization.dims)
        return
    held = lowering.held(x)
    lowering.expect(out, x.dims)
    if isinstance(x.quantization, PerTensorQuant) and isinstance(out.quantization, PerTensorQuant):
        if (x.quantization, x.datatype) == (out.quantization, out.datatype):
            lowering.give(out, OrderedTensor(held.tensor, held.order))
        else:
            lower_table(lowering, node, x, out)
        return
    quantized = out if isinstance(out.quantization, PerTensorQuant) else x
    if quantized.quantization is None:
        if out.datatype is XnnDataType.INT32 and x.datatype is not XnnDataType.INT32:
            lowering.refuse(node, "of floats to integers")
            return
        lowering.compute(out, "aten._to_copy.default", (held.tensor,), held.order)
        return
    per, ends = params(quantized), limits(is_signed(quantized))
    name = "dequantize" if quantized is x else "quantize"
    args = (held.tensor, per.scale, per.zero_point, *ends, None)
    lowering.compute(out, f"quantized_decomposed.{name}_per_tensor.default", args, held.order)


def quantize_rows(lowering: Lowering, source: XnnTensor, dims: int = 1) -> DynamicRows:
    """Append the computation of the inverse scales and the zeros of the rows of a value."""
    if not 1 <= dims <= len(source.dims):
        raise GraphError(f"rows of {dims} dims of {len(source.dims)}")
    given, source = source, lowering.in_float32(source)
    lowering.cast(given, source)
    held = lowering.held(source)
    apart = held.order[: len(source.dims) - dims] == tuple(range(len(source.dims) - dims))
    x = held.tensor if apart else lowering.plain(source)
    outer = x.dims[: len(x.dims) - dims]
    inverse = lowering.writer.new_tensor(FLOAT, (*outer, *(1,) * dims))
    zero = lowering.writer.new_tensor(DTYPES["int8"], (*outer, *(1,) * dims))
    lowering.writer.call("webpte.choose_qparams_qd8.default", (x, dims), (inverse, zero))
    return DynamicRows(source, inverse, zero)


NODES: dict[str, NodeLowering] = {
    "FullyConnected": lower_linear,
    "Softmax": lower_softmax,
    "Convert": lower_convert,
}
