"""Calls of portable kernels on the host, with arguments and outputs as declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webpte.engine.dtypes import dtype_of_program
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
from webpte.engine.load.writes import targets
from webpte.engine.portable import OutSpec, PortableKernel, fit_output

Read = Callable[[int], Any]  # returns the live value at an index


def run_kernel(
    plan: ExecutionPlan,
    kernel: PortableKernel,
    call: KernelCall,
    read: Read,
    *,
    unwritten: bool = False,
) -> list[tuple[int, Any]]:
    """Run a kernel, and return its outputs by index. `unwritten`: its target has no value yet."""
    written = targets(plan, kernel, call)
    arguments = [
        None if unwritten and index == written[0] else host_value(read, index)
        for index in call.args[: kernel.arguments]
    ]
    outs = [out_spec(plan, index) for index in written]
    results = kernel.run(arguments, [out for out in outs if out is not None])
    return [
        (index, result if out is None else fit_output(kernel.name, result, out))
        for index, out, result in zip(written, outs, results, strict=True)
    ]


def host_value(read: Read, index: int) -> Any:
    """Return a value in the form that kernels take: lists of indices become lists of values."""
    value = read(index)
    if isinstance(value, IntListRef | TensorList):
        return [host_value(read, item) for item in value.items]
    if isinstance(value, OptionalTensorList):
        return [None if item == -1 else host_value(read, item) for item in value.items]
    if isinstance(value, DoubleList | BoolList):
        return list(value.items)
    return value


def out_spec(plan: ExecutionPlan, index: int) -> OutSpec | None:
    """Return the dtype and shape required of a tensor output, or None for a number."""
    value = plan.values[index]
    if not isinstance(value, TensorMeta):
        return None
    dtype = dtype_of_program(value.scalar_type, f"value {index}")
    return OutSpec(dtype, value.sizes, value.dynamism != Dynamism.STATIC, value.is_unbounded)
