"""Builds a delegate of a single call for a call of a portable kernel, if the GPU can run it.

A call with two types is a cast, offloaded where the GPU's result is exact: one type holds all
values of the other, or the cast is from float64 to float32, the form that such a tensor has on the
GPU anyway, or to float16 or bfloat16, for which a kernel rounds bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from webpte.engine.dtypes import DTYPES, DType, dtype_of_program
from webpte.engine.format.frames import Frame
from webpte.engine.format.program import (
    BoolList,
    DoubleList,
    Dynamism,
    ExecutionPlan,
    IntListRef,
    KernelCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.engine.format.shared import ScalarType
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Constant, Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.integer_ranges import (
    EXACT_FLOATS,
    SUMS,
    IntegerRanges,
    fits,
    has_rule,
    short_name,
)
from webpte.engine.load.state import Cell, State
from webpte.engine.load.writes import Writes, targets
from webpte.engine.ops import OpDef, lookup
from webpte.engine.plan.memory_plan import plan_memory
from webpte.engine.plan.planner import Planner
from webpte.engine.portable import CallBuilder, PortableKernel, lookup_kernel, why_hosted
from webpte.engine.rewrite.passes import store_f16
from webpte.engine.rewrite.validate import check_arity, resolve_ops
from webpte.errors import UnsupportedError, WebpteError

ALIAS, CAST = "aten.alias_copy.default", "aten._to_copy.default"
BUFFER_LIMITS = ("maxBufferSize", "maxStorageBufferBindingSize")

_SMALL = frozenset({"bool", "uint8", "int8"})
# The types that a GPU casts exactly as the host does, by the type of the output.
EXACT_CASTS = {
    "float64": _SMALL | {"float16", "bfloat16", "float32"},
    "float32": _SMALL | {"float16", "bfloat16", "float64"},
    "float16": _SMALL | {"bfloat16", "float32"},
    "bfloat16": _SMALL | {"float16", "float32"},
    "int32": _SMALL,
    "int64": _SMALL | {"int32"},
}
INTEGERS = frozenset({"int32", "int64"})


@dataclass(frozen=True)
class OffloadedCall:
    """A kernel call as a delegate. `inputs` and `outputs` are values of the method."""

    kernel: PortableKernel
    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def as_delegate(
    plan: ExecutionPlan,
    call: KernelCall,
    state: State,
    writes: Writes,
    device: DeviceInfo,
    ranges: Callable[[], IntegerRanges] | None = None,
) -> OffloadedCall | str:
    """Build the delegate of a call, or return the reason why only the host can run it.

    An invalid call stays on the host, which raises the error when it runs. Without `ranges` nothing
    is known of its integers.
    """
    kernel = lookup_kernel(plan.operators[call.op_index].full_name)
    if kernel is None or kernel.op is None:
        return "there is no such kernel" if kernel is None else why_hosted(kernel)
    if len(call.args) < kernel.arguments + (0 if kernel.in_place else kernel.outputs):
        return "it has too few arguments"
    known = ranges() if ranges and _has_integers(plan, call) and has_rule(kernel.name) else None
    exact = known is not None and known.is_exact(kernel, call)
    builder = _Builder(plan, state, writes, kernel, exact)
    try:
        outputs = tuple(targets(plan, kernel, call))
        if kernel.changes:
            outputs = outputs[-len(kernel.changes) :]  # the results of the other outputs are unused
        cast = _cast_types(plan, kernel, call, outputs)
        if cast is None and known is not None and exact and kernel.casts:
            cast = _integer_cast(plan, call, outputs, known)
        arguments = [
            builder.argument(index, cast or kernel.apart.get(name))
            for name, index in zip(kernel.parameters, call.args, strict=False)
        ]
        outs = [
            builder.bounds(index, cast or kernel.types_of_output(number))
            for number, index in enumerate(outputs)
        ]
        meaning = _meaning(plan, kernel, call, arguments)
        if kernel.check is not None:
            kernel.check(_constants(plan, kernel, call, state, writes))
        if cast:
            meaning = _op(CAST), arguments[:1]
        graph = builder.graph(*meaning, outs)
        static = [_is_static(plan, index) for index in outputs]
        graph = _marked(graph, kernel, static, call.frames)
        if (problem := _no_kernel(graph, device)) is not None:
            return problem
    except WebpteError as error:
        return str(error)
    return OffloadedCall(kernel, graph, tuple(builder.given), outputs)


def _meaning(
    plan: ExecutionPlan, kernel: PortableKernel, call: KernelCall, arguments: Sequence[Any]
) -> tuple[OpDef, Sequence[Any]]:
    """Return the operator that a call stands for, and its arguments."""
    name, given = kernel.op, kernel.op_arguments(arguments)
    if kernel.copied is not None:
        at = kernel.parameters.index(kernel.copied)
        ends = call.args[at], targets(plan, kernel, call)[0]
        sizes = [v.sizes for i in ends if isinstance(v := plan.values[i], TensorMeta)]
        if sizes[0] == sizes[-1] and all(_is_static(plan, index) for index in ends):
            name, given = ALIAS, [arguments[at]]
        elif kernel.in_place and ends[1] not in plan.inputs:
            raise UnsupportedError(f"value {ends[1]} may have no size yet")
    assert name is not None, "only kernels with an operator get here"
    return _op(name), given


def _constants(
    plan: ExecutionPlan, kernel: PortableKernel, call: KernelCall, state: State, writes: Writes
) -> dict[str, np.ndarray]:
    """Return the constants among the arguments of a call, by parameter."""
    pairs = zip(kernel.parameters, call.args, strict=False)
    return {
        name: state[index].array for name, index in pairs if is_constant(plan, state, writes, index)
    }


def _op(name: str) -> OpDef:
    op = lookup(name)
    assert op is not None, "see the registry"
    return op


def _cast_types(
    plan: ExecutionPlan, kernel: PortableKernel, call: KernelCall, outputs: Sequence[int]
) -> frozenset[str] | None:
    """Return the two types of a cast that the GPU does exactly as the host; else None."""
    ends = [plan.values[index] for index in (call.args[0], outputs[0])]
    codes = [value.scalar_type for value in ends if isinstance(value, TensorMeta)]
    if not kernel.casts or len(codes) < 2:
        return None
    source, target = (dtype_of_program(code, kernel.name).name for code in codes)
    return frozenset({source, target}) if source in EXACT_CASTS.get(target, ()) else None


def _has_integers(plan: ExecutionPlan, call: KernelCall) -> bool:
    """Return whether a call has tensors of int32 or int64, or lists that may have some."""
    values = (plan.values[index] for index in call.args)
    return any(
        value.scalar_type in (ScalarType.INT, ScalarType.LONG)
        if isinstance(value, TensorMeta)
        else isinstance(value, TensorList)
        for value in values
    )


def _integer_cast(
    plan: ExecutionPlan, call: KernelCall, outputs: Sequence[int], ranges: IntegerRanges
) -> frozenset[str] | None:
    """Return the two types of a cast of integers that fit into the other type; else None."""
    types = []
    for index in (call.args[0], outputs[0]):
        value = plan.values[index]
        if not isinstance(value, TensorMeta):
            return None
        types.append(dtype_of_program(value.scalar_type, f"value {index}").name)
    source, target = types
    if source not in INTEGERS or source == target:
        return None
    floats = (-EXACT_FLOATS, EXACT_FLOATS)
    if target in INTEGERS or (target == "float32" and fits(ranges[call.args[0]], floats)):
        return frozenset(types)
    return None


def _is_static(plan: ExecutionPlan, index: int) -> bool:
    value = plan.values[index]
    return isinstance(value, TensorMeta) and value.dynamism == Dynamism.STATIC


def _marked(
    graph: Graph, kernel: PortableKernel, static: Sequence[bool], frames: tuple[Frame, ...]
) -> Graph:
    """Mark the call of a graph with its kernel, and outputs whose shape in the file is exact."""
    values = list(graph.values)
    for value_id, exact in zip(graph.outputs, static, strict=True):
        values[value_id] = replace(graph.tensor(value_id), exact=exact)
    (call,) = graph.calls
    marked = replace(call, kernel=kernel.name, frames=frames)
    return Graph(tuple(values), (marked,), graph.inputs, graph.outputs)


def _no_kernel(graph: Graph, device: DeviceInfo) -> str | None:
    """Return the reason why the device cannot run a graph, or None if it can."""
    planner = lowers(graph, device)
    if planner is None:
        return "it has a tensor that fits no buffer of this GPU"
    return next((step.host for step in planner.calls if step.host), None)


def lowers(graph: Graph, device: DeviceInfo) -> Planner | None:
    """Lower a graph at the shapes of the file; return None if some tensor fits no buffer."""
    check_arity(graph)
    if device.has_f16:
        graph = store_f16(graph)
    ops = resolve_ops(graph)
    storage = plan_memory(graph, ops)
    limits = [device.limits[name] for name in BUFFER_LIMITS if name in device.limits]
    if any(slot.nbytes > limit for slot in storage.slots for limit in limits):
        return None
    planner = Planner(graph, LiveState(graph), ops, storage, device.target)
    planner.lower_all()
    return planner


@dataclass(frozen=True)
class _Live:
    """A value of the method that is not in the file: a tensor, or a number that changes.

    `types` are allowed for a tensor whose type may differ from the type of the other tensors.
    """

    index: int
    types: frozenset[str] | None = None


class _Builder(CallBuilder):
    """Builder of the graph of a call. `given` are the values of the method that are its inputs."""

    def __init__(
        self,
        plan: ExecutionPlan,
        state: State,
        writes: Writes,
        kernel: PortableKernel,
        exact: bool,
    ) -> None:
        """Take the call's kernel, and whether its integers are `exact` with 32 bits."""
        super().__init__()
        self._plan = plan
        self._state = state
        self._writes = writes
        self._allowed = kernel.types | (INTEGERS if exact else frozenset())
        sums = short_name(kernel.name) in SUMS
        self._mixed = (INTEGERS | ({"bool"} if sums else set())) if exact else frozenset()
        if exact and sums:
            self._allowed |= {"bool"}
        self._types: set[str] = set()
        self._ids: dict[int, int] = {}
        self.given: list[int] = []

    def argument(self, index: int, types: frozenset[str] | None) -> Any:
        """Return a kernel's argument, with `_Live` in place of a value that is not known yet."""
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
        """Return the dtype and the largest sizes of a tensor.

        The dtype must be in `types`; with None it must equal the dtype of all other tensors.
        """
        value = self._plan.values[index]
        if not isinstance(value, TensorMeta) or value.is_unbounded:
            raise UnsupportedError(f"value {index} is not a tensor, or one of any size")
        dtype = dtype_of_program(value.scalar_type, f"value {index}")
        if types is None:
            self._types.add(dtype.name)
        found, allowed = (self._types, self._allowed) if types is None else ({dtype.name}, types)
        if "int64" in found and "int64" not in allowed:
            raise UnsupportedError("it has int64 numbers that may not fit the 32 bits of a GPU")
        if not found <= allowed or (len(found) > 1 and not found <= self._mixed):
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
                self.bounds(value.index, value.types)  # raises for a type not allowed here
            return self._ids[value.index]
        if isinstance(value, np.ndarray):
            dtype = DTYPES[value.dtype.name]
            return self.tensor(dtype, value.shape, Constant.in_memory(value, dtype))
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
    """Return the bytes of a tensor that no call changes, or None for all other values."""
    return bytes_of(state[index]) if is_constant(plan, state, writes, index) else None


def is_constant(plan: ExecutionPlan, state: State, writes: Writes, index: int) -> bool:
    """Return whether a value is a tensor of the file that no call changes."""
    value = plan.values[index]
    in_file = isinstance(value, TensorMeta) and value.allocation is None
    return in_file and index in state and index not in writes


def bytes_of(cell: Cell) -> Constant:
    """Return a tensor's initial data."""
    if cell.region is None:
        return Constant.in_memory(cell.array, cell.dtype)
    return Constant(cell.region, None)
