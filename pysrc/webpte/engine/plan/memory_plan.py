"""The memory planner: assigns tensors to buffers by lifetime and aliasing.

A view aliases its source: both are in the same buffer. The exporter's own plan (`mem_obj_id`)
treats every view as a copy and may reuse the source's memory while the view is still read, so this
planner ignores that plan, and computes lifetimes of whole groups of aliases.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.ops import OpDef
from webpte.engine.rewrite.dataflow import Dataflow

# Kernels read and write whole quads, see wgsl/lib/quads.wgsl: 16 bytes of float32.
ALIGNMENT = 16


def aligned(nbytes: int) -> int:
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


@dataclass(frozen=True)
class Slot:
    """A GPU buffer, shared by tensors with disjoint lifetimes.

    A dedicated slot belongs to a single alias group and keeps its contents from call to call.
    """

    index: int
    nbytes: int
    dedicated: bool


@dataclass(frozen=True)
class MemoryPlan:
    """Slots, the slot of each tensor that needs memory, and the calls that became aliases.

    `root_of` has the tensor whose memory a view shares, by view.
    """

    slots: tuple[Slot, ...]
    slot_of: dict[int, int]
    aliased_calls: frozenset[int]
    root_of: dict[int, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(slot.nbytes for slot in self.slots)


@dataclass
class _Group:
    """An alias group: tensors in the same buffer, and its lifetime (first and last call index)."""

    members: list[Tensor]
    first: int
    last: int
    dedicated: bool

    @property
    def nbytes(self) -> int:
        return aligned(max(member.storage_bytes for member in self.members))


def plan_memory(graph: Graph, ops: dict[int, OpDef], borrowed: Container[int] = ()) -> MemoryPlan:
    """Plan the memory of a graph; `ops` maps call indices to definitions, without prepacks.

    The memory of `borrowed` tensors belongs to other plans, and is not reused.
    """
    flow = Dataflow.of(graph)
    root_of, aliased = _find_aliases(graph, ops, flow)
    kept = kept_inputs(graph)
    groups: dict[int, _Group] = {}
    for value_id, (first, last) in lifetimes(graph).items():
        tensor, root = graph.tensor(value_id), root_of.get(value_id, value_id)
        group = groups.setdefault(root, _Group([], first, last, False))
        group.members.append(tensor)
        group.first, group.last = min(group.first, first), max(group.last, last)
        group.dedicated |= value_id in flow.stored or value_id in flow.mutated
        group.dedicated |= value_id in kept or value_id in borrowed
    return replace(_assign_slots(list(groups.values()), aliased), root_of=root_of)


def kept_inputs(graph: Graph) -> tuple[int, ...]:
    """Return the inputs that stay the same between decode steps, which keep their memory.

    A graph with state that takes tokens [1, n] and a position [1] decodes. Other inputs, such as
    the keys and values of an encoder's output, stay the same for a whole answer, except for inputs
    with a row per token, [1, n, ...].
    """
    tensors = [graph.values[i] for i in graph.inputs]
    given = [one for one in tensors if isinstance(one, Tensor)]
    if len(given) < len(tensors) or len(given) < 3 or not Dataflow.of(graph).state:
        return ()
    decodes = [(len(one.dims), one.dtype.numpy.kind) for one in given[:2]] == [(2, "i"), (1, "i")]
    more = zip(graph.inputs[2:], given[2:], strict=True)
    return tuple(i for i, one in more if decodes and one.dims[:2] != given[0].dims)


def lifetimes(graph: Graph) -> dict[int, tuple[int, int]]:
    """Return the first and the last call that uses each tensor; -1 is before the first call."""
    flow = Dataflow.of(graph)
    found: dict[int, tuple[int, int]] = {}

    def touch(value_ids: Iterable[int], at: int) -> None:
        for value_id in graph.expand(tuple(value_ids)):
            if isinstance(graph.value(value_id), Tensor):
                first, last = found.get(value_id, (at, at))
                found[value_id] = (min(first, at), max(last, at))

    touch(flow.prepacked, -1)
    for call in flow.computing:
        touch(call.args, call.index)
    touch([i for i in graph.inputs if i in found or i in graph.outputs], -1)
    touch(graph.outputs, len(graph.calls))
    return found


def _find_aliases(
    graph: Graph, ops: dict[int, OpDef], flow: Dataflow
) -> tuple[dict[int, int], frozenset[int]]:
    """Return the root tensor of each view that aliases its source, and the calls of these views.

    A view may alias its source if neither is written afterwards: nothing mutates them in place, and
    each is written once. An input is written by the next call's upload, when all its views are
    dead.
    """
    root_of: dict[int, int] = {}
    aliased: set[int] = set()
    for call in graph.calls:
        op = ops.get(call.index)
        if op is None or op.alias_of is None:
            continue
        source = graph.tensor(call.args[op.signature.positions[op.alias_of]])
        out = graph.tensor(call.args[-1])
        root = root_of.get(source.id, source.id)
        shared = {source.id, root, out.id}
        stable = not flow.mutated & shared and all(flow.times_written(i) == 1 for i in shared)
        if stable and out.dtype.holds_stored(source.dtype):
            root_of[out.id] = root
            aliased.add(call.index)
    return root_of, frozenset(aliased)


def _assign_slots(groups: list[_Group], aliased: frozenset[int]) -> MemoryPlan:
    """Assign groups to slots, best fit: a slot is free for groups that start after its last use."""
    sizes: list[int] = []
    dedicated: list[bool] = []
    free_from: list[int] = []
    slot_of: dict[int, int] = {}
    for group in sorted(groups, key=lambda group: (group.first, -group.nbytes)):
        index = None if group.dedicated else _best_fit(group, sizes, dedicated, free_from)
        if index is None:
            index = len(sizes)
            sizes.append(0)
            dedicated.append(group.dedicated)
            free_from.append(0)
        sizes[index] = max(sizes[index], group.nbytes)
        free_from[index] = group.last
        slot_of |= {member.id: index for member in group.members}
    slots = tuple(Slot(i, sizes[i], dedicated[i]) for i in range(len(sizes)))
    return MemoryPlan(slots, slot_of, aliased)


def _best_fit(
    group: _Group, sizes: list[int], dedicated: list[bool], free_from: list[int]
) -> int | None:
    """Return the free slot that wastes least: the smallest that fits, else the largest, to grow.

    A slot is free strictly after its last use: a dispatch must not read and write the same buffer.
    """
    free = [i for i in range(len(sizes)) if not dedicated[i] and free_from[i] < group.first]
    fitting = [i for i in free if sizes[i] >= group.nbytes]
    if fitting:
        return min(fitting, key=sizes.__getitem__)
    return max(free, key=sizes.__getitem__, default=None)
