"""A method's plans at the shapes of example calls, as tables that a page can replay.

Numbers of buffers, kernels and plans in these tables are the recording device's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from webpte.compiling.expressions import Expression, symint_expressions
from webpte.engine.call.info import ScalarInfo, TensorInfo
from webpte.engine.gpu.device import PlanCommands
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.plan.planner import PlannedCall
from webpte.engine.run.delegate import MAX_PLANS, GpuDelegate
from webpte.engine.run.device_plan import DevicePlan, Segment
from webpte.engine.run.method import Method
from webpte.engine.run.request import RunRequest
from webpte.errors import InputError, UnsupportedError

Table = dict[str, Any]

REFUSED = "it cannot be compiled for a page without Python"


def method_table(
    method: Method, plans: Sequence[Table], values: Sequence[Any] | None = None
) -> Table:
    """Return the description of a method: its inputs, outputs and plans, or constant values."""
    table: Table = {
        "inputs": [_described(one) for one in method.info.inputs],
        "outputs": [_described(one) for one in method.info.outputs],
    }
    return table | ({"plans": list(plans)} if values is None else {"values": list(values)})


def _described(info: TensorInfo | ScalarInfo) -> Table:
    if isinstance(info, ScalarInfo):
        return {"name": info.name, "kind": info.kind}
    return {"name": info.name, "dtype": info.dtype, "shape": list(info.shape)}


def whole_delegate(method: Method) -> GpuDelegate:
    """Return the delegate that is a whole method. Raises UnsupportedError for another method."""
    name = method.info.name
    if method.kernels:
        listed = ", ".join(sorted(method.kernels))
        raise UnsupportedError(f"method {name!r}: {REFUSED}, because these run there: {listed}")
    delegate = method.only_delegate
    if not isinstance(delegate, GpuDelegate):
        raise UnsupportedError(
            f"method {name!r}: {REFUSED}, because it has several steps, or values that pass by"
        )
    infos = (*method.info.inputs, *method.info.outputs)
    if any(isinstance(one, ScalarInfo) and one.kind != "int" for one in infos):
        raise UnsupportedError(
            f"method {name!r}: {REFUSED}, because it takes or returns values that are neither "
            "tensors nor integers"
        )
    return delegate


def example_inputs(method: Method) -> list[Any]:
    """Return inputs of the largest shapes that the file declares, all zero."""
    return [
        np.zeros(one.shape, one.array_dtype) if isinstance(one, TensorInfo) else one.value
        for one in method.info.inputs
    ]


async def plan_tables(
    method: Method, device: RecordingDevice, examples: Sequence[Sequence[Any]]
) -> list[Table]:
    """Return the table of the plan for each example call, equal plans only once."""
    if len(examples) > MAX_PLANS:
        raise InputError(
            f"method {method.info.name!r}: {len(examples)} example calls; at most {MAX_PLANS} can "
            "be compiled"
        )
    delegate = whole_delegate(method)
    found: dict[int, Table] = {}
    for inputs in examples:
        number, table = await plan_table(delegate, device, method.request(inputs))
        found[number] = table
    return list(found.values())


async def plan_table(
    delegate: GpuDelegate, device: RecordingDevice, request: RunRequest
) -> tuple[int, Table]:
    """Return the number and the table of the plan for a call."""
    async with delegate.turn():
        run = await delegate.prepare(request)
        return run.plan.segments[-1].handle, _plan_table(delegate, device, run.plan)


def _plan_table(delegate: GpuDelegate, device: RecordingDevice, plan: DevicePlan) -> Table:
    if plan.has_unchecked_indices and delegate.has_state:
        raise UnsupportedError(
            f"{REFUSED}, because indices that the GPU computes choose where state is written"
        )
    (segment,) = plan.segments  # `strict` refuses plans with steps on the host
    commands, graph = device.plans[segment.handle], delegate.graph
    symints = symint_expressions(delegate)
    payload, read = segment.payload, delegate.live.symint
    shapes = iter(dims for dims, _ in plan.signature)
    return {
        "shapes": [None if graph.is_symint(i) else list(next(shapes)) for i in graph.inputs],
        "when": list(_conditions(delegate, symints)),
        "bounds": [
            [symints.get(one.value_id, read(one.value_id)), one.low, one.high, one.why]
            for one in plan.bounds
        ],
        "payload": int(payload.data.size),
        "packed": [
            [payload.offsets[i], graph.tensor(i).dtype.stored] if i in payload.offsets else None
            for i in graph.inputs
        ],
        "symints": [
            [payload.symint_place(index), symints[value_id]]
            for index, value_id in enumerate(delegate.symints)
        ],
        **commands_table(commands, segment.result_bytes),
        "faults": [
            {
                "number": fault.number,
                "message": str(fault),
                "inputs": [
                    [graph.inputs.index(value_id), fault.least(size), size - 1]
                    for value_id, size in fault.indices
                    if value_id in graph.inputs
                ],
            }
            for fault in segment.faults
        ],
        "results": list(_results(delegate, segment, symints)),
    }


def commands_table(commands: PlanCommands, result_bytes: int) -> Table:
    """Return the part of a plan that the device runs."""
    return {
        "uploads": [[u.buffer, u.payload_offset, u.nbytes] for u in commands.uploads],
        "clears": list(commands.clears),
        "dispatches": [
            [d.pipeline, [[r.buffer, r.offset, r.nbytes] for r in d.resources], list(d.grid)]
            for d in commands.dispatches
        ],
        "labels": [d.origin.op.name if d.origin else "" for d in commands.dispatches],
        "readbacks": [[r.buffer, r.nbytes, r.result_offset] for r in commands.readbacks],
        "result": result_bytes,
    }


def _results(
    delegate: GpuDelegate, segment: Segment, symints: Mapping[int, Expression]
) -> Iterator[Table]:
    """Yield the place and type of each output in the bytes read back; SymInts are computed."""
    outputs = iter(segment.outputs)
    for value_id in delegate.graph.outputs:
        if delegate.graph.is_symint(value_id):
            yield {"symint": symints.get(value_id, delegate.live.symint(value_id))}
            continue
        output = next(outputs)
        tensor = output.tensor
        yield {
            "offset": output.offset,
            "stored": tensor.stored.name,
            "dtype": tensor.dtype.name,
            "shape": list(tensor.shape),
        }


def _conditions(
    delegate: GpuDelegate, symints: Mapping[int, Expression]
) -> Iterator[list[Expression]]:
    """Yield [expression, low, high] for each SymInt on whose range the plan depends."""
    found = list[list[Expression]]()
    for value_id, expression in symints.items():
        if isinstance(expression, int):
            continue
        for index in delegate.planner.readers_of(value_id):
            planned = delegate.planner.calls[index]
            if planned.op.scalar is None:
                found += _condition(delegate, planned, value_id, symints)
    yield from (one for at, one in enumerate(found) if one not in found[:at])


def _condition(
    delegate: GpuDelegate,
    planned: PlannedCall,
    value_id: int,
    symints: Mapping[int, Expression],
) -> Iterator[list[Expression]]:
    guard = planned.guard
    if guard is None or not guard.covers(value_id) or not guard.holds(delegate.live.symint):
        value = delegate.live.symint(value_id)
        yield [symints[value_id], value, value]
        return
    read = delegate.live.symint
    led = symints.get(guard.value_id, read(guard.value_id))
    if value_id == guard.value_id:
        yield [led, guard.low, guard.high]
    if guard.follower is not None:
        follower = symints.get(guard.follower, read(guard.follower))
        if follower != ["add", led, guard.distance]:
            yield [["sub", follower, led], guard.distance, guard.distance]
