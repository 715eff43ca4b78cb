"""The graph of a delegate: values by id, calls in order, constants resolved to their bytes.

`format.vulkan` describes the file; this module interprets the file, and refuses contradictions. A
graph is immutable; `live_state.py` has the state that changes from call to call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from webpte.engine.dtypes import DTYPES, DType, dtype_of_delegate
from webpte.engine.files.source import ByteSource, BytesSource, Region
from webpte.engine.format.frames import Frame
from webpte.engine.format.vulkan import (
    BoolListValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    SymIntValue,
    TensorValue,
    ValueListValue,
    VkDelegate,
    VkGraph,
)
from webpte.engine.shapes import Dims, numel
from webpte.errors import ConstantError, GraphError, ValueKindError

PREPACK = "et_vk.prepack.default"
COPY = "aten.alias_copy.default"


@dataclass(frozen=True)
class Constant:
    """The bytes of a constant tensor. `key` is None for bytes inside the delegate's blob.

    An empty region stands for zeros: state that is in no file.
    """

    region: Region
    key: str | None

    @classmethod
    def in_memory(cls, array: np.ndarray, dtype: DType | None = None) -> Constant:
        """Return an array, or the array cast to `dtype`, as a constant that is in no file."""
        data = (dtype or DTYPES[array.dtype.name]).to_bytes(array)
        source = BytesSource(data, "constant")
        return cls(Region(source, 0, source.size), None)


@dataclass(frozen=True)
class Tensor:
    """A tensor value. `dims` are the largest dims, for which memory is allocated; live dims may be
    smaller.

    If they are `exact`, the live dims must equal them.
    """

    id: int
    dtype: DType
    dims: Dims
    constant: Constant | None
    mem_obj_id: int | None  # values with equal ids may share memory; None: a separate buffer
    exact: bool = False

    @property
    def file_bytes(self) -> int:
        return numel(self.dims) * self.dtype.itemsize

    @property
    def storage_bytes(self) -> int:
        return numel(self.dims) * self.dtype.storage.itemsize


Value = (
    Tensor
    | NullValue
    | IntValue
    | DoubleValue
    | BoolValue
    | StringValue
    | IntListValue
    | DoubleListValue
    | BoolListValue
    | ValueListValue
    | SymIntValue
)

_KINDS: dict[type, str] = {
    Tensor: "a tensor",
    NullValue: "null",
    IntValue: "an int",
    DoubleValue: "a double",
    BoolValue: "a bool",
    StringValue: "a string",
    IntListValue: "a list of ints",
    DoubleListValue: "a list of doubles",
    BoolListValue: "a list of bools",
    ValueListValue: "a list of values",
    SymIntValue: "a SymInt",
}


@dataclass(frozen=True)
class Call:
    """An operator call. `args` are value ids, the output's last.

    `kernel` names the method's kernel that the call stands for, and `place` its origin in a graph
    of several delegates: both are for messages. A fused call has `parts`: the original calls, in an
    order in which they could run. `origin` is the number of the call in the file, `frames` the
    lines of the model that made it, if the export has them.
    """

    index: int
    name: str
    args: tuple[int, ...]
    kernel: str | None = None
    place: str | None = None
    parts: tuple[Call, ...] = ()
    origin: int | None = None
    frames: tuple[Frame, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return self.kernel or self.place or f"op {self.index} ({self.name})"


class Graph:
    """Values, calls, inputs and outputs of a delegate."""

    def __init__(
        self,
        values: tuple[Value, ...],
        calls: tuple[Call, ...],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        self.values = values
        self.calls = calls
        self.inputs = inputs
        self.outputs = outputs
        self.derived: dict[type, object] = {}  # caches of later layers, such as Dataflow
        self._expanded: dict[tuple[int, ...], tuple[int, ...]] = {}

    def value(self, value_id: int) -> Value:
        try:
            if value_id >= 0:
                return self.values[value_id]
        except IndexError:
            pass
        raise GraphError(f"value {value_id} does not exist; the graph has {len(self.values)}")

    def kind(self, value_id: int) -> str:
        """Return the kind of a value in words, for messages."""
        return _KINDS[type(self.value(value_id))]

    def _wrong_kind(self, value_id: int, wanted: str) -> ValueKindError:
        return ValueKindError(f"value {value_id} is {self.kind(value_id)}, not {wanted}")

    def tensor(self, value_id: int) -> Tensor:
        value = self.value(value_id)
        if not isinstance(value, Tensor):
            raise self._wrong_kind(value_id, "a tensor")
        return value

    def is_symint(self, value_id: int) -> bool:
        return isinstance(self.value(value_id), SymIntValue)

    def symint(self, value_id: int) -> SymIntValue:
        value = self.value(value_id)
        if not isinstance(value, SymIntValue):
            raise self._wrong_kind(value_id, "a SymInt")
        return value

    def value_list(self, value_id: int) -> tuple[int, ...]:
        value = self.value(value_id)
        if not isinstance(value, ValueListValue):
            raise self._wrong_kind(value_id, "a list of values")
        return value.items

    def expand(self, value_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ids, each list of values followed by its members."""
        found = self._expanded.get(value_ids)
        if found is None:
            ids = list[int]()
            for value_id in value_ids:
                ids.append(value_id)
                value = self.value(value_id)
                if isinstance(value, ValueListValue):
                    ids += value.items
            found = self._expanded[value_ids] = tuple(ids)
        return found

    def tensors(self) -> Iterator[Tensor]:
        return (value for value in self.values if isinstance(value, Tensor))

    def tensor_outputs(self) -> list[Tensor]:
        """Return the outputs that are tensors; the host knows the other outputs, SymInts."""
        return [self.tensor(i) for i in self.outputs if not self.is_symint(i)]

    def used_symints(self) -> list[int]:
        """Return the SymInts that some call reads or yields, in the order of their ids."""
        used = {i for call in self.calls for i in self.expand(call.args)} | set(self.inputs)
        return sorted(i for i in used if self.is_symint(i))

    def op_counts(self) -> dict[str, int]:
        """Count the calls of each operator, most frequent first."""
        return dict(Counter(call.name for call in self.calls).most_common())


