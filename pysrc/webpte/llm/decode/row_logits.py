"""A language model's graph, changed to give the logits of every token of a short call.

Most exports compute the logits of a call's last token alone: they pick the last row of the hidden
states, and the calls after the pick (the head: a norm, a linear layer, a few elementwise operators)
treat each row by itself. So the head can just as well take all rows. Caches and weights do not
change, so both graphs can share them.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.format.vulkan import IntListValue, IntValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.ops import lookup
from webpte.engine.ops.elementwise.fused_elementwise import NAMES as ELEMENTWISE
from webpte.engine.ops.norm.norm import UNSCALED_RMS_NORM
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import Dims, numel
from webpte.llm.cache.shorten_context import resized

VIEW = "aten.view_copy.default"
SELECT, SLICE = "aten.select_copy.int", "aten.slice_copy.Tensor"
# Operators whose output rows each depend on a single row of the first argument.
BY_ROWS = ELEMENTWISE | {
    "et_vk.rms_norm.default",
    UNSCALED_RMS_NORM,
    "aten.native_layer_norm.default",
    "aten.linear.default",
    "aten.mm.default",
    "aten._weight_int8pack_mm.default",
    "et_vk.linear_q4gsw.default",
    "et_vk.linear_qcs4w.default",
    "et_vk.linear_q8ta_q8csw.default",
    "et_vk.linear_dq8ca_q4gsw.default",
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "webpte.choose_qparams_qd8.default",
    "webpte.linear_dq8ca_q8csw.default",
    "webpte.quantized_moe.default",
}


def row_logits(graph: Graph, rows: int) -> Graph | str:
    """Return a graph for up to `rows` tokens that gives the logits of each, or why not.

    The graph's first input are tokens [1, rows] and its only output has a row for each of them; all
    value ids of the graph keep their meaning.
    """
    tokens = graph.tensor(graph.inputs[0])
    chunk = tokens.dims[-1]
    if chunk < rows:
        return f"a call takes {chunk} tokens, not {rows}"
    if len(graph.outputs) != 1 or graph.is_symint(graph.outputs[0]):
        return "the method returns more than logits"
    logits = graph.tensor(graph.outputs[0])
    if _rows(logits.dims) != chunk:
        head = _Head(graph, chunk)
        reason = head.follow(logits.id)
        if reason is not None:
            return reason
        graph = head.graph_of_all_rows()
    given: dict[int, Dims] = {tokens.id: (1, rows)}
    for value_id in graph.inputs[1:2]:
        if getattr(graph.value(value_id), "dims", None) == (chunk,):
            given[value_id] = (rows,)  # the position of each token
    short = resized(graph, {}, given)
    dims = short.tensor(logits.id).dims
    if _rows(dims) != rows:
        return f"the logits of {rows} tokens have the shape {list(dims)}"
    return short


def _rows(dims: Dims) -> int:
    return numel(dims[:-1])


class _Head:
    """The LM head: the calls from the selection of the last row to the logits."""

    def __init__(self, graph: Graph, chunk: int) -> None:
        self._graph = graph
        self._flow = Dataflow.of(graph)
        self._chunk = chunk
        self._values: set[int] = set()  # tensors with a single row
        self._views: dict[int, Call] = {}  # calls that only pick or reshape a row, by index
        self._has_pick = False

    def follow(self, output: int) -> str | None:
        """Find the head; return the reason if no head treats rows by themselves."""
        left = [output]
        while left:
            value_id = left.pop()
            if value_id in self._values:
                continue
            writers = self._flow.writers.get(value_id, ())
            if len(writers) != 1 or value_id in self._flow.volatile:
                return f"value {value_id}, which the logits depend on, is not computed by one call"
            call = self._graph.calls[writers[0]]
            given = [i for i in self._flow.gives(call) if self._is_tensor(i)]
            self._values.update(given)
            taken = self._taken(call)
            if isinstance(taken, str):
                return taken
            left += taken
        return None if self._has_pick else "no operator picks the last token's row"

    def _is_tensor(self, value_id: int) -> bool:
        return isinstance(self._graph.value(value_id), Tensor)

    def _taken(self, call: Call) -> list[int] | str:
        """Return the rows that a call of the head takes."""
        taken = [i for i in self._flow.reads(call) if i not in self._flow.stored]
        op = lookup(call.name)
        name = op.name if op is not None else call.name
        if self._is_view(call, name):
            (source,) = taken
            self._views[call.index] = call
            if _rows(self._graph.tensor(source).dims) != self._chunk:
                return [source]
            self._has_pick = True
            return []
        if name not in BY_ROWS or not taken:
            return f"{call}: not known to compute each token's logits by themselves"
        if any(_rows(self._graph.tensor(i).dims) != 1 for i in (*taken, *self._gives(call))):
            return f"{call}: takes more than the row of the last token"
        return taken

    def _gives(self, call: Call) -> list[int]:
        return [i for i in self._flow.gives(call) if self._is_tensor(i)]

    def _is_view(self, call: Call, name: str) -> bool:
        """Return whether a call gives the last row of its input, perhaps in another shape."""
        if call.args[0] in self._flow.stored or not self._is_tensor(call.args[-1]):
            return False
        source, out = (self._graph.tensor(i).dims for i in (call.args[0], call.args[-1]))
        if _rows(out) != 1 or out[-1:] != source[-1:] or len(out) not in (2, 3):
            return False
        if _rows(source) == 1:
            op = lookup(name)
            return name in (SELECT, SLICE) or (op is not None and op.alias_of is not None)
        return (
            len(source) == 3
            and source[:2] == (1, self._chunk)
            and self._int(call.args[1]) == 1
            and name in (SELECT, SLICE)
            and self._int(call.args[2]) == -1
            and (name == SELECT or self._int(call.args[4]) == 1)
        )

    def _int(self, value_id: int) -> int | None:
        value = self._graph.value(value_id)
        return value.value if isinstance(value, IntValue) else None

    def graph_of_all_rows(self) -> Graph:
        """Return the graph with a row for every token in place of the last token's row."""
        values: list[Value] = list(self._graph.values)
        for value_id in self._values:
            tensor = self._graph.tensor(value_id)
            dims = self._of_rows(tensor.dims, self._chunk)
            values[value_id] = replace(tensor, dims=dims, mem_obj_id=None, exact=False)
        calls = list(self._graph.calls)
        for index, call in self._views.items():
            dims = self._of_rows(self._graph.tensor(call.args[-1]).dims, -1)
            args = call.args[0], len(values), call.args[-1]
            values.append(IntListValue(dims))
            calls[index] = replace(call, name=VIEW, args=args)
        return Graph(tuple(values), tuple(calls), self._graph.inputs, self._graph.outputs)

    @staticmethod
    def _of_rows(dims: Dims, rows: int) -> Dims:
        return (rows, dims[-1]) if len(dims) == 2 else (1, rows, dims[-1])
