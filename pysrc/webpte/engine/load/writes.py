"""The values that the instructions of a method write."""

from __future__ import annotations

from collections.abc import Sequence

from webpte.engine.format.program import (
    DelegateCall,
    ExecutionPlan,
    KernelCall,
    MoveCall,
    TensorList,
)
from webpte.engine.load.program_file import MethodContents
from webpte.engine.portable import PortableKernel, lookup_kernel
from webpte.errors import ExecutionError


class Writes:
    """Values that calls compute or callers give, and buffers that calls change in place."""

    def __init__(self, method: MethodContents) -> None:
        plan = method.plan
        self.computed = set(plan.inputs)
        self.changed: set[int] = set()
        self.by_delegates: set[int] = set()
        for instruction in plan.instructions:
            if isinstance(instruction, KernelCall):
                kernel = lookup_kernel(plan.operators[instruction.op_index].full_name)
                if kernel is not None:
                    self.changed.update(instruction.args[at] for at in kernel.changed)
                if kernel is not None and not kernel.in_place:
                    self.computed.update(instruction.args[kernel.arguments :])
            elif isinstance(instruction, DelegateCall):
                graph = method.graphs[instruction.delegate_index]
                count = 0 if graph is None else len(graph.inputs)
                taken, given = {*instruction.args[:count]}, {*instruction.args[count:]}
                self.by_delegates |= given
                self.computed |= given - taken
                self.changed |= given & taken
            elif isinstance(instruction, MoveCall):
                self.computed.add(instruction.move_to)
        lists = [plan.values[index] for index in self.computed]
        self.computed.update(i for v in lists if isinstance(v, TensorList) for i in v.items)

    def __contains__(self, index: int) -> bool:
        return index in self.computed or index in self.changed


def targets(plan: ExecutionPlan, kernel: PortableKernel, call: KernelCall) -> Sequence[int]:
    """Return the values that a call of a kernel writes: outputs, then arguments that it changes."""
    changed = tuple(call.args[at] for at in kernel.changed)
    if kernel.in_place:
        return changed
    outputs = call.args[kernel.arguments : kernel.arguments + kernel.outputs]
    if not kernel.list_output:
        return (*outputs, *changed)
    listed = plan.values[outputs[0]]
    if not isinstance(listed, TensorList):
        raise ExecutionError(f"its output is a {type(listed).__name__}, not a list")
    return listed.items
