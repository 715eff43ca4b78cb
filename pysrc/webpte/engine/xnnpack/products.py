"""Lowering of products of batches of matrices, and of attention."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.xnnpack import XnnDataType, XnnNode, XnnTensor
from webpte.engine.graph.graph import Constant, Tensor
from webpte.engine.shapes import Dims, broadcast
from webpte.engine.xnnpack.lowering import Lowering, NodeLowering, OrderedTensor
from webpte.engine.xnnpack.quantized import params
from webpte.engine.xnnpack.tables import limits
from webpte.engine.xnnpack.validate import TRANSPOSE_WEIGHTS
from webpte.errors import GraphError


def lower_product(lowering: Lowering, node: XnnNode) -> None:
    """Append a product of batches of matrices, whose batches broadcast."""
    a, b = lowering.value(node, "input1_id"), lowering.value(node, "input2_id")
    out = lowering.value(node, "output_id")
    if min(len(a.dims), len(b.dims)) < 2:
        raise GraphError(f"a product of {list(a.dims)} and {list(b.dims)}; both have rows")
    turned = bool(node.integers["flags"] & TRANSPOSE_WEIGHTS)
    outer = broadcast(a.dims[:-2], b.dims[:-2])
    lowering.expect(out, (*outer, a.dims[-2], b.dims[-2 if turned else -1]))
    if a.id in lowering.dynamic or any(value.quantization for value in (a, b, out)):
        _lower_q8(lowering, node, a, b, out, turned)
        return
    left = lowering.plain(a)
    right = _transposed(lowering, b) if turned else lowering.plain(b)
    made = lowering.new(out)
    _append_product(lowering, *_spread(lowering, left, right), made.tensor)
    lowering.give(out, made)


def _lower_q8(
    lowering: Lowering, node: XnnNode, a: XnnTensor, b: XnnTensor, out: XnnTensor, turned: bool
) -> None:
    """Append a product of 8-bit values: a convolution of single pixels, in a group per batch.

    A row of the first matrix is a pixel, and a column of the second a filter.
    """
    if any(value.datatype is not XnnDataType.QINT8 for value in (a, b, out)):
        lowering.refuse(node, "of 8 bits beside other types")
        return
    if params(b).zero_point:
        raise GraphError(f"value {b.id}: a zero point of {params(b).zero_point} in a second matrix")
    columns = lowering.plain(b) if turned else _transposed(lowering, b)
    left, columns = _spread(lowering, lowering.plain(a), columns)
    rows, columns = _flat(lowering, left), _flat(lowering, columns)
    (groups, height, inner), width = rows.dims, columns.dims[1]
    writer, live = lowering.writer, lowering.writer.live_size
    pixels = _transposed_batch(lowering, rows)
    image = _viewed(lowering, pixels, (1, groups * inner, height, 1), [1, -1, live(rows, 1), 1])
    filters = _viewed(
        lowering, columns, (groups * width, 1, 1, inner), [-1, 1, 1, live(columns, 2)]
    )
    factor = np.float32(params(a).scale) * np.float32(params(b).scale)
    factors = np.full(groups * width, factor / np.float32(params(out).scale), np.float32)
    scale = writer.new_tensor(DTYPES["float32"], factors.shape, Constant.in_memory(factors))
    sums = writer.new_tensor(rows.dtype, (1, groups * width, height, 1))
    ends = (params(out).zero_point, *limits(True))
    sizes = ([1, 1], [1, 1], [0, 0, 0, 0], [1, 1], live(rows, 0), False)
    args = (image, params(a).zero_point, filters, 0, scale, None, *ends, *sizes)
    writer.call("webpte.q8_conv.default", args, sums)
    apart = [-1, live(columns, 1), live(rows, 1)]
    found = _transposed_batch(lowering, _viewed(lowering, sums, (groups, width, height), apart))
    outer = [live(left, dim) for dim in range(len(left.dims) - 1)]
    whole = _viewed(lowering, found, out.dims, [*outer, live(columns, 1)])
    lowering.give(out, OrderedTensor(whole, tuple(range(len(out.dims)))))


def _spread(lowering: Lowering, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices with the batches that are common to both."""
    outer = broadcast(left.dims[:-2], right.dims[:-2])
    if left.dims[:-2] == right.dims[:-2]:
        return left, right
    sizes = list[Any]()
    for place in range(-2 - len(outer), -2):
        wide = [one for one in (left, right) if -place <= len(one.dims) and one.dims[place] != 1]
        sizes.append(lowering.writer.live_size(wide[0], place + len(wide[0].dims)) if wide else 1)
    found = [
        tensor if tensor.dims[:-2] == outer else _expanded(lowering, tensor, outer, sizes)
        for tensor in (left, right)
    ]
    return found[0], found[1]


