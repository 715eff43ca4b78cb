"""Moves mutable buffers from the host to the GPU, as state of a delegate.

The exporter ends a method with a `copy_` for each buffer that the model changes and that no
delegate has taken. Once that call is offloaded and stitched (see `offload.py`, `stitch.py`), a
delegate takes the buffer and gives its new value. If no other delegate does, the buffer becomes a
constant of the delegate's graph that a copy at the end writes to, like the caches of the file's own
delegates: nothing is uploaded or read back, and the delegate restores the buffer if a call fails
(see `guard.py`). A cache that gets new rows is written in place, without a copy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from webpte.engine.format.program import DelegateCall
from webpte.engine.format.vulkan import ValueListValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.load.offload import movable
from webpte.engine.load.offload_call import ALIAS, bytes_of
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.schedule import members, uses_of
from webpte.engine.load.state import Cell, State
from webpte.engine.load.stitch import read_on_host
from webpte.engine.load.values import with_sources
from webpte.engine.load.writes import Writes
from webpte.engine.ops import lookup
from webpte.engine.ops.attention.cache_update import IN_PLACE
from webpte.engine.rewrite.dataflow import Dataflow


def keep_state(
    method: MethodContents, state: State, shared: Collection[Cell]
) -> tuple[MethodContents, State]:
    """Move buffers into delegates; returns the method and the state that stays on the host.

    Buffers that are `shared` with other methods stay.
    """
    for index in sorted(movable(method, state, shared)):
        moved = _moved(method, state, index)
        if moved is not None:
            method = moved
            state = {i: cell for i, cell in state.items() if i != index}
    return method, state


def _moved(method: MethodContents, state: State, index: int) -> MethodContents | None:
    """Move a buffer into the only delegate that touches it; return None if it cannot be moved."""
    call = _only_user(method, index)
    graph = None if call is None else method.graphs[call.delegate_index]
    if call is None or graph is None:
        return None
    inputs, outputs = call.args[: len(graph.inputs)], call.args[len(graph.inputs) :]
    if inputs.count(index) > 1 or outputs.count(index) != 1:
        return None
    if index not in inputs:  # the buffer is never read
        left = tuple(i for i, at in zip(graph.outputs, outputs, strict=True) if at != index)
        kept = Graph(graph.values, graph.calls, graph.inputs, left)
        return _replaced(method, call, kept, index) if left else None
    old, new = graph.inputs[inputs.index(index)], graph.outputs[outputs.index(index)]
    if old in read_on_host(graph) or not all(_is(graph, i, state[index]) for i in (old, new)):
        return None
    if new in graph.inputs:
        return None
    changed = _with_buffer(graph, old, new, outputs.index(index), state[index])
    return _replaced(method, call, changed, index)


def _replaced(
    method: MethodContents, call: DelegateCall, graph: Graph, index: int
) -> MethodContents:
    """Replace the graph of a delegate by a graph that neither takes nor returns value `index`."""
    graphs = list(method.graphs)
    graphs[call.delegate_index] = graph
    moved = replace(call, args=tuple(i for i in call.args if i != index))
    chains = tuple(tuple(moved if i is call else i for i in c) for c in method.plan.chains)
    return replace(method, plan=replace(method.plan, chains=chains), graphs=tuple(graphs))


def _is(graph: Graph, value_id: int, cell: Cell) -> bool:
    value = graph.values[value_id]
    alike = cell.dtype.name, cell.array.shape
    return isinstance(value, Tensor) and (value.dtype.name, value.dims) == alike


def _only_user(method: MethodContents, index: int) -> DelegateCall | None:
    """Return the delegate call that alone touches a buffer, if no view of the buffer is read."""
    plan, writes = method.plan, Writes(method)
    users = []
    for instruction in plan.instructions:
        uses = uses_of(method, instruction)
        if index in uses.reads | uses.writes:
            users.append(instruction)
        if index in with_sources(plan, uses.reads - {index}, writes):
            return None
    if index in with_sources(plan, set(members(plan, plan.outputs)), writes):
        return None
    user = users[0] if len(users) == 1 else None
    return user if isinstance(user, DelegateCall) else None


def _with_buffer(graph: Graph, old: int, new: int, output: int, cell: Cell) -> Graph:
    """Turn input `old` into a constant, to which output number `output` is written back."""
    flow, values, calls = Dataflow.of(graph), list(graph.values), list(graph.calls)
    tensor = graph.tensor(old)
    values[old] = replace(tensor, constant=bytes_of(cell), mem_obj_id=None)
    outputs = tuple(i for at, i in enumerate(graph.outputs) if at != output)
    writer = [call for call in graph.calls if call.args[-1] == new]
    if len(writer) == 1 and _updates(flow, writer[0], old) and new not in outputs:
        return _updated_in_place(graph, values, writer[0], old, outputs)
    alone = new not in flow.readers and new not in outputs
    if alone and [call.name for call in writer] == [ALIAS]:
        # this call writes the buffer back: readers of the old value come before
        at = writer[0].index
        calls[at] = replace(writer[0], args=(*writer[0].args[:-1], old))
    else:
        calls.append(Call(len(calls), ALIAS, (new, old), place="a buffer that is written back"))
    inputs = tuple(i for i in graph.inputs if i != old)
    return Graph(tuple(values), tuple(calls), inputs, outputs)


def _updates(flow: Dataflow, writer: Call, old: int) -> bool:
    """Return whether a call copies a cache with new rows, and is the old cache's last reader."""
    op = lookup(writer.name)
    if op is None or op.name not in IN_PLACE:
        return False
    at = op.signature.positions["cache"]
    return writer.args[at] == old and max(flow.readers[old]) == writer.index


def _updated_in_place(
    graph: Graph, values: list[Value], writer: Call, old: int, outputs: tuple[int, ...]
) -> Graph:
    """Write new rows to the buffer itself: readers of the new cache read the buffer."""
    new, dummy = writer.args[-1], len(values)
    values.append(Tensor(dummy, graph.tensor(old).dtype, (1,), None, None))
    values = [
        ValueListValue(tuple(old if i == new else i for i in value.items))
        if isinstance(value, ValueListValue)
        else value
        for value in values
    ]
    calls = tuple(
        replace(call, name=IN_PLACE[call.name], args=(*call.args[:-1], dummy))
        if call is writer
        else replace(call, args=tuple(old if i == new else i for i in call.args))
        for call in graph.calls
    )
    return Graph(tuple(values), calls, tuple(i for i in graph.inputs if i != old), outputs)
