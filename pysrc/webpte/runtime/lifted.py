"""Calls of kernels that run on the GPU: what is between two delegates need not leave it.

Many kernels mean the same as an operator of the delegates (`Kernel.op`). A call of one can become a
delegate of a single call, to which everything applies that is true of delegates. It does where

- all its tensors are of one type, of those for which the two are the same (`Kernel.types`): nothing
  is promoted, and no integer is narrowed, wraps or is divided by 0 in another way than on the host.
  Indices, masks and tables are of types of their own (`Kernel.apart`);
- the operator has a GPU kernel for it, at the shapes of the file, and each tensor fits a buffer;
- all calls of the method can run on the GPU: then it is one graph, and nothing is left to save;
- or it multiplies matrices; or it joins delegates, which can then be one (see `stitch.py`); or it
  takes something from the GPU that nothing else needs as an array (or constants alone), and what it
  gives is not for kernels on the host alone; or it takes no more from the host than it gives to
  delegates. Lifting anything else would cost transfers.

`MethodContents.hosted` says of each call that stays on the host why it does.

Constants that it reads are moved once, when the program is loaded. So are mutable buffers that
nothing on the host touches and no other method shares, in a method with delegates: see
`resident.py`. Others are on the host, and go up with every call that reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from webpte.checks import check_arity, resolve_ops
from webpte.dtypes import DTYPES, DType, dtype_of_program
from webpte.errors import UnsupportedError, WebpteError
from webpte.format.program import (
    BoolList,
    DelegateCall,
    DoubleList,
    Dynamism,
    ExecutionPlan,
    FreeCall,
    Instruction,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.format.vulkan import SymIntValue
from webpte.gpu.device import DeviceInfo
from webpte.graph import Constant, Graph
from webpte.kernels import MOVED, CallBuilder, Kernel, lookup_kernel, why_hosted
from webpte.live import LiveState
from webpte.ops import OpDef, lookup
from webpte.passes import store_halves
from webpte.plan import Planner
from webpte.runtime.contents import MethodContents
from webpte.runtime.open import open_bytes
from webpte.runtime.schedule import uses_of
from webpte.runtime.state import Cell, State
from webpte.runtime.values import host_values, with_sources
from webpte.runtime.writes import Writes, targets
from webpte.source import Region
from webpte.storage import plan_storage

ALIAS = "aten.alias_copy.default"
NO_GAIN = "its tensors come from the host, or go there: moving them would cost more"
BUFFER_LIMITS = ("maxBufferSize", "maxStorageBufferBindingSize")

Place = tuple[int, int]  # of an instruction: which chain, and where in it


@dataclass(frozen=True)
class _Lifted:
    """A call as a delegate. `inputs` and `outputs` are values of the method."""

    kernel: Kernel
    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def lift(
    method: MethodContents, state: State, device: DeviceInfo, shared: Collection[Cell] = ()
) -> MethodContents:
    """The method with calls of delegates for the calls of kernels that belong on the GPU.

    Buffers that it shares with other methods stay on the host."""
    lifted: dict[Place, _Lifted] = {}
    hosted: dict[int, str] = {}
    writes = Writes(method)
    for chain, instructions in enumerate(method.plan.chains):
        for position, call in enumerate(instructions):
            if isinstance(call, KernelCall):
                found = _as_delegate(method.plan, call, state, writes, device)
                if isinstance(found, _Lifted):
                    lifted[chain, position] = found
                else:
                    hosted[id(call)] = found
    moved = movable(method.plan, state, shared)
    on_host = state.keys() - moved
    if _is_whole(method, len(lifted)) and not any(state[index].mutable for index in on_host):
        return _rewritten(method, lifted)
    if not any(isinstance(i, DelegateCall) for i in method.plan.instructions):
        on_host = state.keys() if not any(c.kernel.heavy for c in lifted.values()) else on_host
    while True:
        result = _rewritten(method, lifted)
        staying = _without_gain(result, lifted, on_host)
        if not staying:
            return replace(result, hosted=hosted)
        for chain, position in staying:
            hosted[id(method.plan.chains[chain][position])] = NO_GAIN
        lifted = {place: call for place, call in lifted.items() if place not in staying}


def _is_whole(method: MethodContents, lifted: int) -> bool:
    """Whether nothing but delegates is left of a method once so many calls are lifted."""
    others = [i for i in method.plan.instructions if not isinstance(i, DelegateCall | FreeCall)]
    return len(others) == lifted


def _as_delegate(
    plan: ExecutionPlan, call: KernelCall, state: State, writes: Writes, device: DeviceInfo
) -> _Lifted | str:
    """The call on the GPU, or why only the host can run it; if it is wrong, the host says it."""
    kernel = lookup_kernel(plan.operators[call.op_index].full_name)
    if kernel is None or kernel.op is None:
        return "there is no such kernel" if kernel is None else why_hosted(kernel)
    if len(call.args) < kernel.arguments + (0 if kernel.in_place else kernel.outputs):
        return "it has too few arguments"
    builder = _Builder(plan, state, writes, kernel.types)
    try:
        outputs = tuple(targets(plan, kernel, call))
        arguments = [
            builder.argument(index, kernel.apart.get(name))
            for name, index in zip(kernel.parameters, call.args, strict=False)
        ]
        outs = [
            builder.bounds(index, kernel.types_of_output(number))
            for number, index in enumerate(outputs)
        ]
        graph = builder.graph(*_meaning(plan, kernel, call, arguments), outs)
        graph = _marked(graph, kernel, [_is_static(plan, index) for index in outputs])
        if (problem := _no_kernel(graph, device)) is not None:
            return problem
    except WebpteError as error:
        return str(error)
    return _Lifted(kernel, graph, tuple(builder.given), outputs)


def _meaning(
    plan: ExecutionPlan, kernel: Kernel, call: KernelCall, arguments: Sequence[Any]
) -> tuple[OpDef, Sequence[Any]]:
    """The operator that a call means, and its arguments."""
    name, given = kernel.op, kernel.op_arguments(arguments)
    if kernel.copied is not None:
        at = kernel.parameters.index(kernel.copied)
        ends = call.args[at], targets(plan, kernel, call)[0]
        sizes = [v.sizes for i in ends if isinstance(v := plan.values[i], TensorMeta)]
        if sizes[0] == sizes[-1] and all(_is_static(plan, index) for index in ends):
            name, given = ALIAS, [arguments[at]]
        elif kernel.in_place and ends[1] not in plan.inputs:
            raise UnsupportedError(f"value {ends[1]} may have no size yet")
    op = None if name is None else lookup(name)
    assert op is not None, "see the registry"
    return op, given


def _is_static(plan: ExecutionPlan, index: int) -> bool:
    value = plan.values[index]
    return isinstance(value, TensorMeta) and value.dynamism == Dynamism.STATIC


def _marked(graph: Graph, kernel: Kernel, static: Sequence[bool]) -> Graph:
    """The graph of a call that knows its kernel, and which outputs have the file's exact shape."""
    values = list(graph.values)
    for value_id, exact in zip(graph.outputs, static, strict=True):
        values[value_id] = replace(graph.tensor(value_id), exact=exact)
    (call,) = graph.calls
    return Graph(tuple(values), (replace(call, kernel=kernel.name),), graph.inputs, graph.outputs)


