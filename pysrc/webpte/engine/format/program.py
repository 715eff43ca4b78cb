"""The contents of a `.pte` file, as frozen records. `pte.py` reads them and checks every index.

A program has methods (execution plans). A method has a table of values and a list of instructions
that name values by index: calls of operators, calls of delegates, moves and jumps. Bytes stay in
the file: records hold their `Span`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from webpte.engine.format.flat import Span
from webpte.engine.format.frames import Frame
from webpte.engine.format.shared import ScalarType, byte_size
from webpte.errors import InputError


class Dynamism(IntEnum):
    """Whether `sizes` are exact, upper bounds, or a first guess."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class DataLocation(IntEnum):
    """Whether a tensor's bytes are in this file or, by name, in a `.ptd`."""

    SEGMENT = 0
    EXTERNAL = 1


class DelegateLocation(IntEnum):
    """Whether a delegate's blob is in the flatbuffer or in a segment."""

    INLINE = 0
    SEGMENT = 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Planned memory: a byte offset in the plan's buffer `memory_id` (counted from 1)."""

    memory_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class ExtraTensorInfo:
    """The location of the initial bytes of a mutable or external tensor."""

    mutable_data_segments_idx: int
    fully_qualified_name: str
    location: DataLocation
    device_type: int
    device_index: int


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A host tensor. `dim_order` lists the dims from outermost to innermost in memory."""

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    data_buffer_idx: int
    allocation: Allocation | None
    dynamism: Dynamism
    extra: ExtraTensorInfo | None

    @property
    def is_unbounded(self) -> bool:
        """Whether the tensor can become larger than `sizes`."""
        return self.dynamism == Dynamism.DYNAMIC_UNBOUND

    @property
    def nbytes(self) -> int:
        """Bytes at `sizes`, the upper bounds of a dynamic tensor."""
        return byte_size(self.sizes, self.scalar_type.itemsize)


@dataclass(frozen=True, slots=True)
class IntListRef:
    """A list of ints: its items are indices of Int values, not the ints themselves."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    """A list of floats, stored directly."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    """A list of bools, stored directly."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors, by value index."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OptionalTensorList:
    """A list of tensors, by value index; -1 stands for None."""

    items: tuple[int, ...]


EValue: TypeAlias = (
    bool
    | int
    | float
    | str
    | TensorMeta
    | IntListRef
    | DoubleList
    | BoolList
    | TensorList
    | OptionalTensorList
    | None
)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Run an operator. Args are the schema's, then the outputs, then the returned values again.

    `frames` are the lines of the model that the call comes from, if the export has them.
    """

    op_index: int
    args: tuple[int, ...]
    frames: tuple[Frame, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Run a delegate. Args are its graph's inputs, then its outputs, in the graph's order."""

    delegate_index: int
    args: tuple[int, ...]
    frames: tuple[Frame, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class MoveCall:
    """Copy one value to another."""

    move_from: int
    move_to: int


@dataclass(frozen=True, slots=True)
class JumpFalseCall:
    """Continue at `destination` if the value is false; the chain's length means stop."""

    cond_value_index: int
    destination: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Free a value's memory."""

    value_index: int


Instruction: TypeAlias = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that runs outside of delegates."""

    name: str
    overload: str

    @property
    def full_name(self) -> str:
        """The name with its overload, as in `aten::topk.values`."""
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """An option that the exporter passed to the backend."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class BackendDelegate:
    """A part of a method compiled for the backend `id`; see `ProgramFile.delegate_span`."""

    id: str
    location: DelegateLocation
    index: int
    compile_specs: tuple[CompileSpec, ...]


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A method. Without instructions it returns constants."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[EValue, ...]
    chains: tuple[tuple[Instruction, ...], ...]
    operators: tuple[Operator, ...]
    delegates: tuple[BackendDelegate, ...]
    non_const_buffer_sizes: tuple[int, ...]
    container_inputs: str
    container_outputs: str

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Instructions of all chains."""
        return tuple(instruction for chain in self.chains for instruction in chain)


@dataclass(frozen=True, slots=True)
class Subsegments:
    """Parts of a segment: `spans[i]` reaches from the i-th offset to the segment's end."""

    segment_index: int
    offsets: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A `.pte` file. All spans are absolute in the file."""

    version: int
    methods: tuple[ExecutionPlan, ...]
    segments: tuple[Span, ...]
    constant_segment: Subsegments | None
    constant_buffers: tuple[Span, ...]
    mutable_data_segments: tuple[Subsegments, ...]
    inline_delegates: tuple[Span, ...]
    named_data: dict[str, Span]

    def method(self, name: str) -> ExecutionPlan:
        """Return the method with a name; raise InputError for an unknown name."""
        for plan in self.methods:
            if plan.name == name:
                return plan
        names = ", ".join(plan.name for plan in self.methods) or "none"
        raise InputError(f"the program has no method {name!r}; its methods: {names}")

    def delegate_span(self, reference: BackendDelegate) -> Span:
        """Return the span of a delegate's blob."""
        if reference.location is DelegateLocation.INLINE:
            return self.inline_delegates[reference.index]
        return self.segments[reference.index]

    def tensor_span(self, tensor: TensorMeta) -> Span | None:
        """Return the span of a tensor's initial bytes: a constant, or the state of a mutable
        tensor.

        None for a tensor that is computed or given at run time, or has its bytes in a `.ptd` (then
        `tensor.extra` has the name).
        """
        places = self.initial_data(tensor)
        if places is None:
            return None
        return Span(places[tensor.data_buffer_idx].offset, tensor.nbytes)

    def initial_data(self, tensor: TensorMeta) -> tuple[Span, ...] | None:
        """Return the list of spans that `tensor.data_buffer_idx` indexes; None if it is unused."""
        extra = tensor.extra
        external = extra is not None and extra.location is DataLocation.EXTERNAL
        if tensor.data_buffer_idx == 0 or external:
            return None
        if tensor.allocation is not None:
            group = extra.mutable_data_segments_idx if extra else 0
            groups = self.mutable_data_segments
            return groups[group].spans if group < len(groups) else ()
        if self.constant_segment is not None and self.constant_segment.offsets:
            return self.constant_segment.spans
        return self.constant_buffers
