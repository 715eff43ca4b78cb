"""Lowering of 8-bit nodes, with XNNPACK's own numbers."""

from __future__ import annotations

import math

import numpy as np

from webpte.engine.format.xnnpack import PerTensorQuant, XnnDataType, XnnNode, XnnTensor
from webpte.engine.graph.graph import Tensor
from webpte.engine.xnnpack.constants import in_memory
from webpte.engine.xnnpack.lowering import Lowering, Order
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
    least, most = (-128, 127) if is_signed(out) else (0, 255)
    if node.clamp is None:
        return least, most
    scale, zero = np.float32(params(out).scale), params(out).zero_point

    def rounded(limit: float) -> int:
        if math.isinf(limit) or math.isnan(limit):
            return most if limit > 0 else least
        return int(np.clip(np.rint(np.float32(limit) / scale) + zero, least, most))

    return rounded(node.clamp[0]), rounded(node.clamp[1])


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
    entries = lowering.writer.new_tensor(lowering.dtype(out), (256,), in_memory(table))
    lowering.compute(out, "webpte.q8_table.default", (held.tensor, entries), held.order)


def node_table(node: XnnNode, x: XnnTensor, out: XnnTensor) -> np.ndarray | None:
    """Return the results of a node by the byte of its input, or None for an unknown node."""
    return None