def build_graph(delegate: VkDelegate, source: ByteSource, named: Mapping[str, Region]) -> Graph:
    """Resolve constants and calls of the file. `named` maps keys to the bytes of named data."""
    file_graph = delegate.graph
    blob = Region(source, delegate.constants.offset, delegate.constants.size)
    values = tuple(
        _build_tensor(value_id, value, file_graph, blob, named)
        if isinstance(value, TensorValue)
        else value
        for value_id, value in enumerate(file_graph.values)
    )
    calls = tuple(
        Call(index, call.name, call.args, origin=index)
        for index, call in enumerate(file_graph.chain)
    )
    for call in calls:
        if not call.args and call.name != PREPACK:  # prepack has its own errors
            raise GraphError(f"{call}: has neither arguments nor an output")
    graph = Graph(values, calls, file_graph.input_ids, file_graph.output_ids)
    _check_ends(graph)
    return _with_copies(graph)


def _with_copies(graph: Graph) -> Graph:
    """Replace a prepack of a computed value by a copy, at its place in the graph.

    Exporters write such a prepack where a model computes a weight. A prepack with other faults
    stays, and validation raises its errors.
    """
    known = set(graph.inputs)
    calls: list[Call] = []
    for call in graph.calls:
        copies = call.name == PREPACK and _is_copy(graph, call, known)
        calls.append(replace(call, name=COPY) if copies else call)
        if call.name != PREPACK or copies:
            known.update(graph.expand(call.args[-1:]))
    return Graph(graph.values, tuple(calls), graph.inputs, graph.outputs)


def _is_copy(graph: Graph, call: Call, known: set[int]) -> bool:
    tensors = [graph.value(value_id) for value_id in call.args]
    if len(tensors) != 2 or not all(isinstance(value, Tensor) for value in tensors):
        return False
    source, out = (graph.tensor(value_id) for value_id in call.args)
    computed = source.constant is None and source.id in known
    alike = (source.dtype, source.dims) == (out.dtype, out.dims)
    return computed and alike and out.constant is None and out.id not in known


def _check_ends(graph: Graph) -> None:
    for end, value_ids in (("input", graph.inputs), ("output", graph.outputs)):
        for value_id in value_ids:
            if not isinstance(graph.value(value_id), Tensor | SymIntValue):
                raise ValueKindError(
                    f"{end} value {value_id} is {graph.kind(value_id)}; a graph's {end}s are "
                    "tensors and SymInts, and the members of a list one by one"
                )
    for value_id, times in Counter(graph.inputs).items():
        if times > 1:
            raise GraphError(f"input value {value_id} is listed {times} times, but must be once")


def _build_tensor(
    value_id: int, value: TensorValue, graph: VkGraph, blob: Region, named: Mapping[str, Region]
) -> Tensor:
    dtype = dtype_of_delegate(value.datatype, f"tensor value {value_id}")
    constant = None
    if value.constant_id is not None:
        needed = numel(value.dims) * dtype.itemsize
        where = f"constant {value.constant_id} of tensor value {value_id} {list(value.dims)}"
        constant = _resolve_constant(graph, value.constant_id, needed, where, blob, named)
    return Tensor(value_id, dtype, value.dims, constant, value.mem_obj_id)


def _resolve_constant(
    graph: VkGraph,
    constant_id: int,
    needed: int,
    where: str,
    blob: Region,
    named: Mapping[str, Region],
) -> Constant:
    if not graph.constants:
        raise ConstantError(f"{where}: the graph has no table of constants")
    if constant_id >= len(graph.constants):
        raise ConstantError(f"{where}: the table of constants has {len(graph.constants)} entries")
    entry = graph.constants[constant_id]
    if entry.offset is not None:
        constant = Constant(Region(blob.source, blob.offset + entry.offset, entry.length), None)
    elif entry.named_key is None:
        raise ConstantError(f"{where}: its entry has neither an offset nor a key")
    elif entry.named_key not in named:
        raise ConstantError(
            f"{where}: no named data under the key {entry.named_key}; "
            "if the weights were exported to a .ptd file, open it together with the program"
        )
    else:
        constant = Constant(named[entry.named_key], entry.named_key)
    if constant.region.size < needed:
        raise ConstantError(
            f"{where}: {needed} bytes are needed, {constant.region.size} are in the file"
        )
    return constant
