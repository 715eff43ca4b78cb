"""Moves calls of portable kernels onto the GPU, so that values between delegates stay there.

Many kernels mean the same as an operator of the delegates (`Kernel.op`). A call of such a kernel
can become a delegate with a single call, which then is treated like any other delegate. It does if

- all its tensors have the same type, for which kernel and operator agree (`Kernel.types`): nothing
  is promoted, and no integer is narrowed, wraps or is divided by 0 in another way than on the host.
  int64 counts as 32 bits where no value can need more (`integer_ranges.py`).
  Indices, masks and tables have separate types (`Kernel.apart`);
- the operator has a GPU kernel for it, at the shapes of the file, and each tensor fits a buffer;
- and any of these holds: all calls of the method can run on the GPU, which makes it a single graph
  without transfers; the call multiplies matrices; it joins delegates, which can then become one
  graph (see `stitch.py`); it takes a value from the GPU that no other call needs as an array (or
  takes only constants), and its outputs are not for kernels on the host alone; or it takes no more
  from the host than it gives to delegates. Offloading any other call would cost transfers.

`MethodContents.hosted` has the reason for each call that stays on the host.

The constants that an offloaded call reads are moved once, when the program is loaded. So are the
mutable buffers of a method with delegates that nothing on the host touches and no other method
shares: see `resident.py`. Other buffers are on the host, and are uploaded for every call that reads
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache

from webpte.engine.format.program import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    TensorMeta,
)
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.load.integer_ranges import Constants, IntegerRanges, fits
from webpte.engine.load.offload_call import OffloadedCall, as_delegate
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.schedule import uses_of
from webpte.engine.load.state import Cell, State
from webpte.engine.load.values import host_values, with_sources
from webpte.engine.load.writes import Writes
from webpte.engine.portable import MOVED

NO_GAIN = "its tensors come from the host, or go there: moving them would cost more"

Place = tuple[int, int]  # the place of an instruction: its chain, and its index there


def offload(
    method: MethodContents,
    state: State,
    device: DeviceInfo,
    shared: Collection[Cell] = (),
    constants: Constants | None = None,
) -> MethodContents:
    """Replace calls of kernels by calls of delegates where the GPU suits them better.

    Buffers that the method shares with other methods stay on the host. `constants` are the ranges
    of integers in delegates (`read_constants`).
    """
    offloaded: dict[Place, OffloadedCall] = {}
    hosted: dict[int, str] = {}
    writes, ranges = Writes(method), cache(lambda: IntegerRanges(method, state, constants or {}))
    for chain, instructions in enumerate(method.plan.chains):
        for position, call in enumerate(instructions):
            if isinstance(call, KernelCall):
                found = as_delegate(method.plan, call, state, writes, device, ranges)
                if isinstance(found, OffloadedCall):
                    offloaded[chain, position] = found
                else:
                    hosted[id(call)] = found
    if any(cell.mutable and cell.dtype.name == "int64" for cell in state.values()):
        narrow = frozenset(index for index in state if fits(ranges()[index]))
        method = replace(method, narrow=narrow)
    moved = movable(method, state, shared)
    on_host = state.keys() - moved
    if _is_whole(method, len(offloaded)) and not any(state[index].mutable for index in on_host):
        return _rewritten(method, offloaded)
    heavy = any(call.kernel.heavy for call in offloaded.values())
    if not heavy and not any(isinstance(i, DelegateCall) for i in method.plan.instructions):
        on_host = set(state)
    while True:
        result = _rewritten(method, offloaded)
        staying = _without_gain(result, offloaded, on_host)
        if not staying:
            return replace(result, hosted=hosted)
        for chain, position in staying:
            hosted[id(method.plan.chains[chain][position])] = NO_GAIN
        offloaded = {place: call for place, call in offloaded.items() if place not in staying}


def _is_whole(method: MethodContents, offloaded: int) -> bool:
    """Return whether, with these calls offloaded, a method consists of delegates alone."""
    others = [i for i in method.plan.instructions if not isinstance(i, DelegateCall | FreeCall)]
    return len(others) == offloaded


def _rewritten(method: MethodContents, offloaded: Mapping[Place, OffloadedCall]) -> MethodContents:
    first = len(method.graphs)
    numbers = {place: first + number for number, place in enumerate(offloaded)}

    def instruction(place: Place, old: Instruction) -> Instruction:
        if place not in offloaded:
            return old
        call = offloaded[place]
        return DelegateCall(numbers[place], (*call.inputs, *call.outputs))

    chains = tuple(
        tuple(instruction((chain, position), old) for position, old in enumerate(instructions))
        for chain, instructions in enumerate(method.plan.chains)
    )
    return replace(
        method,
        plan=replace(method.plan, chains=chains),
        graphs=(*method.graphs, *(call.graph for call in offloaded.values())),
        offloaded={
            **method.offloaded,
            **{numbers[place]: call.kernel.name for place, call in offloaded.items()},
        },
    )


def movable(method: MethodContents, state: State, shared: Collection[Cell]) -> set[int]:
    """Return the mutable buffers that delegates could keep, if nothing else touches them."""
    if any(isinstance(instruction, JumpFalseCall) for instruction in method.plan.instructions):
        return set()  # a delegate could run a second time, or not at all, before the buffer's write
    return {
        index
        for index, cell in state.items()
        if cell.mutable and cell.array.size
        if cell.array.dtype.name in MOVED or index in method.narrow
        if not any(cell is other for other in shared)
    }


def _without_gain(
    method: MethodContents, offloaded: Mapping[Place, OffloadedCall], kept: Collection[int]
) -> set[Place]:
    """Return the cheap calls to leave on the host, because no value on the GPU passes through them.

    `kept` is state of the host.
    """
    plan, writes = method.plan, Writes(method)
    on_host = host_values(plan, kept, writes)
    resident = writes.by_delegates - on_host - with_sources(plan, plan.outputs, writes)
    joining = _joining(method, writes)

    def gains(call: OffloadedCall) -> bool:
        taken = with_sources(plan, call.inputs, writes) & resident
        if not taken and call.inputs:
            given = _bytes_of(plan, resident & {*call.outputs})
            return 0 < given >= _bytes_of(plan, call.inputs)
        return not on_host.issuperset(call.outputs)

    staying = {place for place, call in offloaded.items() if not (call.kernel.heavy or gains(call))}
    return staying - joining


def _bytes_of(plan: ExecutionPlan, indices: Iterable[int]) -> int:
    values = [plan.values[index] for index in indices]
    return sum(value.nbytes for value in values if isinstance(value, TensorMeta))


def _joining(method: MethodContents, writes: Writes) -> set[Place]:
    """Return the delegates with a delegate before them as source and another after as reader."""
    found: set[Place] = set()
    for chain, instructions in enumerate(method.plan.chains):
        calls = [(at, i) for at, i in enumerate(instructions) if isinstance(i, DelegateCall)]
        uses = {at: uses_of(method, call) for at, call in calls}
        sources = {at: with_sources(method.plan, uses[at].reads, writes) for at in uses}
        given: set[int] = set()
        after = set()
        for at, use in uses.items():
            if sources[at] & given:
                after.add(at)
            given |= use.writes
        taken: set[int] = set()
        for at, use in reversed(uses.items()):
            if at in after and use.writes & taken:
                found.add((chain, at))
            taken |= sources[at]
    return found