def _no_kernel(graph: Graph, device: DeviceInfo) -> str | None:
    """Why the device cannot run a graph; None if it can."""
    planner = lowers(graph, device)
    if planner is None:
        return "it has a tensor that fits no buffer of this GPU"
    return next((step.host for step in planner.steps if step.host), None)


def lowers(graph: Graph, device: DeviceInfo) -> Planner | None:
    """The plan of a graph at the shapes of the file; None if some tensor fits no buffer."""
    check_arity(graph)
    if device.has_halves:
        graph = store_halves(graph)
    ops = resolve_ops(graph)
    storage = plan_storage(graph, ops)
    limits = [device.limits[name] for name in BUFFER_LIMITS if name in device.limits]
    if any(slot.nbytes > limit for slot in storage.slots for limit in limits):
        return None
    planner = Planner(graph, LiveState(graph), ops, storage, device.target)
    planner.lower_all()
    return planner


def _rewritten(method: MethodContents, lifted: Mapping[Place, _Lifted]) -> MethodContents:
    first = len(method.graphs)
    numbers = {place: first + number for number, place in enumerate(lifted)}

    def instruction(place: Place, old: Instruction) -> Instruction:
        if place not in lifted:
            return old
        call = lifted[place]
        return DelegateCall(numbers[place], (*call.inputs, *call.outputs))

    chains = tuple(
        tuple(instruction((chain, position), old) for position, old in enumerate(instructions))
        for chain, instructions in enumerate(method.plan.chains)
    )
    return replace(
        method,
        plan=replace(method.plan, chains=chains),
        graphs=(*method.graphs, *(call.graph for call in lifted.values())),
        lifted={numbers[place]: call.kernel.name for place, call in lifted.items()},
    )


def movable(plan: ExecutionPlan, state: State, shared: Collection[Cell]) -> set[int]:
    """Mutable buffers that delegates could keep, if nothing else touches them."""
    if any(isinstance(instruction, JumpFalseCall) for instruction in plan.instructions):
        return set()  # a delegate could run again before, or without, what writes to one
    return {
        index
        for index, cell in state.items()
        if cell.mutable and cell.array.size and cell.array.dtype.name in MOVED
        if not any(cell is other for other in shared)
    }


def _without_gain(
    method: MethodContents, lifted: Mapping[Place, _Lifted], kept: Collection[int]
) -> set[Place]:
    """The calls that are light, and through which nothing passes that stays on the GPU.

    `kept` is state of the host."""
    plan, writes = method.plan, Writes(method)
    on_host = host_values(plan, kept, writes)
    resident = writes.by_delegates - on_host - with_sources(plan, plan.outputs, writes)
    joining = _joining(method, writes)

    def gains(call: _Lifted) -> bool:
        taken = with_sources(plan, call.inputs, writes) & resident
        if not taken and call.inputs:
            given = _bytes_of(plan, resident & {*call.outputs})
            return 0 < given >= _bytes_of(plan, call.inputs)
        return not on_host.issuperset(call.outputs)

    staying = {place for place, call in lifted.items() if not (call.kernel.heavy or gains(call))}
    return staying - joining