def _expanded(lowering: Lowering, tensor: Tensor, outer: Dims, sizes: list[Any]) -> Tensor:
    """Return matrices repeated for `outer` batches, whose live sizes are `sizes`."""
    rank = len(tensor.dims)
    last = [lowering.writer.live_size(tensor, rank - 2 + at) for at in range(2)]
    made = lowering.writer.new_tensor(tensor.dtype, (*outer, *tensor.dims[-2:]))
    lowering.writer.call("aten.expand_copy.default", (tensor, [*sizes, *last]), made)
    return made


def _transposed(lowering: Lowering, value: XnnTensor) -> Tensor:
    """Return the transposed matrices of a value."""
    *outer, rows, columns = range(len(value.dims))
    return lowering.held(value, (*outer, columns, rows)).tensor


def _transposed_batch(lowering: Lowering, tensor: Tensor) -> Tensor:
    """Append a call that transposes a batch of matrices."""
    batch, rows, columns = tensor.dims
    made = lowering.writer.new_tensor(tensor.dtype, (batch, columns, rows))
    lowering.writer.call("aten.permute_copy.default", (tensor, [0, 2, 1]), made)
    return made


def _viewed(lowering: Lowering, tensor: Tensor, dims: Dims, sizes: list[Any]) -> Tensor:
    """Return a tensor with other dims, and its elements in the same order."""
    made = lowering.writer.new_tensor(tensor.dtype, dims)
    lowering.writer.call("aten.view_copy.default", (tensor, sizes), made)
    return made


def _append_product(lowering: Lowering, left: Tensor, right: Tensor, out: Tensor) -> None:
    """Append the product of matrices, or of batches of them."""
    if len(left.dims) <= 3:
        name = "aten.mm.default" if len(left.dims) == 2 else "aten.bmm.default"
        lowering.writer.call(name, (left, right), out)
        return
    flat = [_flat(lowering, one) for one in (left, right)]
    made = lowering.writer.new_tensor(left.dtype, (*flat[0].dims[:-1], flat[1].dims[-1]))
    lowering.writer.call("aten.bmm.default", flat, made)
    sizes = [lowering.writer.live_size(left, dim) for dim in range(len(left.dims) - 1)]
    sizes.append(lowering.writer.live_size(right, len(right.dims) - 1))
    lowering.writer.call("aten.view_copy.default", (made, sizes), out)


def _flat(lowering: Lowering, tensor: Tensor) -> Tensor:
    """Return matrices with all dims of batches joined to a single dim."""
    *outer, rows, columns = tensor.dims
    if len(outer) == 1:
        return tensor
    last = [lowering.writer.live_size(tensor, len(outer) + at) for at in range(2)]
    return _viewed(lowering, tensor, (prod(outer), rows, columns), [-1, *last])


def lower_attention(lowering: Lowering, node: XnnNode) -> None:
    """Append softmax(query * scale @ key^T + mask) @ value. ExecuTorch wrote it before 0.7."""
    names = ("query", "key", "value", "scale", "mask")
    q, k, v, scale, mask = (lowering.value(node, f"{name}_id") for name in names)
    out = lowering.value(node, "output_id")
    fits = min(len(q.dims), 1 + len(k.dims), 1 + len(v.dims)) >= 3
    if not fits or (k.dims[-1], v.dims[-2], *scale.dims, *mask.dims) != (
        *(q.dims[-1], k.dims[-2]),
        *(q.dims[-1], q.dims[-2], k.dims[-2]),
    ):
        shapes = ", ".join(str(list(value.dims)) for value in (q, k, v, scale, mask))
        raise GraphError(f"attention of {shapes}")
    if any(value.quantization is not None for value in (q, k, v, scale, mask, out)):
        lowering.refuse(node, "of 8 bits")
        return
    if not q.dims[:-2] == k.dims[:-2] == v.dims[:-2]:
        lowering.refuse(node, "with fewer heads of keys")
        return
    writer, query = lowering.writer, lowering.plain(q)
    scaled = writer.new_tensor(query.dtype, query.dims)
    writer.call("aten.mul.Tensor", (query, lowering.plain(scale)), scaled)
    products, logits, weights = (
        writer.new_tensor(query.dtype, (*q.dims[:-1], k.dims[-2])) for _ in range(3)
    )
    _append_product(lowering, scaled, _transposed(lowering, k), products)
    writer.call("aten.add.Tensor", (products, lowering.plain(mask), 1), logits)
    writer.call("aten._softmax.default", (logits, -1, False), weights)
    made = lowering.new(out)
    _append_product(lowering, weights, lowering.plain(v), made.tensor)
    lowering.give(out, made)


NODES: dict[str, NodeLowering] = {
    "BatchMatrixMultiply": lower_product,
    "ScaledDotProductAttention": lower_attention,
}
