"""The live values of a method's call: arrays, numbers, and tensors that stayed on the GPU.

The exporter leaves out a view whose tensor shares planned memory with its source: nothing writes
such a view. Reading it returns the value written last to the same place, in the view's shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor, share_memory, with_shape
from webpte.engine.dtypes import dtype_of_program
from webpte.engine.format.program import (
    Allocation,
    ExecutionPlan,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.engine.load.state import State
from webpte.engine.load.writes import Writes
from webpte.engine.shapes import numel
from webpte.errors import ExecutionError


class Values:
    """Live values by index. `state` outlives the call, and changes only when the call succeeds."""

    def __init__(self, plan: ExecutionPlan, state: State) -> None:
        self._plan = plan
        self._state = state
        self._written: dict[int, Any] = {}
        self._latest: dict[Allocation, int] = {}  # the value last written to each place
        self._made: list[GpuTensor] = []
        self._initial = {index: cell.array for index, cell in state.items()}
        for index, array in self._initial.items():
            self.store(index, array)

    def store(self, index: int, value: Any) -> None:
        self._written[index] = value
        place = place_of(self._plan, index)
        if place is not None:
            self._latest[place] = index

    def keep_state(self) -> None:
        """Keep for the next call the values that a successful call wrote to mutable buffers."""
        for index, cell in self._state.items():
            array = self._written.get(index)
            if array is not None and array is not self._initial[index]:
                cell.array = array

    def made(self, results: Iterable[Any]) -> None:
        """Remember tensors that this call allocated on the GPU, until they are returned."""
        self._made += [result for result in results if isinstance(result, GpuTensor)]

    def destroy_all_but(self, outputs: Sequence[Any]) -> None:
        """Free the tensors that a call allocated on the GPU and does not return."""
        returned = [value for value in outputs if isinstance(value, GpuTensor)]
        for tensor in self._made:
            if not any(share_memory(tensor, other) for other in returned):
                tensor.destroy()

    def free(self, index: int) -> None:
        self._written.pop(index, None)

    def __getitem__(self, index: int) -> Any:
        value = self._written.get(index, self._plan.values[index])
        if not isinstance(value, TensorMeta):
            return value
        viewed = self._view(index, value)
        if viewed is None:
            raise ExecutionError(f"value {index} is read before anything wrote it")
        return viewed

    def known(self, indices: Iterable[int]) -> list[Any]:
        """Return the live values at these indices, and in lists among them, as far as written."""
        found: list[Any] = []
        for index in indices:
            value = self._plan.values[index]
            if isinstance(value, TensorList | OptionalTensorList):
                found += self.known(item for item in value.items if item >= 0)
            elif self.is_written(index):
                found.append(self[index])
        return found

    def is_written(self, index: int) -> bool:
        value = self._plan.values[index]
        return not isinstance(value, TensorMeta) or index in self._written

    def _view(self, index: int, tensor: TensorMeta) -> Any:
        if numel(tensor.sizes) == 0 and not tensor.is_unbounded:
            return np.empty(tensor.sizes, dtype_of_program(tensor.scalar_type, "").numpy)
        place = place_of(self._plan, index)
        source = self._written.get(self._latest.get(place, -1)) if place else None
        if isinstance(source, DeviceTensor) and _fits(source, tensor):
            return replace(source, shape=tensor.sizes)
        if isinstance(source, GpuTensor) and _fits(source, tensor):
            return with_shape(source, tensor.sizes)
        if isinstance(source, np.ndarray) and _fits(source, tensor):
            return source.reshape(tensor.sizes)
        return None


def _fits(source: np.ndarray | DeviceTensor | GpuTensor, view: TensorMeta) -> bool:
    dtype, shape = dtype_of_program(view.scalar_type, ""), source.shape
    if isinstance(source, np.ndarray):
        return numel(shape) == numel(view.sizes) and source.dtype == dtype.numpy
    name = source.dtype.name if isinstance(source, DeviceTensor) else source.declared_dtype
    return numel(shape) == numel(view.sizes) and name == dtype.name


def place_of(plan: ExecutionPlan, index: int) -> Allocation | None:
    """Return the place of a value in planned memory."""
    value = plan.values[index]
    return value.allocation if isinstance(value, TensorMeta) else None


def with_sources(plan: ExecutionPlan, indices: Collection[int], writes: Writes) -> set[int]:
    """Return these values, and the possible sources of the views among them."""
    views = [index for index in indices if index not in writes]
    places = {place_of(plan, index) for index in views} - {None}
    sources = {index for index in range(len(plan.values)) if place_of(plan, index) in places}
    return {*indices, *sources}


def host_values(plan: ExecutionPlan, state: Collection[int], writes: Writes) -> set[int]:
    """Return the values that the host reads; values read by delegates alone can stay on the GPU."""
    needed = set(state)
    for instruction in plan.instructions:
        if isinstance(instruction, KernelCall):
            needed.update(instruction.args)
        elif isinstance(instruction, MoveCall):
            needed |= {instruction.move_from, instruction.move_to}
        elif isinstance(instruction, JumpFalseCall):
            needed.add(instruction.cond_value_index)
    for index in list(needed):
        value = plan.values[index]
        if isinstance(value, TensorList | OptionalTensorList):
            needed.update(item for item in value.items if item >= 0)
    return with_sources(plan, needed, writes)
