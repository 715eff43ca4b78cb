"""The lowering of an XNNPACK graph: its nodes become calls of webpte's operators.

XNNPACK computes images in NHWC, webpte's kernels in NCHW. So a value of XNNPACK is *held* as a
tensor whose dims may be in another order, and a transposition only changes the order under which
a value is held. Elementwise nodes keep the order of their inputs; a node that needs a certain
order has values permuted that are held in another. Between convolutions nothing is permuted, and
the transpositions that the exporter writes around them cancel out.

Sizes in the file are the largest ones. Live sizes follow from the inputs, as in other graphs. Where
inputs change their sizes, exporters bound the sizes of computed values, and the bound may be wider
than the sizes that the node computes from its inputs: then those count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.files.source import ByteSource, Region
from webpte.engine.format.xnnpack import (
    PerBlockQuant,
    PerChannelQuant,
    PerTensorQuant,
    XnnBytes,
    XnnDataType,
    XnnGraph,
    XnnNode,
    XnnTensor,
)
from webpte.engine.graph.graph import Constant, Graph, Tensor
from webpte.engine.graph.graph_writer import GraphWriter
from webpte.engine.shapes import Dims, numel
from webpte.engine.xnnpack.validate import check_graph
from webpte.errors import ConstantError, GraphError, retold

Order: TypeAlias = tuple[int, ...]

IMAGES = (0, 3, 1, 2)  # NHWC, held as NCHW
MAX_SCALES = 1 << 24  # bytes of the scales of a value, which are read to be combined

_DTYPES = {
    XnnDataType.FP32: "float32",
    XnnDataType.FP16: "float16",
    XnnDataType.BF16: "bfloat16",
    XnnDataType.INT32: "int32",
    XnnDataType.QINT32: "int32",
    XnnDataType.QCINT32: "int32",
    XnnDataType.QINT8: "int8",
    XnnDataType.QCINT8: "int8",
    XnnDataType.QUINT8: "uint8",
}


@dataclass(frozen=True)
class ArgumentLayout:
    """The layout of a delegate's argument in the method: sizes, and their order in memory."""

    sizes: Dims
    dim_order: Order
    dynamic: bool = False


@dataclass(frozen=True)
class OrderedTensor:
    """A value as a tensor of the graph: dim k of the tensor is dim `order[k]` of the value."""

    tensor: Tensor
    order: Order


@dataclass(frozen=True)
class DynamicRows:
    """A value that is quantized in each run: floats, the inverse of a scale and a zero per row.

    Halves are computed with as float32, as scales are.
    """

    source: XnnTensor
    inverse: Tensor
    zero: Tensor


