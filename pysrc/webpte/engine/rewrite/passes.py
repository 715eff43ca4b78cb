"""Graph passes that keep the results and make a graph cheaper, or possible, to run."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from webpte.engine.dtypes import BFLOAT16, NATIVE_HALF
from webpte.engine.format.vulkan import IntListValue, ValueListValue
from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor, Value
from webpte.engine.ops import definition_of
from webpte.engine.ops.elementwise.unary import CASTS, ROUND_BFLOAT16
from webpte.engine.ops.move.view import PERMUTED_VIEW
from webpte.engine.ops.norm.fused_norm import RMS_NORM
from webpte.engine.ops.norm.norm import UNSCALED_RMS_NORM
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.errors import GraphError


def store_f16(graph: Graph) -> Graph:
    """Store f16 tensors as f16, for devices with f16 shaders: half the memory and traffic."""
    values = tuple(
        replace(value, dtype=NATIVE_HALF)
        if isinstance(value, Tensor) and value.dtype.name == NATIVE_HALF.name
        else value
        for value in graph.values
    )
    return Graph(values, graph.calls, graph.inputs, graph.outputs)


def round_bfloat16(graph: Graph) -> Graph:
    """Round results of bfloat16 where others see them: kernels store their results as float32.

    Outputs, state, and tensors that calls cast to another type or write to state are rounded.
    """
    if not any(map(_is_bfloat16, graph.values)):
        return graph
    flow, values, calls = Dataflow.of(graph), list(graph.values), list[Call]()
    seen = {*graph.outputs, *flow.state}
    for call in graph.calls:
        if any(_is_bfloat16(values[i]) for i in flow.changes(call)) or call.name in CASTS:
            seen.update(flow.reads(call))
    seen = {i for i in seen if _is_bfloat16(values[i])}
    for call in graph.calls:
        made = seen.intersection(flow.gives(call)) - {*flow.changes(call)}
        if call.name == PREPACK or call.name in CASTS or not made:
            calls.append(replace(call, index=len(calls)))
            continue
        raw = dict(zip(sorted(made), range(len(values), len(values) + len(made)), strict=True))
        values += [
            replace(graph.tensor(i), id=new, constant=None, mem_obj_id=None)
            for i, new in raw.items()
        ]
        out = raw.get(call.args[-1], call.args[-1])
        if isinstance(members := values[out], ValueListValue):
            out = len(values)
            values.append(_with_members(members, raw))
        calls.append(replace(call, index=len(calls), args=(*call.args[:-1], out)))
        calls += [
            Call(len(calls) + at, ROUND_BFLOAT16, (new, i), place=f"{call}, rounded")
            for at, (i, new) in enumerate(raw.items())
        ]
    if len(calls) == len(graph.calls):
        return graph
    return Graph(tuple(values), tuple(calls), graph.inputs, graph.outputs)


def _is_bfloat16(value: Value) -> bool:
    return isinstance(value, Tensor) and value.dtype.name == BFLOAT16


def scale_after_norms(graph: Graph) -> Graph:
    """Replace an RMS norm by a norm without a weight and a product, unless the weight is a vector.

    ExecuTorch's exporter takes any factor of a norm as its weight: a gate, a scale per sample,
    another norm. Kernels, fusions and other code that treats rows apart rely on a vector.
    """
    values, calls = list(graph.values), list[Call]()
    for call in graph.calls:
        calls.append(replace(call, index=len(calls)))
        if not _has_other_weight(graph, call):
            continue
        x, weight, eps, out = call.args
        normal = replace(graph.tensor(x), id=len(values), constant=None, mem_obj_id=None)
        values.append(normal)
        named = replace(calls.pop(), place=call.place or str(call))
        calls.append(replace(named, name=UNSCALED_RMS_NORM, args=(x, eps, normal.id)))
        product = replace(named, index=len(calls), name="aten.mul.Tensor")
        calls.append(replace(product, args=(normal.id, weight, out)))
    return Graph(tuple(values), tuple(calls), graph.inputs, graph.outputs)


def _has_other_weight(graph: Graph, call: Call) -> bool:
    """Return whether a call is an RMS norm whose weight is not a vector; skip broken calls."""
    op = definition_of(call) if call.name != PREPACK else None
    if op is None or op.name != RMS_NORM or len(call.args) != 4:
        return False
    x, weight = (graph.value(i) for i in call.args[:2])
    if not isinstance(x, Tensor) or not isinstance(weight, Tensor) or not x.dims:
        return False
    return weight.dims != x.dims[-1:] or not weight.dtype.is_float


def view_permuted_ones(graph: Graph) -> Graph:
    """Make a permutation a view if it moves dims of size 1 only: all elements stay in place.

    Exports of models with a single key head have such permutations.
    """
    calls = tuple(
        replace(call, name=PERMUTED_VIEW) if _moves_ones(graph, call) else call
        for call in graph.calls
    )
    return Graph(graph.values, calls, graph.inputs, graph.outputs)


def _moves_ones(graph: Graph, call: Call) -> bool:
    if call.name not in ("aten.permute_copy.default", "aten.permute.default"):
        return False
    source, order = (graph.value(i) for i in call.args[:2])
    if not isinstance(source, Tensor) or not isinstance(order, IntListValue):
        return False
    rank = len(source.dims)
    moved = [dim % rank for dim in order.items if rank and source.dims[dim % rank] != 1]
    return moved == sorted(moved)


def merge_duplicate_calls(graph: Graph) -> Graph:
    """Merge calls with equal results (common subexpression elimination).

    Two calls of the same op with equal arguments have equal results, unless something writes to
    their inputs. Exports of language models read the position once per layer, and quantize the same
    activation for each of the three linears that use it.
    """
    flow = Dataflow.of(graph)
    replaced: dict[int, int] = {}
    first: dict[Hashable, Call] = {}
    calls: list[Call] = []
    for call in graph.calls:
        args = tuple(replaced.get(i, i) for i in call.args[:-1])
        reads = _members(graph, args, replaced)
        # Mutated values are volatile, so a call that mutates is never merged.
        mergeable = call.name != PREPACK and flow.volatile.isdisjoint((*reads, *flow.gives(call)))
        key = (call.name, tuple(_content(graph, i, replaced) for i in args))
        if mergeable and key in first and _same_outputs(graph, first[key].args[-1], call.args[-1]):
            replaced |= dict(zip(flow.gives(call), graph.expand(first[key].args[-1:]), strict=True))
            continue
        first.setdefault(key, call)
        calls.append(replace(call, index=len(calls), args=(*args, call.args[-1])))
    values = tuple(_with_members(value, replaced) for value in graph.values)
    outputs = tuple(replaced.get(i, i) for i in graph.outputs)
    return Graph(values, tuple(calls), graph.inputs, outputs)


def rewritten_buffers(graph: Graph) -> set[int]:
    """Return the tensors that start with bytes of the file and that calls overwrite."""
    flow = Dataflow.of(graph)
    return {i for i in flow.stored if i in flow.writers}


def separate_buffer_writes(graph: Graph) -> Graph:
    """Compute into a new tensor, then copy, where a call would overwrite a buffer that it reads.

    With the exporter's option `alias_buffer_mutations` the new value of a mutable buffer has the id
    of the buffer, but no dispatch may read and write the same buffer.
    """
    flow, buffers = Dataflow.of(graph), rewritten_buffers(graph)
    values, calls = list(graph.values), list[Call]()
    for call in graph.calls:
        out = call.args[-1]
        if out not in buffers or out not in flow.takes(call) or out in flow.changes(call):
            calls.append(replace(call, index=len(calls)))
            continue
        apart = replace(graph.tensor(out), id=len(values), constant=None, mem_obj_id=None)
        values.append(apart)
        calls.append(replace(call, index=len(calls), args=(*call.args[:-1], apart.id)))
        calls.append(Call(len(calls), "aten.alias_copy.default", (apart.id, out)))
    return Graph(tuple(values), tuple(calls), graph.inputs, graph.outputs)


def tie_buffer_outputs(graph: Graph, count: int) -> Graph:
    """Copy the first `count` outputs to the buffers that they update.

    The file does not name the buffers. A constant is the buffer of an output if no other constant
    has the output's size and type; anything else is refused, because a guess could give wrong
    numbers.
    """
    flow = Dataflow.of(graph)
    packs = [call.args for call in flow.prepacks if len(call.args) == 2]
    sources = {args[0] for args in packs}
    buffers = [graph.tensor(args[1]) for args in packs]
    buffers += [graph.tensor(i) for i in sorted(flow.constants - sources)]
    calls, news = list(graph.calls), [graph.tensor(i) for i in graph.outputs[:count]]
    for new in news:
        alike = [t for t in buffers if (t.dtype, t.dims) == (new.dtype, new.dims)]
        rivals = [t for t in news if (t.dtype, t.dims) == (new.dtype, new.dims)]
        if len(alike) != 1 or len(rivals) != 1:
            raise GraphError(
                f"output value {new.id} ({new.dtype.name} {list(new.dims)}) is the new value of a "
                f"buffer, but {len(alike)} constants have its size and the file does not name one; "
                'export with VulkanPartitioner({"alias_buffer_mutations": True})'
            )
        calls.append(Call(len(calls), "aten.alias_copy.default", (new.id, alike[0].id)))
    return Graph(graph.values, tuple(calls), graph.inputs, graph.outputs[count:])


def _members(graph: Graph, ids: tuple[int, ...], replaced: dict[int, int]) -> list[int]:
    return [replaced.get(i, i) for i in graph.expand(ids)]


def _content(graph: Graph, value_id: int, replaced: dict[int, int]) -> Hashable:
    """Return an argument's key: tensors and SymInts by id, lists by members, scalars by value."""
    value = graph.value(value_id)
    if isinstance(value, ValueListValue):
        return tuple(_content(graph, replaced.get(i, i), replaced) for i in value.items)
    if isinstance(value, Tensor) or graph.is_symint(value_id):
        return ("id", value_id)
    return repr(value)  # includes the type, and distinguishes 0.0 from -0.0


def _same_outputs(graph: Graph, first: int, second: int) -> bool:
    types = [
        [_output_type(graph.value(i)) for i in graph.expand((out,))] for out in (first, second)
    ]
    return types[0] == types[1]


def _output_type(value: Value) -> Hashable:
    if isinstance(value, Tensor):
        return value.dtype, value.dims, value.exact
    return type(value).__name__


def _with_members(value: Value, replaced: dict[int, int]) -> Value:
    if not isinstance(value, ValueListValue):
        return value
    return ValueListValue(tuple(replaced.get(i, i) for i in value.items))
