"""A language model's graph, changed so that the rows of a call belong to several sequences.

A call of the model is a number of rows, each a token with its place: a slot of the KV caches and
the position there. Linear layers, norms and all other operators treat each row by itself anyway, so
the rows of a call can be tokens of many sequences: the next token of each, parts of prompts, or
both. Calls that depend on the position change:

    caches                a slot for each sequence, [slots, C, heads, D]
    writes to a cache     each row goes to its own slot and position
    attention             each row reads its own slot, up to its own position
    tables of positions   each row reads the line of its own position
    the last row's pick   any set of rows whose logits are wanted

The tokens of all slots are kept, too (the history): a row without a given token takes the token
that was sampled for its place. So steps can be submitted before the host knows their tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from webpte.engine.files.source import BytesSource, Region
from webpte.engine.format.vulkan import BoolValue, IntValue, NullValue
from webpte.engine.graph.graph import PREPACK, Call, Constant, Graph, Tensor, Value
from webpte.engine.ops import OpDef, definition_of
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT
from webpte.engine.ops.slots.slot_attention import SLOT_ATTENTION, SLOT_SDPA
from webpte.engine.ops.slots.slot_cache import PLACE_WORDS, SLOT_TOKENS, UPDATE_SLOTS
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import Dims
from webpte.errors import UnsupportedError
from webpte.llm.decode.cache_state import caches_of
from webpte.llm.decode.graph_editor import GraphEditor
from webpte.llm.decode.row_axes import EMBEDDINGS, RowAxes, RowAxis, viewed_axis

VIEW, INDEX_SELECT = "aten.view_copy.default", "aten.index_select.default"
SELECT, SLICE = "aten.select_copy.int", "aten.slice_copy.Tensor"
SDPA, SDPA_ONLY, UPDATE = (
    "sdpa_with_kv_cache.default",
    "custom_sdpa.default",
    "update_cache.default",
)
HALF_ROPE = "et_vk.apply_rotary_emb_hf.default"
ARANGE = "aten.arange.start_step"
ZEROS = Constant(Region(BytesSource(b"", "state"), 0, 0), None)  # the initial contents of state


@dataclass(frozen=True)
class BatchedGraph:
    """The changed graph. Its inputs are tokens [1, rows], places [rows, 4] and picks [picks].

    caches, history  the graph's state, which starts with zeros, by value id
    positions        per slot; the history has one more, for a last token
    vocabulary       the number of tokens that have logits, and that can be given
    """

    graph: Graph
    history: int
    caches: tuple[int, ...]
    positions: int
    vocabulary: int


def batched_graph(
    graph: Graph, slots: int, rows: int, picks: int, context: int | None = None
) -> BatchedGraph:
    """Change a graph for up to `rows` tokens and `picks` logits a call; or raise UnsupportedError.

    Slots have as many positions as the file's caches, or `context` if that is less.
    """
    if len(graph.inputs) != 2 or any(graph.is_symint(i) for i in graph.inputs):
        raise UnsupportedError(
            "the method is not one graph that takes tokens and a position alone, so the tokens of "
            "several sequences cannot share a call"
        )
    if len(graph.outputs) != 1 or graph.is_symint(graph.outputs[0]):
        raise UnsupportedError("the method returns more than logits")
    caches = caches_of(graph)
    if not caches:
        raise UnsupportedError("the method has no KV cache")
    positions = min(cache.dims[1] for cache in caches)
    positions = positions if context is None else min(positions, context)
    return _Rewriter(graph, caches, slots, rows, picks, positions).rewrite()


class _Rewriter:
    """A rewrite of a graph, call by call in order, to the calls of the new graph."""

    def __init__(
        self,
        graph: Graph,
        caches: list[Tensor],
        slots: int,
        rows: int,
        picks: int,
        positions: int,
    ) -> None:
        self._graph = graph
        self._flow = Dataflow.of(graph)
        self._tokens, self._position = graph.inputs
        self._caches = tuple(cache.id for cache in caches)
        self._slots, self._rows, self._picks = slots, rows, picks
        self._positions = positions
        self._edit = GraphEditor(graph)
        self._axes = RowAxes(graph)
        self._lengths: set[int] = set()  # SymInts: the number of rows
        self._starts: set[int] = set()  # SymInts: the position of the first row
        self._ends: set[int] = set()  # SymInts: the position after the last row
        self._counted: set[int] = set()  # tensors that number the rows: 0, 1, 2, ...
        self._table_rows = 0  # rows of the embedding's table

    def rewrite(self) -> BatchedGraph:
        tokens = self._graph.tensor(self._tokens)
        for cache in self._caches:
            self._make_state(cache)
        given = self._edit.tensor(tokens.dims, tokens)
        self._given, self._places = given, self._edit.words((self._rows, PLACE_WORDS))
        self._picked = self._edit.words((self._picks,))
        self._history = self._edit.words((self._slots, self._positions + 1, 1, 1))
        self._make_state(self._history)
        self._row_positions = self._edit.words((self._rows,))
        self._axes.of[self._tokens] = self._axes.of[given] = RowAxis(1)
        self._edit.call(SLOT_TOKENS, given, self._history, self._places, self._tokens)
        number = (self._edit.integer(1), self._edit.integer(0))
        self._edit.call(SELECT, self._places, *number, self._row_positions)
        for call in self._graph.calls:
            self._rewrite(call)
        logits = self._logits()
        graph = Graph(
            tuple(self._resized(i) for i in range(len(self._edit.values))),
            tuple(self._edit.calls),
            (self._given, self._places, self._picked),
            (logits,),
        )
        vocabulary = graph.tensor(logits).dims[-1]
        if self._table_rows < vocabulary:
            raise UnsupportedError(
                f"{vocabulary} tokens can be sampled, but the embedding has {self._table_rows}"
            )
        return BatchedGraph(graph, self._history, self._caches, self._positions, vocabulary)

    # Values

    def _make_state(self, value_id: int) -> None:
        """Make a tensor keep its contents from call to call."""
        tensor = self._edit.values[value_id]
        assert isinstance(tensor, Tensor)
        dims = tensor.dims
        if value_id in self._caches:
            dims = (self._slots, self._positions, *dims[2:])
        self._edit.values[value_id] = replace(tensor, dims=dims, constant=ZEROS, mem_obj_id=None)

    def _resized(self, value_id: int) -> Value:
        value, axis = self._edit.values[value_id], self._axes.of.get(value_id)
        if axis is None or not isinstance(value, Tensor):
            return value
        rows = self._picks if axis.picked else self._rows
        dims = (*value.dims[: axis.dim], rows, *value.dims[axis.dim + 1 :])
        return replace(value, dims=dims, mem_obj_id=None, exact=False)

    # Calls of the old graph

    def _rewrite(self, call: Call) -> None:
        if call.name == PREPACK:
            if call.args[-1] not in self._caches:
                self._edit.keep(call)
            return
        op = definition_of(call)
        if op is None:
            raise UnsupportedError(f"{call}: not supported")
        if op.scalar is not None:
            self._rewrite_symint(call, op)
        elif op.name in (SDPA, SDPA_ONLY, UPDATE):
            self._rewrite_cached(call, op)
        elif self._depends_on_position(call):
            self._rewrite_positioned(call, op)
        elif op.name == ARANGE and call.args[1] in self._lengths:
            self._counted.add(call.args[-1])
        elif self._axes_of(call):
            self._rewrite_rows(call, op)
        else:
            self._edit.keep(call)

    def _axes_of(self, call: Call) -> dict[int, RowAxis]:
        ids = self._graph.expand(call.args[:-1])
        return {i: self._axes.of[i] for i in ids if i in self._axes}

    def _rewrite_symint(self, call: Call, op: OpDef) -> None:
        out, taken = call.args[-1], set(call.args[:-1])
        if op.name == SELECT_AS_SYMINT and call.args[0] == self._position:
            self._starts.add(out)
            return
        if op.name == "sym_size.int" and call.args[0] in self._axes:
            axis = self._axes.of[call.args[0]]
            if self._number(call.args[1]) == axis.dim and not axis.picked:
                self._lengths.add(out)
        elif taken & (self._starts | self._ends):
            both = len(taken & self._starts), len(taken & self._lengths)
            if op.name != "add" or both != (1, 1):
                raise self._refused(call)
            self._ends.add(out)
            return
        self._edit.keep(call)

    def _depends_on_position(self, call: Call) -> bool:
        taken = set(self._graph.expand(call.args[:-1]))
        return bool(taken & (self._starts | self._ends | self._counted | {self._position}))

    def _refused(self, call: Call) -> UnsupportedError:
        return UnsupportedError(
            f"{call}: depends on the position in a way that is not known to be possible for each "
            "token by itself"
        )

    def _rewrite_positioned(self, call: Call, op: OpDef) -> None:
        places = op.signature.positions
        if op.name == SLICE:
            _, dim, start, end, step = call.args[:5]
            whole = start in self._starts and end in self._ends and self._number(step) == 1
            if whole and self._number(dim) == 0 and call.args[0] not in self._axes:
                self._gather(call.args[0], call.args[-1])
                return
        elif op.name == "aten.add.Tensor" and {call.args[0], call.args[1]} & self._counted:
            if self._position in call.args[:2] and self._number(call.args[2]) == 1:
                self._axes.of[call.args[-1]] = RowAxis(0)
                self._view(self._row_positions, call.args[-1])
                return
        elif op.name == HALF_ROPE and call.args[places["start_pos"]] in self._starts:
            self._rewrite_half_rope(call, op)
            return
        raise self._refused(call)

    def _gather(self, table: int, out: int) -> None:
        """Give each row the line of a table for the row's position."""
        if self._graph.tensor(table).dims[0] < self._positions:
            self._positions_beyond(table)
        self._axes.of[out] = RowAxis(0)
        self._edit.call(INDEX_SELECT, table, self._edit.integer(0), self._row_positions, out)

    def _positions_beyond(self, table: int) -> None:
        lines = self._graph.tensor(table).dims[0]
        raise UnsupportedError(
            f"a table of {lines} positions (value {table}) is shorter than the KV cache, of "
            f"{self._positions}: set max_context to {lines} at most"
        )

    def _view(self, source: int, out: int) -> None:
        self._edit.call(VIEW, source, self._edit.integers((-1,)), out)

    def _rewrite_half_rope(self, call: Call, op: OpDef) -> None:
        places, args = op.signature.positions, list(call.args)
        for name in ("freqs_cos", "freqs_sin"):
            table = self._graph.tensor(args[places[name]])
            lines = self._edit.tensor((self._rows, *table.dims[1:]), table)
            self._gather(table.id, lines)
            args[places[name]] = lines
        args[places["start_pos"]] = self._edit.integer(0)
        self._axes.follow(call, op)
        self._edit.keep(call, args=tuple(args))

    def _rewrite_cached(self, call: Call, op: OpDef) -> None:
        """Replace writes to caches, and attention to them."""
        places, args = op.signature.positions, call.args
        if args[places["input_pos"]] not in self._starts:
            raise self._refused(call)
        if op.name == UPDATE:
            self._update(args[places["value"]], args[places["cache"]])
            return
        self._check_attention(call, op)
        new = ("query", "key", "value") if op.name == SDPA else ("query",)
        given = [args[places[name]] for name in (*new, "k_cache", "v_cache")]
        for value_id in given[:-2]:
            self._check_rows(value_id)
        more = [
            args[places[name]] if places[name] < len(args) - 1 else None
            for name in ("scale", "window", "soft_cap")
        ]
        scale, window, cap = more
        rest = (
            self._edit.null() if scale is None else scale,
            self._edit.integer(0) if window is None else window,
            self._edit.null() if cap is None else cap,
        )
        name = SLOT_SDPA if op.name == SDPA else SLOT_ATTENTION
        self._axes.of[args[-1]] = RowAxis(1)
        self._edit.call(name, *given, self._places, *rest, args[-1])

    def _update(self, value: int, cache: int) -> None:
        self._check_rows(value)
        dummy = self._edit.tensor((1,), self._graph.tensor(value))
        self._edit.call(UPDATE_SLOTS, value, cache, self._places, dummy)

    def _check_rows(self, value_id: int) -> None:
        if self._axes.of.get(value_id) != RowAxis(1):
            raise UnsupportedError(
                f"value {value_id}, which attention takes, is not known to have a row per token"
            )

    def _check_attention(self, call: Call, op: OpDef) -> None:
        places, args = op.signature.positions, call.args
        given = {n: self._graph.value(args[i]) for n, i in places.items() if i < len(args) - 1}
        causal, mask = given.get("is_causal"), given.get("attn_mask", NullValue())
        if not isinstance(mask, NullValue):
            raise UnsupportedError(f"{call}: a mask says which positions of the cache count")
        if not isinstance(causal, BoolValue | IntValue) or not causal.value:
            raise UnsupportedError(f"{call}: attention is not causal: rows see each other")

    def _rewrite_rows(self, call: Call, op: OpDef) -> None:
        axes = self._axes_of(call)
        source = call.args[0]
        axis = axes.get(source)
        if axis is not None and op.name in (SELECT, SLICE) and self._is_along(call, axis):
            if not axis.picked:
                self._pick(call, axis)
                return
            self._view_of_picked(call, axis)
            return
        if axis is not None and axis.picked and op.alias_of is not None:
            self._view_of_picked(call, axis)
            return
        if op.name in EMBEDDINGS and self._tokens in self._sources(call.args):
            rows = self._graph.tensor(call.args[op.signature.positions["weight"]]).dims[0]
            self._table_rows = min(self._table_rows or rows, rows)
        self._axes.follow(call, op)
        self._edit.keep(call)

    def _sources(self, args: tuple[int, ...]) -> set[int]:
        """Return values, and the values of which they are views."""
        found, left = set[int](), list(args[:-1])
        while left:
            value_id = left.pop()
            found.add(value_id)
            for index in self._flow.writers.get(value_id, ()):
                call = self._graph.calls[index]
                op = definition_of(call)
                if op is not None and op.alias_of is not None:
                    left.append(call.args[0])
        return found

    def _is_along(self, call: Call, axis: RowAxis) -> bool:
        rank = len(self._graph.tensor(call.args[0]).dims)
        dim = self._number(call.args[1])
        return dim is not None and dim % rank == axis.dim

    def _pick(self, call: Call, axis: RowAxis) -> None:
        """Take the rows whose logits are wanted in place of the last row."""
        last = self._number(call.args[2]) == -1
        if not last or (call.name == SLICE and self._number(call.args[4]) != 1):
            raise UnsupportedError(f"{call}: picks other rows than the last one")
        tensor, out = self._graph.tensor(call.args[0]), self._graph.tensor(call.args[-1])
        many = (*tensor.dims[: axis.dim], self._picks, *tensor.dims[axis.dim + 1 :])
        rows = self._edit.tensor(many, tensor)
        self._edit.call(INDEX_SELECT, tensor.id, self._edit.integer(axis.dim), self._picked, rows)
        one = (*tensor.dims[: axis.dim], 1, *tensor.dims[axis.dim + 1 :])
        self._axes.of[rows] = RowAxis(axis.dim, picked=True)
        self._reshape(call, rows, one, out)

    def _view_of_picked(self, call: Call, axis: RowAxis) -> None:
        tensor, out = self._graph.tensor(call.args[0]), self._graph.tensor(call.args[-1])
        self._reshape(call, tensor.id, tensor.dims, out)

    def _reshape(self, call: Call, rows: int, dims: Dims, out: Tensor) -> None:
        """View picked rows, of the file's dims `dims` with one row, as `out` has one row."""
        axis = viewed_axis(dims, self._axes.of[rows], out.dims)
        if axis is None:
            raise UnsupportedError(f"{call}: makes {list(out.dims)} of one row of {list(dims)}")
        self._axes.of[out.id] = axis
        shape = (*out.dims[: axis.dim], -1, *out.dims[axis.dim + 1 :])
        self._edit.call(VIEW, rows, self._edit.integers(shape), out.id)

    def _logits(self) -> int:
        (output,) = self._graph.outputs
        axis, logits = self._axes.of.get(output), self._graph.tensor(output)
        if axis is None or axis.dim != len(logits.dims) - 2:
            raise UnsupportedError(
                f"the logits {list(logits.dims)} are not known to have a row for each token"
            )
        if axis.picked:
            return output
        picked = self._edit.tensor(logits.dims, logits)
        self._axes.of[picked] = RowAxis(axis.dim, picked=True)
        self._edit.call(INDEX_SELECT, output, self._edit.integer(axis.dim), self._picked, picked)
        return picked

    def _number(self, value_id: int) -> int | None:
        value = self._graph.value(value_id)
        return value.value if isinstance(value, IntValue) else None
