"""Rules for calls that read a constant in parts, and `split_constants`, which applies them.

    linear, convolution   a call per part, for some of the columns or channels; then a `cat`
    mm, addmm             rows of the second matrix are columns of the first: products are added up
    embedding             a dispatch per part, which writes the rows in its part

A call without a rule keeps its constant whole, and is refused if the constant is too large for the
GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from webpte.engine.format.vulkan import NullValue
from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor
from webpte.engine.ops import definition_of
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.quant.embedding_parts import IN_PARTS, TABLES, table_arguments
from webpte.engine.rewrite.split import GraphSplitter, RowOperand
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import WebpteError

CAT, SLICE = "aten.cat.default", "aten.slice_copy.Tensor"
MM, ADDMM = "aten.mm.default", "aten.addmm.default"


def split_constants(graph: Graph, most_bytes: int) -> Graph:
    """Return the graph with constants of more than `most_bytes` in parts, where calls allow it."""
    splitter = GraphSplitter(graph, most_bytes)
    if not splitter.oversized:
        return graph
    for call in graph.calls:
        reads = call.name != PREPACK and not splitter.oversized.isdisjoint(
            splitter.flow.takes(call)
        )
        if not reads or not _split(splitter, call):
            splitter.keep(call)
    return splitter.result()


def _split(splitter: GraphSplitter, call: Call) -> bool:
    """Append the calls that replace a call; return whether a rule takes it."""
    op = definition_of(call)
    rule = RULES.get(op.name) if op is not None else None
    if rule is None or call.parts:
        return False
    try:
        args = splitter.args_of(call)
        if op is not None:
            op.shape(args)  # checks of the call, on which rules rely
        return rule(splitter, args)
    except WebpteError:
        return False  # raised again, with its place, when the call is lowered


Rule = Callable[[GraphSplitter, Args], bool]


@dataclass(frozen=True)
class ByOutput:
    """A rule for an operator whose weight has a row for each column or channel of the output.

    rows      arguments with an element per row of the weight, or a single element
    columns   matrices with a column per row of the weight
    dim       dim of the output, along which the parts lie
    """

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    dim: int = -1
    takes: Callable[[Args], bool] = lambda args: True

    def __call__(self, splitter: GraphSplitter, args: Args) -> bool:
        weight, out = args.tensor("weight"), args.out
        others = [(name, args.optional_tensor(name)) for name in (*self.rows, *self.columns)]
        given = {name: tensor.id for name, tensor in others if tensor is not None}
        if weight.id not in splitter.oversized or weight.rank < 2 or not self.takes(args):
            return False
        if not all(splitter.is_constant(i) for i in given.values()):
            return False
        operand = RowOperand(splitter.graph.tensor(weight.id), weight.dims[0])
        ranges = splitter.ranges(operand)
        if ranges is None:
            return False
        unread = {i for parameter, i in args.given if parameter.kind == "any"}
        null = splitter.value(NullValue())
        dim, made = normalize_dim(self.dim, out.rank), list[int]()
        for first, last in ranges:
            dims = (last - first, *weight.dims[1:])
            swapped = {weight.id: splitter.rows(weight.id, first, last, dims)}
            for name, value_id in given.items():
                cut = _columns if name in self.columns else _elements
                swapped[value_id] = cut(splitter, value_id, (first, last), weight.dims[0])
            part = splitter.like(out.id, _resized(out.maximum, dim, last - first))
            ids = tuple(null if i in unread else swapped.get(i, i) for i in args.call.args[:-1])
            splitter.add(args.call, args.call.name, (*ids, part))
            made.append(part)
        inputs = (splitter.list_of(made), splitter.integer(dim))
        splitter.add(args.call, CAT, (*inputs, out.id))
        return True


def _resized(dims: Dims, dim: int, size: int) -> Dims:
    return (*dims[:dim], size, *dims[dim + 1 :])


def _elements(splitter: GraphSplitter, value_id: int, range_: tuple[int, int], rows: int) -> int:
    """Return these elements of a bias or of scales; padding goes to the last part."""
    tensor, (first, last) = splitter.graph.tensor(value_id), range_
    count = tensor.storage_bytes // tensor.dtype.storage.itemsize
    if count == 1:
        return value_id
    last = count if last == rows else last
    return splitter.rows(value_id, first, last, _flat_dims(tensor, last - first))


def _flat_dims(tensor: Tensor, count: int) -> Dims:
    longest = max(range(len(tensor.dims)), key=lambda dim: tensor.dims[dim])
    return _resized(tensor.dims, longest, count)


def _columns(splitter: GraphSplitter, value_id: int, range_: tuple[int, int], rows: int) -> int:
    first, last = range_
    width = splitter.graph.tensor(value_id).dims[1]
    return splitter.columns(value_id, first, width if last == rows else last)


def _is_plain_conv(args: Args) -> bool:
    return args.integer("groups") == 1 and not args.flag("transposed")


def split_sum(splitter: GraphSplitter, args: Args) -> bool:
    """Split mm or addmm by the rows of the second matrix, and add up the products."""
    is_mm = args.call.name.endswith(MM)
    names = ("self", "mat2") if is_mm else ("mat1", "mat2")
    a, b, out = args.tensor(names[0]), args.tensor(names[1]), args.out
    if b.id not in splitter.oversized or a.id in splitter.oversized:
        return False
    ranges = splitter.ranges(RowOperand(splitter.graph.tensor(b.id), b.dims[0]))
    if ranges is None:
        return False
    total, one = -1, splitter.integer(1)
    alpha = one if is_mm else _argument(splitter, args, "alpha", one)
    for first, last in ranges:
        some = splitter.like(a.id, (a.maximum[0], last - first))
        bounds = (one, splitter.integer(first), splitter.integer(last), one)
        splitter.add(args.call, SLICE, (a.id, *bounds, some))
        rows = splitter.rows(b.id, first, last, (last - first, b.dims[1]))
        target = out.id if last == b.dims[0] else splitter.like(out.id, out.maximum)
        if first:
            splitter.add(args.call, ADDMM, (total, some, rows, one, alpha, target))
        elif is_mm:
            splitter.add(args.call, MM, (some, rows, target))
        else:
            beta = _argument(splitter, args, "beta", one)
            addend = args.tensor("self").id
            splitter.add(args.call, ADDMM, (addend, some, rows, beta, alpha, target))
        total = target
    return True


def _argument(splitter: GraphSplitter, args: Args, name: str, default: int) -> int:
    given = {parameter.name: value_id for parameter, value_id in args.given}
    value_id = given.get(name, default)
    return default if isinstance(splitter.values[value_id], NullValue) else value_id


def split_table(splitter: GraphSplitter, args: Args) -> bool:
    """Split a table from which an index tensor picks rows."""
    tables = table_arguments(args)
    (_, table), *others = tables
    indices = _row_indices(args)
    if indices is None or table.id not in splitter.oversized:
        return False
    if not all(splitter.is_constant(tensor.id) for _, tensor in others):
        return False
    ranges = splitter.ranges(RowOperand(splitter.graph.tensor(table.id), table.dims[0]))
    if ranges is None:
        return False
    ids = list[int]()
    for first, last in ranges:
        for _, tensor in tables:
            shared = tensor.numel == 1 and table.dims[0] > 1
            dims = (last - first, *tensor.dims[1:])
            ids.append(tensor.id if shared else splitter.rows(tensor.id, first, last, dims))
    original = args.call
    call = replace(
        original,
        name=IN_PARTS,
        args=(splitter.list_of(ids), indices, original.args[-1]),
        place=original.place or str(original),
        parts=(original,),
    )
    splitter.keep(call)
    return True


def _row_indices(args: Args) -> int | None:
    """Return the only index tensor of a call that picks rows; None for other calls."""
    positions = {parameter.name for parameter, _ in args.given}
    if "dim" in positions:
        rank = args.tensor("self").rank
        if not rank or normalize_dim(args.integer("dim"), rank) != 0:
            return None
        return args.tensor("index").id
    if "self" not in positions:
        return args.tensor("indices").id
    first, *others = args.tensors("indices")
    return None if first is None or any(others) else first.id


_PER_ROW = ByOutput(rows=("scales",))
_PER_ROW_AND_BIAS = ByOutput(rows=("scales", "bias"))
_GROUPED = ByOutput(rows=("bias",), columns=("scales",))
_CHANNELS = ByOutput(rows=("bias",), dim=1, takes=_is_plain_conv)

RULES: dict[str, Rule] = {
    "aten.linear.default": ByOutput(rows=("bias",)),
    "et_vk.linear_q4gsw.default": _GROUPED,
    "et_vk.linear_dq8ca_q4gsw.default": _GROUPED,
    "et_vk.linear_qcs4w.default": _PER_ROW,
    "aten._weight_int8pack_mm.default": _PER_ROW,
    "et_vk.linear_q8ta_q8csw.default": _PER_ROW_AND_BIAS,
    "et_vk.q8ta_linear.default": _PER_ROW_AND_BIAS,
    "et_vk.q8ta_linear_gemv.default": _PER_ROW_AND_BIAS,
    "webpte.linear_dq8ca_q8csw.default": _PER_ROW_AND_BIAS,
    "webpte.q8_linear.default": ByOutput(rows=("scale", "bias")),
    "aten.convolution.default": _CHANNELS,
    "et_vk.conv_with_clamp.default": _CHANNELS,
    MM: split_sum,
    ADDMM: split_sum,
    **dict.fromkeys(TABLES, split_table),
}
