"""The axis of a call's rows, which are tokens, in the tensors of a language model's graph.

Rows that belong to several sequences can share a call if every operator treats each row by itself.
An axis is followed from operator to operator; an operator that is not known to keep rows apart is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webpte.engine.format.vulkan import IntListValue, IntValue, NullValue, ValueListValue
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.ops import OpDef
from webpte.engine.ops.elementwise.fused_elementwise import NAMES as ELEMENTWISE
from webpte.engine.shapes import Dims, normalize_dim, numel
from webpte.errors import UnsupportedError
from webpte.llm.decode.row_logits import BY_ROWS

EMBEDDINGS = {
    "aten.embedding.default",
    "et_vk.embedding_q4gsw.default",
    "quantized_decomposed.embedding_byte.dtype",
    "quantized_decomposed.embedding_byte.default",
    "quantized_decomposed.embedding_4bit.dtype",
    "quantized_decomposed.embedding_4bit.default",
}
ROPES = {"et_vk.apply_rotary_emb.default", "et_vk.apply_rotary_emb_hf.default"}
INDEX = "aten.index.Tensor"
PERMUTE = "aten.permute_copy.default"
# Operators along a dim, which must not be the dim of the rows.
ALONG_DIM = {
    "aten.slice_copy.Tensor",
    "aten.select_copy.int",
    "aten.cat.default",
    "aten._softmax.default",
    "aten.split_with_sizes_copy.default",
}
TOKENS_FIRST = 1  # axis of queries and keys, [1, rows, heads, head size]


@dataclass(frozen=True)
class RowAxis:
    """The dim of a tensor that has the rows: all tokens, or the rows that were `picked`."""

    dim: int
    picked: bool = False


class RowAxes:
    """The axes of a graph's tensors, as far as they are known."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.of: dict[int, RowAxis] = {}

    def __contains__(self, value_id: int) -> bool:
        return value_id in self.of

    def follow(self, call: Call, op: OpDef) -> None:
        """Find the axes of a call's outputs; raise UnsupportedError if rows may mix."""
        given = {i: self.of[i] for i in self._graph.expand(call.args[:-1]) if i in self.of}
        if not given:
            return
        rule = _rule_of(op)
        if rule is None:
            raise UnsupportedError(f"{call}: not known to treat each token by itself")
        outs = [i for i in self._graph.expand(call.args[-1:]) if self._is_tensor(i)]
        args = CallArgs(self._graph, call, op, given)
        for out in outs:
            self.of[out] = rule(args, self._graph.tensor(out).dims)

    def _is_tensor(self, value_id: int) -> bool:
        return isinstance(self._graph.value(value_id), Tensor)


@dataclass(frozen=True)
class CallArgs:
    """The arguments of a call by name, with the axes of the arguments that have rows."""

    graph: Graph
    call: Call
    op: OpDef
    given: Mapping[int, RowAxis]

    def id(self, name: str) -> int | None:
        place = self.op.signature.positions.get(name)
        return None if place is None or place >= len(self.call.args) - 1 else self.call.args[place]

    def dims(self, value_id: int) -> Dims:
        return self.graph.tensor(value_id).dims

    def integer(self, name: str, default: int = 0) -> int:
        value_id = self.id(name)
        value = NullValue() if value_id is None else self.graph.value(value_id)
        return value.value if isinstance(value, IntValue) else default

    def only(self, *names: str) -> tuple[int, RowAxis]:
        """Return the only argument with rows, which must be among these."""
        (found, *more) = self.given.items()
        if more or found[0] not in {self.id(name) for name in names}:
            raise self.refused("takes rows where it treats them together")
        return found

    def refused(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.call}: {why}, so tokens of several sequences would mix")


Rule = Callable[[CallArgs, Dims], RowAxis]


def _rule_of(op: OpDef) -> Rule | None:
    if op.name in ELEMENTWISE:
        return _elementwise
    if op.name in BY_ROWS:
        return _by_rows
    if op.name in EMBEDDINGS:
        return lambda args, _: args.only("indices")[1]
    if op.name in ROPES:
        return _rotated
    if op.name == PERMUTE:
        return _permuted
    if op.name == INDEX:
        return _indexed
    if op.alias_of is not None:
        return _viewed
    return _along_dim if op.name in ALONG_DIM else None


