"""The order of a method's instructions: calls of delegates next to each other, where possible.

Between two jumps or jump targets, instructions can change places if neither needs the results of
the other. A kernel on the host can then come before a run of delegates that gives it nothing, or
after a run that takes nothing from it. An instruction that writes in place, or moves values, stays
in its place, and no other passes it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from webpte.engine.format.program import (
    Allocation,
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    TensorList,
)
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.values import place_of
from webpte.engine.load.writes import Writes, targets
from webpte.engine.portable import lookup_kernel
from webpte.errors import ExecutionError

Chain = tuple[Instruction, ...]
Rewrite = Callable[[Sequence[Instruction]], Iterable[Instruction]]


@dataclass(frozen=True)
class Uses:
    """The values that an instruction reads and writes. A `fixed` instruction must not move."""

    reads: frozenset[int]
    writes: frozenset[int]
    fixed: bool


def uses_of(method: MethodContents, instruction: Instruction) -> Uses:
    if isinstance(instruction, DelegateCall):
        graph = method.graphs[instruction.delegate_index]
        taken = 0 if graph is None else len(graph.inputs)
        args = instruction.args
        return Uses(frozenset(args[:taken]), frozenset(args[taken:]), False)
    if isinstance(instruction, KernelCall):
        return _uses_of_kernel(method.plan, instruction)
    if isinstance(instruction, FreeCall):
        return Uses(frozenset(), frozenset((instruction.value_index,)), False)
    if isinstance(instruction, MoveCall):
        moved = frozenset((instruction.move_from,))
        return Uses(moved, frozenset((instruction.move_to,)), True)
    return Uses(frozenset((instruction.cond_value_index,)), frozenset(), True)


def _uses_of_kernel(plan: ExecutionPlan, call: KernelCall) -> Uses:
    kernel = lookup_kernel(plan.operators[call.op_index].full_name)
    if kernel is None or len(call.args) < kernel.arguments:
        return Uses(frozenset(members(plan, call.args)), frozenset(call.args), True)
    reads = frozenset(members(plan, call.args[: kernel.arguments]))
    try:
        return Uses(reads, frozenset(targets(plan, kernel, call)), kernel.writes_arguments)
    except ExecutionError:  # an output that is not a list: the call fails when it runs
        return Uses(reads, frozenset(call.args[kernel.arguments :]), True)


def members(plan: ExecutionPlan, indices: Iterable[int]) -> Iterator[int]:
    """Yield the values, and the values that lists among them point at."""
    for index in indices:
        yield index
        value = plan.values[index]
        if isinstance(value, IntListRef | TensorList | OptionalTensorList):
            yield from members(plan, (item for item in value.items if item >= 0))


def viewed_places(method: MethodContents) -> set[Allocation]:
    """Return the places that are read through a view which nothing writes: see `values.py`."""
    plan, written = method.plan, Writes(method)
    read = set(plan.outputs).union(*(uses_of(method, i).reads for i in plan.instructions))
    places = {place_of(plan, index) for index in read if index not in written}
    return {place for place in places if place is not None}


def view_sources(method: MethodContents, before: Iterable[int]) -> dict[int, set[int]]:
    """Map views that no instruction writes to the values last written to the same memory.

    `before` are the values that exist before the first instruction. Where there are jumps, any
    value that is ever written to the place can be the last.
    """
    plan, written = method.plan, Writes(method)
    straight = not any(isinstance(i, JumpFalseCall) for i in plan.instructions)
    latest: dict[Allocation | None, set[int]] = {}
    sources: dict[int, set[int]] = {}
    given = {*before, *plan.inputs}

    def write(indices: Iterable[int]) -> None:
        for index in indices:
            place = place_of(plan, index)
            latest[place] = {index} if straight else latest.get(place, set()) | {index}

    def read(indices: Iterable[int]) -> None:
        for index in indices:
            place = place_of(plan, index)
            if place is not None and index not in written and index not in given:
                sources.setdefault(index, set()).update(latest.get(place, ()))

    write(given)
    every = [uses_of(method, i) for i in plan.instructions if not isinstance(i, FreeCall)]
    for uses in every if not straight else ():
        write(uses.writes)
    for uses in every:
        read(uses.reads)
        write(uses.writes)
    read(members(plan, plan.outputs))
    return sources


def rewrite_blocks(chain: Chain, rewrite: Rewrite) -> Chain:
    """Rewrite each block of a chain: no jump leads into a block, or out of it."""
    jumps = {at: i for at, i in enumerate(chain) if isinstance(i, JumpFalseCall)}
    cuts = {0, len(chain), *jumps, *(at + 1 for at in jumps)}
    cuts |= {min(jump.destination, len(chain)) for jump in jumps.values()}
    places: dict[int, int] = {}
    result: list[Instruction] = []
    bounds = sorted(cuts)
    for start, end in pairwise(bounds):
        places[start] = len(result)
        result += chain[start:end] if start in jumps else rewrite(chain[start:end])
    places[len(chain)] = len(result)
    return tuple(
        replace(i, destination=places[min(i.destination, len(chain))])
        if isinstance(i, JumpFalseCall)
        else i
        for i in result
    )


class InstructionOrder:
    """The new order for the instructions of a method."""

    def __init__(self, method: MethodContents) -> None:
        self._method = method
        self._viewed = viewed_places(method)

    def order(self, block: Sequence[Instruction]) -> list[Instruction]:
        """Reorder instructions so that as few as possible come between delegates."""
        result: list[Instruction] = []
        movable: list[Instruction] = []
        for instruction in block:
            if uses_of(self._method, instruction).fixed:
                result += [*self._order(movable), instruction]
                movable = []
            else:
                movable.append(instruction)
        return [*result, *self._order(movable)]

    def _order(self, block: Sequence[Instruction]) -> list[Instruction]:
        if runs_of_delegates(block) < 2:
            return list(block)
        after, waits = self._dependencies(block)
        # by whether the instruction calls a delegate
        ready: dict[bool, list[int]] = {True: [], False: []}

        def offer(at: int) -> None:
            heapq.heappush(ready[isinstance(block[at], DelegateCall)], at)

        for at, count in enumerate(waits):
            if not count:
                offer(at)
        order: list[Instruction] = []
        delegates = False
        while len(order) < len(block):
            while ready[delegates]:
                at = heapq.heappop(ready[delegates])
                order.append(block[at])
                for later in after[at]:
                    waits[later] -= 1
                    if not waits[later]:
                        offer(later)
            delegates = not delegates
        return order if runs_of_delegates(order) < runs_of_delegates(block) else list(block)

    def _dependencies(self, block: Sequence[Instruction]) -> tuple[list[set[int]], list[int]]:
        """Return the instructions that must follow each instruction, and the number before each."""
        after: list[set[int]] = [set() for _ in block]
        writer: dict[Hashable, int] = {}
        readers: dict[Hashable, list[int]] = {}
        for at, instruction in enumerate(block):
            uses = uses_of(self._method, instruction)
            for what in self._touched(uses.reads):
                if what in writer:
                    after[writer[what]].add(at)
                readers.setdefault(what, []).append(at)
            for what in self._touched(uses.writes):
                earlier = {*readers.pop(what, ()), *([writer[what]] if what in writer else ())}
                for other in earlier - {at}:
                    after[other].add(at)
                writer[what] = at
        waits = [0] * len(block)
        for later in (place for places in after for place in places):
            waits[later] += 1
        return after, waits

    def _touched(self, indices: Collection[int]) -> Iterator[Hashable]:
        yield from indices
        places = {place_of(self._method.plan, index) for index in indices}
        yield from places & self._viewed


def runs_of_delegates(block: Iterable[Instruction]) -> int:
    """Count the runs of delegate calls that only frees of values interrupt."""
    runs, inside = 0, False
    for instruction in block:
        if not isinstance(instruction, FreeCall):
            is_call = isinstance(instruction, DelegateCall)
            runs += is_call and not inside
            inside = is_call
    return runs
