"""Folds the kernel calls of a method that constants determine, when the program is loaded.

Exports have many such calls (`full`, `arange`, `scalar_tensor`, masks computed from their results),
and each would run with every call of the method, between delegates that could be joined to a single
graph for the GPU.

A call stays in the method if another call writes to its outputs, if its outputs are large, or if it
fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from webpte.engine.dtypes import dtype_of_program
from webpte.engine.format.program import (
    Dynamism,
    EValue,
    FreeCall,
    Instruction,
    KernelCall,
    TensorMeta,
)
from webpte.engine.load.constant_folder import ConstantFolder
from webpte.engine.load.kernel_calls import run_kernel
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.schedule import members, rewrite_blocks, uses_of, view_sources
from webpte.engine.load.state import Cell, State
from webpte.engine.load.writes import Writes
from webpte.engine.portable import lookup_kernel
from webpte.engine.shapes import Dims, numel

# bytes of a call's outputs; more would cost more memory than the time saved is worth
MOST_BYTES = 16 * 2**20


async def fold(method: MethodContents, state: State) -> tuple[MethodContents, State]:
    """Fold the calls that constants determine; returns the method, and state with the results."""
    folder = _MethodFolder(method, state)
    await folder.fold(i for i in method.plan.instructions if isinstance(i, KernelCall))
    if not folder.folded:
        return method, state
    plan = method.plan
    gone = {id(i) for i in folder.folded}
    names = Counter(plan.operators[i.op_index].full_name for i in folder.folded)

    def without(block: Iterable[Instruction]) -> list[Instruction]:
        """Return a block without the folded calls, and without frees of their results."""
        return [
            i
            for i in block
            if id(i) not in gone
            and not (isinstance(i, FreeCall) and i.value_index in folder.results)
        ]

    chains = tuple(rewrite_blocks(chain, without) for chain in plan.chains)
    values = tuple(folder.results.get(i, value) for i, value in enumerate(plan.values))
    values = tuple(_as_value(value, plan.values[i]) for i, value in enumerate(values))
    result = replace(method, plan=replace(plan, chains=chains, values=values), folded=names)
    return result, state | folder.cells(result)


def _as_value(value: Any, declared: EValue) -> EValue:
    """Return the plan's value for a result: an array has its exact shape, and no planned memory."""
    if not isinstance(value, np.ndarray):
        return value
    assert isinstance(declared, TensorMeta)
    return replace(declared, sizes=value.shape, allocation=None, dynamism=Dynamism.STATIC)


def _is_view(source: TensorMeta, view: EValue) -> bool:
    """Return whether a value can only be the elements of another in a different shape."""
    if not isinstance(view, TensorMeta) or view.scalar_type != source.scalar_type:
        return False
    exact = source.dynamism == view.dynamism == Dynamism.STATIC
    return exact and numel(view.sizes) == numel(source.sizes)


class _MethodFolder(ConstantFolder[KernelCall]):
    """A folder of the kernel calls of a method. `results` are arrays and numbers, by index."""

    def __init__(self, method: MethodContents, state: State) -> None:
        super().__init__()
        self._method = method
        self._plan = method.plan
        self._state = state
        self._writes = Writes(method)
        self._views = view_sources(method, state)
        self._writers = Counter(method.plan.inputs)
        for instruction in method.plan.instructions:
            if not isinstance(instruction, FreeCall):
                self._writers.update(uses_of(method, instruction).writes)

    def can_fold(self, call: KernelCall) -> bool:
        uses = uses_of(self._method, call)
        kernel = lookup_kernel(self._name(call))
        if kernel is None or kernel.draws or uses.fixed:
            return False
        return all(map(self._is_known, uses.reads)) and all(map(self._may_be_constant, uses.writes))

    def compute(self, call: KernelCall) -> dict[int, Any] | None:
        kernel = lookup_kernel(self._name(call))
        assert kernel is not None, "see can_fold"
        found = dict(run_kernel(self._plan, kernel, call, self._read))
        if not all(isinstance(value, np.ndarray | int | float) for value in found.values()):
            return None
        for index, value in list(found.items()):
            found |= {view: value.reshape(self._sizes(view)) for view in self._views_of(index)}
        return found

    def _name(self, call: KernelCall) -> str:
        return self._plan.operators[call.op_index].full_name

    def _views_of(self, index: int) -> list[int]:
        return [view for view, sources in self._views.items() if index in sources]

    def _sizes(self, index: int) -> Dims:
        value = self._plan.values[index]
        assert isinstance(value, TensorMeta)
        return value.sizes

    def _is_known(self, index: int) -> bool:
        if index in self.results:
            return True
        if isinstance(self._plan.values[index], TensorMeta):
            cell = self._state.get(index)
            return cell is not None and not cell.mutable and index not in self._writes
        return index not in self._writes

    def _read(self, index: int) -> Any:
        if index in self.results:
            return self.results[index]
        value = self._plan.values[index]
        return self._state[index].array if isinstance(value, TensorMeta) else value

    def _may_be_constant(self, index: int) -> bool:
        """Return whether a small value is written by a single call, and has only plain views."""
        value = self._plan.values[index]
        if self._writers[index] > 1 or index in self._state:
            return False
        if not isinstance(value, TensorMeta):
            return value is None or isinstance(value, bool | int | float)
        small = not value.is_unbounded and value.nbytes <= MOST_BYTES
        views = [self._plan.values[view] for view in self._views_of(index)]
        alone = all(self._views[view] == {index} for view in self._views_of(index))
        return small and alone and all(_is_view(value, view) for view in views)

    def cells(self, method: MethodContents) -> State:
        """Return cells for the arrays that some instruction still reads."""
        plan = method.plan
        read = set(members(plan, plan.outputs))
        for instruction in plan.instructions:
            read |= uses_of(method, instruction).reads
        return {
            index: Cell(
                np.ascontiguousarray(value).reshape(value.shape),
                dtype_of_program(tensor.scalar_type, f"value {index}"),
            )
            for index, value in self.results.items()
            if isinstance(value, np.ndarray) and index in read
            if isinstance(tensor := plan.values[index], TensorMeta)
        }
