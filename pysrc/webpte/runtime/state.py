"""The host tensors of a method that have bytes before it runs: constants and mutable buffers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from webpte.dtypes import dtype_of_program
from webpte.errors import ConstantError
from webpte.format.program import DataLocation, Dynamism, ExecutionPlan, KernelCall, TensorMeta
from webpte.format.program import Program as FileProgram
from webpte.kernels import lookup_kernel
from webpte.source import ByteSource, Region


async def read_state(
    plan: ExecutionPlan, program: FileProgram, source: ByteSource, named: Mapping[str, Region]
) -> dict[int, np.ndarray]:
    """Value index to array, for every tensor that the file gives bytes for."""
    state: dict[int, np.ndarray] = {}
    for index, value in enumerate(plan.values):
        if not isinstance(value, TensorMeta):
            continue
        region = _region(plan, index, value, program, source, named)
        if region is not None:
            state[index] = _decode(await region.read(0, value.nbytes), value, plan.name)
    return state | _empty_buffers(plan, state)


def _empty_buffers(plan: ExecutionPlan, known: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Mutable buffers whose initial bytes the exporter left out: they start as zeros.

    Only the call that writes one back tells them from other planned tensors.
    """
    changed, computed = set[int](), {*plan.inputs, *known}
    for call in (i for chain in plan.chains for i in chain if isinstance(i, KernelCall)):
        kernel = lookup_kernel(plan.operators[call.op_index].full_name)
        if kernel is not None and kernel.in_place:
            changed.add(call.args[0])
        elif kernel is not None:
            computed.update(call.args[kernel.arguments :])
    buffers = {index: plan.values[index] for index in sorted(changed - computed)}
    return {
        index: np.zeros(value.sizes, dtype_of_program(value.scalar_type, plan.name).numpy)
        for index, value in buffers.items()
        if isinstance(value, TensorMeta) and value.dynamism == Dynamism.STATIC
    }


def _region(
    plan: ExecutionPlan,
    index: int,
    tensor: TensorMeta,
    program: FileProgram,
    source: ByteSource,
    named: Mapping[str, Region],
) -> Region | None:
    if tensor.extra is not None and tensor.extra.location == DataLocation.EXTERNAL:
        key = tensor.extra.fully_qualified_name
        if key not in named:
            raise ConstantError(
                f"method {plan.name!r}: tensor {index} has its bytes under {key!r} in a .ptd file; "
                "open that file together with the program"
            )
        if named[key].size < tensor.nbytes:
            raise ConstantError(
                f"method {plan.name!r}: tensor {index} needs {tensor.nbytes} bytes, "
                f"{key!r} has {named[key].size}"
            )
        return named[key]
    span = program.tensor_span(tensor)
    return None if span is None else Region(source, span.offset, span.size)


def _decode(data: bytes, tensor: TensorMeta, method: str) -> np.ndarray:
    """Bytes are in dim order; arrays are always in logical order."""
    dtype = dtype_of_program(tensor.scalar_type, f"method {method!r}").numpy
    stored = [tensor.sizes[dim] for dim in tensor.dim_order]
    inverse = np.argsort(tensor.dim_order)
    array = np.frombuffer(bytearray(data), dtype).reshape(stored).transpose(inverse)
    return np.ascontiguousarray(array).reshape(tensor.sizes)  # NumPy makes rank 0 rank 1