def _elementwise(args: CallArgs, out: Dims) -> RowAxis:
    """Follow rows through broadcasting, which aligns the last dims."""
    axes = {
        RowAxis(axis.dim + len(out) - len(args.dims(i)), axis.picked)
        for i, axis in args.given.items()
    }
    if len(axes) != 1:
        raise args.refused("rows are in several dims")
    (axis,) = axes
    for value_id in args.graph.expand(args.call.args[:-1]):
        value = args.graph.value(value_id)
        if isinstance(value, Tensor) and value_id not in args.given:
            dim = axis.dim - len(out) + len(value.dims)
            if dim >= 0 and value.dims[dim] != 1:
                raise args.refused("an operand has a row for each place in a call")
    return axis


def _by_rows(args: CallArgs, out: Dims) -> RowAxis:
    first = args.call.args[0]
    if set(args.given) != {first}:
        raise args.refused("takes rows where it treats them together")
    axis, rank = args.given[first], len(args.dims(first))
    normalized = args.id("normalized_shape")
    value = None if normalized is None else args.graph.value(normalized)
    inner = len(value.items) if isinstance(value, IntListValue | ValueListValue) else 1
    if axis.dim >= rank - inner:
        raise args.refused("sums over the rows")
    return axis


def _viewed(args: CallArgs, out: Dims) -> RowAxis:
    (source, axis), *more = args.given.items()
    found = None if more else viewed_axis(args.dims(source), axis, out)
    if found is None:
        raise args.refused(f"makes {list(out)} of {list(args.dims(source))}")
    return found


def viewed_axis(source: Dims, axis: RowAxis, out: Dims) -> RowAxis | None:
    """Return the axis of a view: the last dim of as many rows, with as many elements before it."""
    before, rows = numel(source[: axis.dim]), source[axis.dim]
    fitting = [d for d in range(len(out)) if out[d] == rows and numel(out[:d]) == before]
    rest = numel(source[axis.dim + 1 :])
    fitting = [d for d in fitting if numel(out[d + 1 :]) == rest]
    return RowAxis(fitting[-1], axis.picked) if fitting else None


def _rotated(args: CallArgs, out: Dims) -> RowAxis:
    heads = {args.given.get(args.id(name) or 0) for name in ("xq", "xk")}
    tables = {args.given.get(args.id(name) or 0) for name in ("freqs_cos", "freqs_sin")}
    lines = RowAxis(0) if args.id("start_pos") is None else None
    if heads != {RowAxis(TOKENS_FIRST)} or tables != {lines}:
        raise args.refused("rotates other rows than there are lines of its tables")
    return RowAxis(TOKENS_FIRST)


def _permuted(args: CallArgs, out: Dims) -> RowAxis:
    source, axis = args.only("self")
    value = args.graph.value(args.call.args[1])
    if not isinstance(value, IntListValue):
        raise args.refused("permutes dims by live numbers")
    order = [normalize_dim(dim, len(args.dims(source))) for dim in value.items]
    return RowAxis(order.index(axis.dim), axis.picked)


def _indexed(args: CallArgs, out: Dims) -> RowAxis:
    """Follow a single index tensor for the first dim of a table."""
    (index, axis), *more = args.given.items()
    members = args.graph.value_list(args.call.args[1])
    if more or members != (index,):
        raise args.refused("indexes rows")
    return axis


def _along_dim(args: CallArgs, out: Dims) -> RowAxis:
    axes = set(args.given.values())
    tensors = [i for i in args.graph.expand(args.call.args[:-1]) if i in args.given]
    rank = len(args.dims(tensors[0]))
    (axis, *more) = axes
    dim = normalize_dim(args.integer("dim"), rank)
    if more or dim == axis.dim:
        raise args.refused("works along the rows")
    shift = dim < axis.dim and len(out) < rank
    return RowAxis(axis.dim - shift, axis.picked)
