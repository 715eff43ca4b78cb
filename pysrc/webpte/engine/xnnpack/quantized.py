"""Lowering of 8-bit nodes, with XNNPACK's own numbers."""

from __future__ import annotations

import math

import numpy as np

from webpte.engine.format.xnnpack import PerTensorQuant, XnnDataType, XnnNode, XnnTensor
from webpte.engine.graph.graph import Constant, Tensor
from webpte.engine.xnnpack.lowering import Lowering, Order
from webpte.engine.xnnpack.tables import (
    limits,
    quantized_bound,
    requantize_table,
    unary_table,
)
from webpte.errors import GraphError

BINARY = {
    "Add": "webpte.q8_add.default",
    "Subtract": "webpte.q8_sub.default",
    "Multiply": "webpte.q8_mul.default",
}


def params(value: XnnTensor) -> PerTensorQuant:
    """Return the scale and the zero point of an 8-bit value."""
    if not isinstance(value.quantization, PerTensorQuant):
        raise GraphError(f"value {value.id} has no scale and zero point of its own")
    if not (0 < value.quantization.scale < math.inf):
        raise GraphError(f"value {value.id}: a scale of {value.quantization.scale}")
    return value.quantization


def is_signed(value: XnnTensor) -> bool:
    return value.datatype is not XnnDataType.QUINT8


def quantized_limits(node: XnnNode, out: XnnTensor) -> tuple[int, int]:
    """Return the least and the largest number of an output, with its zero point."""
    signed = is_signed(out)
    if node.clamp is None:
        return limits(signed)
    scale, zero = params(out).scale, params(out).zero_point
    low, high = (quantized_bound(limit, scale, zero, signed) for limit in node.clamp)
    return low, high


def quantized_binary(
    lowering: Lowering,
    node: XnnNode,
    a: tuple[XnnTensor, Tensor],
    b: tuple[XnnTensor, Tensor],
    out: XnnTensor,
    order: Order,
) -> None:
    """Append a sum, difference or product of 8-bit values."""
    if node.kind not in BINARY:
        lowering.refuse(node, "of 8 bits")
        return
    left, right, made = params(a[0]), params(b[0]), params(out)
    args = (a[1], b[1], left.scale, left.zero_point, right.scale, right.zero_point)
    ends = (made.scale, made.zero_point, *quantized_limits(node, out))
    lowering.compute(out, BINARY[node.kind], (*args, *ends), order)


def lower_table(lowering: Lowering, node: XnnNode, x: XnnTensor, out: XnnTensor) -> None:
    """Append an elementwise node of 8 bits, as a table of its 256 results."""
    table = node_table(node, x, out)
    if table is None:
        lowering.refuse(node, "of 8 bits")
        return
    held = lowering.held(x)
    entries = lowering.writer.new_tensor(lowering.dtype(out), (256,), Constant.in_memory(table))
    lowering.compute(out, "webpte.q8_table.default", (held.tensor, entries), held.order)


# Names of elementwise nodes in the tables.
FUNCTIONS = {
    **{name: name.lower() for name in ("Abs", "Ceiling", "Copy", "Cos", "ELU", "Exp", "Floor")},
    **{name: name.lower() for name in ("Gelu", "Hardswish", "Log", "Negate", "Sigmoid", "Sin")},
    **{name: name.lower() for name in ("Clamp", "Square", "Tanh")},
    "LeakyReLU": "leaky_relu",
    "ReciprocalSquareRoot": "reciprocal_square_root",
    "SquareRoot": "square_root",
}


def node_table(node: XnnNode, x: XnnTensor, out: XnnTensor) -> np.ndarray | None:
    """Return the results of a node by the byte of its input, or None for an unknown node."""
    given, made, signed = params(x), params(out), is_signed(x)
    ends = (given.scale, given.zero_point, signed, made.scale, made.zero_point)
    if node.kind == "Convert":
        return requantize_table(*ends, is_signed(out))
    if node.kind not in FUNCTIONS or is_signed(out) != signed:
        return None
    low, high = node.clamp or (-math.inf, math.inf)
    alpha = node.numbers.get("alpha", node.numbers.get("negative_slope", 1.0))
    return unary_table(FUNCTIONS[node.kind], *ends, alpha=alpha, low=low, high=high)