def _bytes_of(plan: ExecutionPlan, indices: Iterable[int]) -> int:
    values = [plan.values[index] for index in indices]
    return sum(value.nbytes for value in values if isinstance(value, TensorMeta))


def _joining(method: MethodContents, writes: Writes) -> set[Place]:
    """The delegates that take what one before them gives, and give what one after them takes."""
    found: set[Place] = set()
    for chain, instructions in enumerate(method.plan.chains):
        calls = [(at, i) for at, i in enumerate(instructions) if isinstance(i, DelegateCall)]
        uses = {at: uses_of(method, call) for at, call in calls}
        sources = {at: with_sources(method.plan, uses[at].reads, writes) for at in uses}
        given: set[int] = set()
        behind = set()
        for at, use in uses.items():
            if sources[at] & given:
                behind.add(at)
            given |= use.writes
        taken: set[int] = set()
        for at, use in reversed(uses.items()):
            if at in behind and use.writes & taken:
                found.add((chain, at))
            taken |= sources[at]
    return found


@dataclass(frozen=True)
class _Live:
    """A value of the method that its file does not tell: a tensor, or a number that changes.

    `types` are those of a tensor that is not of the same type as the others."""

    index: int
    types: frozenset[str] | None = None


class _Builder(CallBuilder):
    """The graph of a call. `given` are the values of the method that are its inputs."""

    def __init__(
        self, plan: ExecutionPlan, state: State, writes: Writes, types: frozenset[str]
    ) -> None:
        super().__init__()
        self._plan = plan
        self._state = state
        self._writes = writes
        self._allowed = types
        self._types: set[str] = set()
        self._ids: dict[int, int] = {}
        self.given: list[int] = []

    def argument(self, index: int, types: frozenset[str] | None) -> Any:
        """A value as kernels take it, with what is not known yet in its place."""
        value = self._plan.values[index]
        if isinstance(value, TensorMeta):
            return _Live(index, types)
        if isinstance(value, IntListRef | TensorList):
            return [self.argument(item, types) for item in value.items]
        if isinstance(value, OptionalTensorList):
            return [None if item == -1 else self.argument(item, types) for item in value.items]
        if isinstance(value, DoubleList | BoolList):
            return list(value.items)
        if index not in self._writes:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return _Live(index)
        raise UnsupportedError(f"value {index} changes, and only integers may")

    def bounds(self, index: int, types: frozenset[str] | None) -> tuple[DType, tuple[int, ...]]:
        """The type, of `types` or the same as that of all others, and the largest sizes."""
        value = self._plan.values[index]
        if not isinstance(value, TensorMeta) or value.is_unbounded:
            raise UnsupportedError(f"value {index} is no tensor, or one of any size")
        dtype = dtype_of_program(value.scalar_type, f"value {index}")
        if types is None:
            self._types.add(dtype.name)
        found, allowed = (self._types, self._allowed) if types is None else ({dtype.name}, types)
        if len(found) > 1 or not found <= allowed:
            raise UnsupportedError(
                f"it has tensors of {' and '.join(sorted(found))}; on the GPU all are of one type: "
                f"{', '.join(sorted(allowed))}"
            )
        return dtype, value.sizes

    def add(self, value: Any) -> int:
        if isinstance(value, _Live):
            if value.index not in self._ids:
                self._ids[value.index] = self._add_live(value)
            elif isinstance(self._plan.values[value.index], TensorMeta):
                self.bounds(value.index, value.types)  # for what it is here
            return self._ids[value.index]
        if isinstance(value, np.ndarray):
            constant = Constant(_in_memory(value), None)
            return self.tensor(DTYPES[value.dtype.name], value.shape, constant)
        return super().add(value)

    def _add_live(self, live: _Live) -> int:
        index, value = live.index, self._plan.values[live.index]
        constant = None
        if isinstance(value, TensorMeta):
            constant = constant_of(self._plan, self._state, self._writes, index)
            value_id = self.tensor(*self.bounds(index, live.types), constant)
        else:
            assert isinstance(value, int)
            value_id = self.append(SymIntValue(value))
        if constant is None:
            self.given.append(index)
            self.inputs.append(value_id)
        return value_id


def constant_of(plan: ExecutionPlan, state: State, writes: Writes, index: int) -> Constant | None:
    """The bytes of a tensor that no call changes; None for all others."""
    value = plan.values[index]
    if index not in state or index in writes or not isinstance(value, TensorMeta):
        return None
    if value.allocation is not None or state[index].mutable:
        return None
    return bytes_of(state[index])


def bytes_of(cell: Cell) -> Constant:
    """What a tensor starts with."""
    return Constant(_in_memory(cell.array) if cell.region is None else cell.region, None)


def _in_memory(array: np.ndarray) -> Region:
    """The bytes of an array as a part of a file."""
    data = array.tobytes()
    return Region(open_bytes(data, "constant"), 0, len(data))
