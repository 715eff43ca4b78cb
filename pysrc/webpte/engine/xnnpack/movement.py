"""Lowering of nodes that move elements: transpose, reshape, slice, pad, concatenate."""

from __future__ import annotations

import numpy as np

from webpte.engine.format.xnnpack import PerTensorQuant, XnnNode, XnnTensor
from webpte.engine.graph.graph import Tensor
from webpte.engine.xnnpack.elementwise import common_order
from webpte.engine.xnnpack.lowering import Lowering, NodeLowering, OrderedTensor
from webpte.engine.xnnpack.quantized import is_signed
from webpte.engine.xnnpack.tables import limits
from webpte.errors import GraphError


def lower_transpose(lowering: Lowering, node: XnnNode) -> None:
    """Record another order of axes for the input; no call moves its elements."""
    x, out, perm = _ends(lowering, node, "perm")
    if sorted(perm) != list(range(len(x.dims))):
        raise GraphError(f"{list(perm)} is no permutation of {len(x.dims)} dims")
    held = lowering.held(x)
    lowering.give(out, OrderedTensor(held.tensor, tuple(perm.index(axis) for axis in held.order)))


def lower_reshape(lowering: Lowering, node: XnnNode) -> None:
    """Append a view; a size of 0 in the file is inferred."""
    x, out, shape = _ends(lowering, node, "new_shape")
    sizes = [size or -1 for size in shape]
    if sizes.count(-1) > 1 or len(sizes) != len(out.dims):
        raise GraphError(f"a view as {list(shape)} of a value {list(out.dims)}")
    lowering.expect(out, [size or known for size, known in zip(shape, out.dims, strict=True)])
    lowering.compute(out, "aten.view_copy.default", (lowering.plain(x), sizes))


def lower_slice(lowering: Lowering, node: XnnNode) -> None:
    """Append a slice per dim that is cut; a size of 0 reaches to the end."""
    x, out, offsets = _ends(lowering, node, "offsets")
    sizes = node.lists["sizes"]
    if not len(offsets) == len(sizes) == len(x.dims) == len(out.dims):
        raise GraphError(f"{len(offsets)} offsets and {len(sizes)} sizes of {len(x.dims)} dims")
    held = lowering.held(x)
    tensor = held.tensor
    for axis, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        end = offset + size if size else x.dims[axis]
        if offset == 0 and end >= x.dims[axis]:
            continue
        at = held.order.index(axis)
        dims = (*tensor.dims[:at], max(0, min(end, x.dims[axis]) - offset), *tensor.dims[at + 1 :])
        part = lowering.writer.new_tensor(tensor.dtype, dims)
        lowering.writer.call("aten.slice_copy.Tensor", (tensor, at, offset, end, 1), part)
        tensor = part
    lowering.give(out, OrderedTensor(tensor, held.order))


def lower_pad(lowering: Lowering, node: XnnNode) -> None:
    x, out, before = _ends(lowering, node, "pre_paddings")
    after, value = node.lists["post_paddings"], node.numbers["padding_value"]
    if not len(before) == len(after) == len(x.dims):
        raise GraphError(f"{len(before)} and {len(after)} paddings of {len(x.dims)} dims")
    held = lowering.held(x)
    pads = [amount for axis in reversed(held.order) for amount in (before[axis], after[axis])]
    filler: float | int = value
    if isinstance(x.quantization, PerTensorQuant):
        least, most = limits(is_signed(x))
        quotient = np.float32(value) / np.float32(x.quantization.scale)
        scaled = round(float(quotient)) + x.quantization.zero_point
        filler = max(least, min(most, scaled))
    lowering.compute(out, "aten.constant_pad_nd.default", (held.tensor, pads, filler), held.order)


def lower_concatenate(lowering: Lowering, node: XnnNode) -> None:
    names = sorted(name for name in node.ids if name.startswith("input"))
    values = tuple(lowering.value(node, name) for name in names)
    out, axis = lowering.value(node, "output_id"), node.integers["axis"]
    if axis >= 1 << 31:  # counted from the end
        axis += len(out.dims) - (1 << 32)
    if not 0 <= axis < len(out.dims):
        raise GraphError(f"there is no dim {axis} of {len(out.dims)}")
    if any(value.quantization != out.quantization for value in values):
        lowering.refuse(node, "of values with several scales")
        return
    if any(len(value.dims) != len(out.dims) for value in values):
        raise GraphError(f"values of other ranks than {len(out.dims)} are joined")
    dims = list(values[0].dims)
    dims[axis] = sum(value.dims[axis] for value in values)
    lowering.expect(out, dims)
    order = common_order(lowering, values, len(out.dims))
    parts: list[Tensor] = [lowering.held(value, order).tensor for value in values]
    lowering.compute(out, "aten.cat.default", (parts, order.index(axis)), order)


def _ends(
    lowering: Lowering, node: XnnNode, name: str
) -> tuple[XnnTensor, XnnTensor, tuple[int, ...]]:
    ends = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    return *ends, node.lists[name]


NODES: dict[str, NodeLowering] = {
    "StaticTranspose": lower_transpose,
    "StaticReshape": lower_reshape,
    "StaticSlice": lower_slice,
    "StaticConstantPad": lower_pad,
    **{f"Concatenate{count}": lower_concatenate for count in range(2, 6)},
}
