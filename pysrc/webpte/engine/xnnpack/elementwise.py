"""Lowering of elementwise nodes, which keep the order in which their inputs are held."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webpte.engine.format.xnnpack import PerTensorQuant, XnnNode, XnnTensor
from webpte.engine.graph.graph import Tensor
from webpte.engine.shapes import broadcast as broadcast_dims
from webpte.engine.xnnpack.lowering import Lowering, NodeLowering, Order
from webpte.engine.xnnpack.quantized import lower_table, quantized_binary

# Operators of the nodes with an input and an output, and their further arguments.
UNARY: dict[str, tuple[str, Callable[[XnnNode], tuple[Any, ...]]]] = {
    "Abs": ("aten.abs.default", lambda node: ()),
    "Ceiling": ("aten.ceil.default", lambda node: ()),
    "Copy": ("aten.alias_copy.default", lambda node: ()),
    "Cos": ("aten.cos.default", lambda node: ()),
    "ELU": ("aten.elu.default", lambda node: (node.numbers["alpha"],)),
    "Exp": ("aten.exp.default", lambda node: ()),
    "Floor": ("aten.floor.default", lambda node: ()),
    "Gelu": ("aten.gelu.default", lambda node: ()),
    "Hardswish": ("aten.hardswish.default", lambda node: ()),
    "LeakyReLU": ("aten.leaky_relu.default", lambda node: (node.numbers["negative_slope"],)),
    "Log": ("aten.log.default", lambda node: ()),
    "Negate": ("aten.neg.default", lambda node: ()),
    "ReciprocalSquareRoot": ("aten.rsqrt.default", lambda node: ()),
    "Sigmoid": ("aten.sigmoid.default", lambda node: ()),
    "Sin": ("aten.sin.default", lambda node: ()),
    "Square": ("aten.square.default", lambda node: ()),
    "SquareRoot": ("aten.sqrt.default", lambda node: ()),
    "Tanh": ("aten.tanh.default", lambda node: ()),
}

BINARY = {
    "Add": "aten.add.Tensor",
    "Div": "aten.div.Tensor",
    "Maximum": "aten.maximum.default",
    "Minimum": "aten.minimum.default",
    "Multiply": "aten.mul.Tensor",
    "PReLU": "webpte.prelu.default",
    "Subtract": "aten.sub.Tensor",
}
UNCLAMPED = ("Maximum", "Minimum", "PReLU")  # whose limits XNNPACK's delegate does not read


def lower_unary(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    held = lowering.held(x)
    lowering.expect(out, x.dims)
    moves = node.kind == "Copy" and x.quantization == out.quantization
    if isinstance(out.quantization, PerTensorQuant) and not moves:
        lower_table(lowering, node, x, out)
        return
    name, arguments = UNARY[node.kind]
    lowering.compute(out, name, (held.tensor, *arguments(node)), held.order)


def lower_clamp(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    if isinstance(out.quantization, PerTensorQuant):
        lower_table(lowering, node, x, out)
        return
    held = lowering.held(x)
    lowering.expect(out, x.dims)
    made = lowering.new(out, held.order)
    clamp(lowering, node, held.tensor, made.tensor)
    lowering.give(out, made)


def clamp(lowering: Lowering, node: XnnNode, x: Tensor, out: Tensor) -> None:
    """Append the call that holds results between the limits of a node."""
    least, most = limits(node)
    if (least, most) == (0, math.inf):
        lowering.writer.call("aten.relu.default", (x,), out)
        return
    ends = [None if math.isinf(limit) else limit for limit in (least, most)]
    if ends == [None, None]:
        lowering.writer.call("aten.alias_copy.default", (x,), out)
    else:
        lowering.writer.call("aten.clamp.default", (x, *ends), out)


def limits(node: XnnNode) -> tuple[float, float]:
    """Return the least and the largest output of a node."""
    return node.clamp or (-math.inf, math.inf)


def compute_clamped(
    lowering: Lowering,
    node: XnnNode,
    out: XnnTensor,
    name: str,
    args: tuple[Any, ...],
    order: Order | None = None,
) -> None:
    """Append a call that computes a value, and the call that clamps its results, if any."""
    if all(map(math.isinf, limits(node))):
        lowering.compute(out, name, args, order)
        return
    made = lowering.new(out, order)
    free = lowering.writer.new_tensor(made.tensor.dtype, made.tensor.dims)
    lowering.writer.call(name, args, free)
    clamp(lowering, node, free, made.tensor)
    lowering.give(out, made)


def lower_binary(lowering: Lowering, node: XnnNode) -> None:
    a, b = lowering.value(node, "input1_id"), lowering.value(node, "input2_id")
    out = lowering.value(node, "output_id")
    lowering.expect(out, broadcast_dims(a.dims, b.dims))
    order = common_order(lowering, (a, b), len(out.dims))
    left, right = (broadcast(lowering, value, order) for value in (a, b))
    if isinstance(out.quantization, PerTensorQuant):
        quantized_binary(lowering, node, (a, left), (b, right), out, order)
        return
    if node.kind in UNCLAMPED:
        lowering.compute(out, BINARY[node.kind], (left, right), order)
        return
    compute_clamped(lowering, node, out, BINARY[node.kind], (left, right), order)


def common_order(lowering: Lowering, values: tuple[XnnTensor, ...], rank: int) -> Order:
    """Return the order of the largest value that has all dims, so that little is permuted."""
    whole = [value for value in values if len(value.dims) == rank and value.constant is None]
    if not whole:
        return tuple(range(rank))
    return lowering.held(max(whole, key=lambda value: math.prod(value.dims))).order


def broadcast(lowering: Lowering, value: XnnTensor, order: Order) -> Tensor:
    """Return a value that broadcasts with values held in `order`."""
    rank, missing = len(order), len(order) - len(value.dims)
    if order == tuple(range(rank)) or len(value.dims) == 0:
        return lowering.plain(value)
    if missing == 0:
        return lowering.held(value, order).tensor
    wide = lowering.plain(value)
    for _ in range(missing):
        more = lowering.writer.new_tensor(wide.dtype, (1, *wide.dims))
        lowering.writer.call("aten.unsqueeze_copy.default", (wide, 0), more)
        wide = more
    moved = lowering.writer.new_tensor(wide.dtype, tuple(wide.dims[axis] for axis in order))
    lowering.writer.call("aten.permute_copy.default", (wide, list(order)), moved)
    return moved


NODES: dict[str, NodeLowering] = {
    **dict.fromkeys(UNARY, lower_unary),
    **dict.fromkeys(BINARY, lower_binary),
    "Clamp": lower_clamp,
}