@dataclass(frozen=True)
class Lowered:
    """A graph, and the places of its inputs and outputs among the arguments of the delegate."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Lowering:
    """A graph being lowered: a node reads values as `held`, and states the values it computes."""

    def __init__(
        self,
        graph: XnnGraph,
        constants: Sequence[Constant | None],
        scales: Mapping[int, Any],
        resizes: bool,
    ) -> None:
        """Take the constants, the scales by their values, and whether inputs change their sizes."""
        self.writer = GraphWriter()
        self.values = {value.id: value for value in graph.values}
        self.dynamic: dict[int, DynamicRows] = {}
        self._constants = constants
        self._scales = scales
        self._resizes = resizes
        self._held: dict[int, OrderedTensor] = {}
        self._permuted: dict[tuple[int, Order], OrderedTensor] = {}

    def value(self, node: XnnNode, name: str) -> XnnTensor:
        return self.values[node.ids[name]]

    def optional(self, node: XnnNode, name: str) -> XnnTensor | None:
        return self.values[node.ids[name]] if name in node.ids else None

    def dtype(self, value: XnnTensor) -> DType:
        """Return the dtype of a value; a quantized value has the dtype of its numbers."""
        name = _DTYPES.get(value.datatype, "")
        if name not in DTYPES:
            raise GraphError(f"value {value.id}: {value.datatype.name} is no type of a tensor")
        return DTYPES[name]

    def constant(self, value: XnnTensor) -> Constant:
        """Return the bytes of a value that the file has to state."""
        if value.constant is None:
            raise GraphError(f"value {value.id} must be a constant, and is computed")
        found = self._constants[value.constant]
        assert found is not None, "see resolve_constants"
        needed = (numel(value.dims) * value.datatype.bits + 7) // 8
        if found.region.size < needed:
            raise ConstantError(
                f"value {value.id} {list(value.dims)}: {needed} bytes are needed, "
                f"{found.region.size} are in the file"
            )
        return found

    def scales(self, value: XnnTensor, channels: int, axis: int = 0) -> np.ndarray:
        """Return the scales of a value, per index of `axis`, as float32 [channels]."""
        match value.quantization:
            case PerTensorQuant(scale, _):
                return np.full(channels, scale, np.float32)
            case PerChannelQuant(_, other, _) if other != axis:
                raise GraphError(f"value {value.id}: scales along dim {other}, not dim {axis}")
            case PerChannelQuant(scales, _, buffer):
                found = np.array(scales, np.float32) if buffer is None else self._scales[value.id]
                if found.size != channels:
                    raise GraphError(
                        f"value {value.id}: {found.size} scales for {channels} channels"
                    )
                return np.asarray(found)
        raise GraphError(f"value {value.id} has no scale per channel")

    def block_scales(self, value: XnnTensor, blocks: PerBlockQuant) -> tuple[Constant | None, str]:
        """Return the scales of the blocks of a value in the file, or None, and their dtype."""
        if blocks.buffer is None:
            return None, "float32"
        return self._constants[blocks.buffer], "bfloat16"

    def held(self, value: XnnTensor, order: Order | None = None) -> OrderedTensor:
        """Return a value as a tensor, permuted to `order` if it is held in another order."""
        if value.id not in self._held:
            if value.constant is None:
                raise GraphError(
                    f"value {value.id} is needed, but is no argument of the delegate, no constant "
                    "and not computed; ExecuTorch's runtime refuses such a delegate as well"
                )
            tensor = self.writer.new_tensor(self.dtype(value), value.dims, self.constant(value))
            self._held[value.id] = OrderedTensor(tensor, tuple(range(len(value.dims))))
        found = self._held[value.id]
        if order is None or order == found.order:
            return found
        key = value.id, order
        if key not in self._permuted:
            axes = [found.order.index(axis) for axis in order]
            dims = tuple(found.tensor.dims[axis] for axis in axes)
            tensor = self.writer.new_tensor(found.tensor.dtype, dims)
            self.writer.call("aten.permute_copy.default", (found.tensor, axes), tensor)
            self._permuted[key] = OrderedTensor(tensor, order)
        return self._permuted[key]

    def plain(self, value: XnnTensor) -> Tensor:
        """Return a value as a tensor with the value's own dims."""
        return self.held(value, tuple(range(len(value.dims)))).tensor

    def image(self, value: XnnTensor) -> Tensor:
        """Return an NHWC value as an NCHW tensor."""
        if len(value.dims) != len(IMAGES):
            raise GraphError(f"value {value.id} {list(value.dims)}: an image has 4 dims")
        return self.held(value, IMAGES).tensor

    def new(
        self, value: XnnTensor, order: Order | None = None, dtype: DType | None = None
    ) -> OrderedTensor:
        """Return a new tensor that holds a value in an order."""
        value = self.values[value.id]  # see expect
        order = tuple(range(len(value.dims))) if order is None else order
        if len(order) != len(value.dims):
            raise GraphError(f"value {value.id} {list(value.dims)} has not {len(order)} dims")
        dims = tuple(value.dims[axis] for axis in order)
        return OrderedTensor(self.writer.new_tensor(dtype or self.dtype(value), dims), order)

    def give(self, value: XnnTensor, held: OrderedTensor) -> None:
        """State the tensor that holds a value."""
        if value.id in self._held or value.id in self.dynamic or value.constant is not None:
            raise GraphError(f"value {value.id} is computed twice")
        places = map(held.order.index, range(len(held.order)))
        self.expect(value, tuple(held.tensor.dims[place] for place in places))
        self._held[value.id] = held

    def expect(self, value: XnnTensor, dims: Sequence[int]) -> None:
        """Raise if the file gives a value other dims than its node computes, unless as a bound."""
        value = self.values[value.id]
        if tuple(dims) == value.dims:
            return
        bounded = len(dims) == len(value.dims) and all(map(int.__le__, dims, value.dims))
        if self._resizes and bounded:
            self.values[value.id] = replace(value, dims=tuple(dims))
        else:
            raise GraphError(
                f"value {value.id} is {list(value.dims)} in the file, {list(dims)} by its node"
            )

    def compute(
        self, value: XnnTensor, name: str, args: Sequence[Any], order: Order | None = None
    ) -> OrderedTensor:
        """Append a call that computes a value into a new tensor, held in `order`."""
        made = self.new(value, order)
        self.writer.call(name, args, made.tensor)
        self.give(value, made)
        return made

    def in_float32(self, value: XnnTensor) -> XnnTensor:
        """Return the value itself, or for halves a new value of float32 with the same dims."""
        if value.datatype is not XnnDataType.FP16:
            return value
        made = replace(self.values[value.id], id=-1 - value.id, datatype=XnnDataType.FP32)
        self.values[made.id] = made
        return made

    def cast(self, source: XnnTensor, target: XnnTensor) -> None:
        """Append the conversion of a value to the type of another value, if they are two."""
        if source is not target:
            held = self.held(source)
            self.compute(target, "aten._to_copy.default", (held.tensor,), held.order)

    def refuse(self, node: XnnNode, detail: str) -> None:
        """Append a call of an operator that does not exist: only a run of the graph needs it."""
        for name, value_id in node.ids.items():
            if name.startswith("output"):
                value = self.values[value_id]
                dtype = DTYPES.get(_DTYPES.get(value.datatype, ""), DTYPES["float32"])
                out = self.new(value, dtype=dtype)
                self.writer.call(f"xnnpack.{node.kind}({detail})", (), out.tensor)
                self.give(value, out)


NodeLowering = Callable[[Lowering, XnnNode], None]


def resolve_constants(
    graph: XnnGraph, source: ByteSource, named: Mapping[str, Region]
) -> list[Constant | None]:
    """Return the bytes of the constants of a graph by number; the first stands for none."""
    found: list[Constant | None] = []
    for number, entry in enumerate(graph.constants):
        if number == 0:
            found.append(None)
        elif entry.span is not None:
            found.append(Constant(Region(source, entry.span.offset, entry.span.size), None))
        else:
            found.append(_named(number, entry, named))
    return found


def _named(number: int, entry: XnnBytes, named: Mapping[str, Region]) -> Constant:
    key = entry.named_key or ""
    if key not in named:
        raise ConstantError(
            f"constant {number}: no named data under the key {key!r}; "
            "if the weights were exported to a .ptd file, open it together with the program"
        )
    if named[key].size < entry.size:
        raise ConstantError(
            f"constant {number}: {entry.size} bytes are needed, {named[key].size} are in the file"
        )
    return Constant(named[key].head(entry.size), key)


async def read_scales(
    graph: XnnGraph, constants: Sequence[Constant | None]
) -> dict[int, np.ndarray]:
    """Read the scales per channel that are constants, by the id of their value."""
    found: dict[int, np.ndarray] = {}
    for value in graph.values:
        per = value.quantization
        if not isinstance(per, PerChannelQuant) or per.buffer is None:
            continue
        constant = constants[per.buffer]
        assert constant is not None, "constant 0 is read as none"
        size = min(constant.region.size, 4 * max(value.dims, default=1))
        if size > MAX_SCALES:
            raise ConstantError(f"value {value.id}: {size} bytes of scales")
        data = await constant.region.read(0, size // 4 * 4)
        found[value.id] = np.frombuffer(data, np.float32)
    return found


async def lower_graph(
    graph: XnnGraph,
    source: ByteSource,
    named: Mapping[str, Region],
    layouts: Sequence[ArgumentLayout | None],
    nodes: Mapping[str, NodeLowering],
) -> Lowered:
    """Lower a graph. `layouts` are the delegate's arguments, `nodes` the kinds of nodes."""
    check_graph(graph)
    constants = resolve_constants(graph, source, named)
    inputs = _sorted(value for value in graph.values if value.is_input)
    outputs = _sorted(value for value in graph.values if value.is_output)
    taken = [_layout_of(value, layouts) for value in inputs]
    resizes = any(layout.dynamic for layout in taken)
    lowering = Lowering(graph, constants, await read_scales(graph, constants), resizes)
    given = [_take(lowering, value, layout) for value, layout in zip(inputs, taken, strict=True)]
    for number, node in enumerate(graph.nodes):
        try:
            nodes[node.kind](lowering, node)
        except GraphError as error:
            raise retold(error, f"node {number} ({node.kind}): {error}") from error
    made = list[int]()
    for value in outputs:
        made.append(_return(lowering, value, _layout_of(value, layouts), {*given, *made}))
    return Lowered(
        lowering.writer.written(given, made),
        tuple(map(_place, inputs)),
        tuple(map(_place, outputs)),
    )


def _take(lowering: Lowering, value: XnnTensor, layout: ArgumentLayout) -> int:
    """Hold an input as the method has it; return its tensor."""
    held = lowering.new(value, _order_of(value, layout))
    lowering.give(value, held)
    if layout.sizes or not value.dims:
        return held.tensor.id
    scalar = lowering.writer.new_tensor(held.tensor.dtype, ())
    lowering.writer.call("aten.view_copy.default", (scalar, [1]), held.tensor)
    return scalar.id


def _return(lowering: Lowering, value: XnnTensor, layout: ArgumentLayout, taken: set[int]) -> int:
    """Return the method's tensor of an output: a copy if the tensor is constant or `taken`."""
    tensor = lowering.held(value, _order_of(value, layout)).tensor
    if value.dims and not layout.sizes:
        scalar = lowering.writer.new_tensor(tensor.dtype, ())
        lowering.writer.call("aten.view_copy.default", (tensor, []), scalar)
        return scalar.id
    if tensor.id not in taken and tensor.constant is None:
        return tensor.id
    copy = lowering.writer.new_tensor(tensor.dtype, tensor.dims)
    lowering.writer.call("aten.alias_copy.default", (tensor,), copy)
    return copy.id


def _sorted(values: Any) -> list[XnnTensor]:
    return sorted(values, key=_place)


def _place(value: XnnTensor) -> int:
    if value.external is None:
        raise GraphError(f"value {value.id} is an input or an output without a place")
    return value.external


def _layout_of(value: XnnTensor, layouts: Sequence[ArgumentLayout | None]) -> ArgumentLayout:
    """Return the layout in which the method has an input or an output."""
    place = _place(value)
    layout = layouts[place] if place < len(layouts) else None
    if layout is None:
        raise GraphError(f"argument {place} of the delegate is not a tensor")
    if len(layout.dim_order) != len(value.dims) and (layout.sizes or value.dims != (1,)):
        raise GraphError(
            f"argument {place} of the delegate has {len(layout.dim_order)} dims, "
            f"its value {len(value.dims)}"
        )
    sizes = tuple(layout.sizes[axis] for axis in layout.dim_order)
    if layout.sizes and sizes != value.dims:
        raise GraphError(
            f"argument {place} of the delegate is {list(sizes)} in memory, "
            f"its value {list(value.dims)}"
        )
    return layout


def _order_of(value: XnnTensor, layout: ArgumentLayout) -> Order:
    """Return the order in which the method has an input or an output."""
    if not layout.sizes:
        return tuple(range(len(value.dims)))
    return tuple(layout.dim_order.index(axis) for axis in range(len(value.dims)))
