"""The speed of a device: kernels timed by the GPU's clock.

Bytes count every tensor once, as it is stored: the least that a kernel must move. Small tensors can
seem faster than memory, because a call leaves them in the GPU's caches for the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor, upload
from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.files.source import Region, check_range
from webpte.engine.gpu.device import Device
from webpte.engine.graph.graph import Constant, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef, lookup
from webpte.engine.ops.core.args import Args
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.portable import CallBuilder
from webpte.engine.rewrite.passes import store_f16
from webpte.engine.rewrite.validate import resolve_ops
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import OutputPlacement
from webpte.engine.run.request import DryRun, RunRequest
from webpte.engine.run.timings import Timings
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError, UnsupportedOpError
from webpte.inspection.report import Rates
from webpte.inspection.report.work import work_of

OutSpec = tuple[DType, Dims]

PLACEHOLDERS = 3  # the most outputs of any operator


@dataclass(frozen=True)
class TimeBudget:
    """The time to spend on measuring. The clocks of an idle GPU are a fraction of a busy GPU's."""

    warm_ms: float = 300
    runs: int = 15
    most_ms: float = 3000  # time limit for all timed runs
    busy_ms: float = 20  # time of other runs in the queue before each timed run
    most_behind: int = 200


@dataclass(frozen=True)
class Limits:
    """The sizes of a measurement: floats that are copied, and the side of square matrices."""

    copied: int = 1 << 25  # 128 MiB read, 128 MiB written
    side: int = 4096


FOR_CPUS = Limits(1 << 22, 256)
# the results are good to a tenth or so
QUICK, FOR_A_GLANCE = TimeBudget(60, 5, 400, 5), Limits(1 << 24, 2048)


@dataclass(frozen=True)
class BenchCall:
    """A graph with a single call."""

    name: str
    op: OpDef
    graph: Graph

    @property
    def args(self) -> Args:
        return self.op.bind(self.graph.calls[0], self.graph, LiveState(self.graph))


# The graph of a call


def is_tensor(arg: Any) -> bool:
    return isinstance(arg, dict) and isinstance(arg.get("tensor"), list)


def call_graph(op: OpDef, args: Any, out: Any) -> Graph:
    """Build the graph of a call; without `out` the call's shape function gives the outputs."""
    if not isinstance(args, list):
        raise GraphError(f'"args" is not a list, but {args!r}')
    tensors = [_read_tensor(arg) for arg in args if isinstance(arg, dict)]
    if out is not None:
        outs = [_read_tensor(one) for one in (out if isinstance(out, list) else [out])]
    else:
        dtype = tensors[0][0] if tensors else DTYPES["float32"]
        outs = [(dtype, dims) for dims in _out_dims(op, args, dtype)]
    graph = _built(op, args, outs)
    resolve_ops(graph)
    return graph


def _out_dims(op: OpDef, args: list[Any], dtype: DType) -> list[Dims]:
    """Return the dims that the operator's shape function gives for outputs without a size."""
    if op.scalar is not None:
        raise GraphError(f"{op.name} yields a number, and runs no kernel")
    count = PLACEHOLDERS if op.signature.output == "tensors" else 1
    probe = _built(op, args, [(dtype, ())] * count)
    try:
        return [tuple(dims) for dims in op.shape(op.bind(probe.calls[0], probe, LiveState(probe)))]
    except IndexError as error:
        raise GraphError(
            f"{op.name} does not know its output's size from its arguments: "
            'say "out": {"tensor": [...]}'
        ) from error


def _built(op: OpDef, args: list[Any], outs: Sequence[OutSpec]) -> Graph:
    """Build the graph of a call; tensors that are not constants are its inputs."""
    builder = CallBuilder()
    ids = [_add(builder, arg) for arg in args]
    found = builder.graph(op, [], outs)
    call = found.calls[0]
    calls = (type(call)(0, call.name, (*ids, *call.args)),)
    return Graph(found.values, calls, found.inputs, found.outputs)


def _add(builder: CallBuilder, arg: Any) -> int:
    if not isinstance(arg, dict):
        return builder.add(arg)
    dtype, dims = _read_tensor(arg)
    if arg.get("constant"):
        pattern = Pattern(dtype, numel(dims) * dtype.itemsize)
        return builder.tensor(dtype, dims, Constant(Region(pattern, 0, pattern.size), None))
    value_id = builder.tensor(dtype, dims)
    builder.inputs.append(value_id)
    return value_id


def _read_tensor(spec: Any) -> OutSpec:
    if not is_tensor(spec) or spec.keys() - {"tensor", "dtype", "constant"}:
        raise GraphError(f'{spec!r} is not a tensor, such as {{"tensor": [2, 3]}}')
    dims, dtype = tuple(spec["tensor"]), spec.get("dtype", "float32")
    if not all(type(size) is int and size >= 0 for size in dims):
        raise GraphError(f"{list(dims)} is not a shape")
    if dtype not in DTYPES:
        raise GraphError(f"no element type is called {dtype!r}; there are {', '.join(DTYPES)}")
    return DTYPES[dtype], dims


class Pattern:
    """A file of any size that repeats a block of random numbers.

    Floats are positive, as scales and variances are; indices are 0 or 1, valid for every table.
    """

    name = "random numbers"

    def __init__(self, dtype: DType, size: int) -> None:
        random = np.random.default_rng(0)
        elements: np.ndarray
        if dtype.is_float:
            elements = random.uniform(0.01, 1, 1 << 14)
        else:
            elements = random.integers(0, 256 if dtype.name == "uint8" else 2, 1 << 14)
        self._block = dtype.to_bytes(elements)
        self.size = size

    async def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        first = offset % len(self._block)
        blocks = -(-(first + length) // len(self._block))
        return (self._block * blocks)[first : first + length]


# Work of a call


def bytes_of(call: BenchCall, halves: bool = False) -> int:
    """Return the bytes that a call reads and writes; with `halves` the GPU stores f16."""
    graph = store_f16(call.graph) if halves else call.graph
    read = [value_id for parameter, value_id in call.args.given if parameter.kind != "any"]
    touched = set(graph.expand((*read, graph.calls[0].args[-1])))
    return sum(tensor.storage_bytes for tensor in graph.tensors() if tensor.id in touched)


def flops_of(call: BenchCall) -> int | None:
    """Count the FLOPs by a formula; without a formula, one per output element."""
    if call.op.alias_of is not None:
        return None
    counted = work_of(call.op, call.args).flops
    return sum(out.numel for out in call.args.outs) if counted is None else counted


# Timing


async def rates_of(
    device: Device, budget: TimeBudget = QUICK, limits: Limits | None = None
) -> Rates:
    """Measure the best rates of a device: of a large copy, and of a GEMM of large matrices.

    By default measuring takes a second or two and 150 MB; a software adapter gets smaller sizes.
    """
    calls = _limit_calls(limits or (FOR_CPUS if device.info.software else FOR_A_GLANCE))
    copied, multiplied = [await measure(device, call, budget) for call in calls]
    return Rates(copied["gbps"], multiplied["gflops"])


def _limit_calls(limits: Limits) -> list[BenchCall]:
    square = {"tensor": [limits.side, limits.side]}
    wanted = [
        ("copy", "aten.relu.default", [{"tensor": [limits.copied]}]),
        ("product", "aten.mm.default", [square, square]),
    ]
    calls: list[BenchCall] = []
    for name, operator, args in wanted:
        op = lookup(operator)
        if op is None:
            raise UnsupportedOpError(name, {operator: 1})
        calls.append(BenchCall(name, op, call_graph(op, args, None)))
    return calls


async def measure(device: Device, call: BenchCall, budget: TimeBudget) -> dict[str, Any]:
    """Time the kernels of a call together; returns the median, and rates of bytes and FLOPs."""
    delegate = await GpuDelegate.create(call.graph, device, ShaderLibrary())
    inputs: list[GpuTensor] = []
    try:
        for value_id in call.graph.inputs:
            inputs.append(await _given(device, call.graph.tensor(value_id)))
        times, labels = await _times(delegate, inputs, budget)
    finally:
        for tensor in inputs:
            tensor.destroy()
        delegate.close()
    microseconds = median(times)
    nbytes, flops = bytes_of(call, device.info.has_f16), flops_of(call)
    return {
        "name": call.name,
        "op": call.op.name,
        "us": microseconds,
        "best_us": min(times),
        "dispatches": len(labels),
        "kernels": labels,
        "bytes": nbytes,
        "flops": flops,
        "gbps": nbytes / microseconds / 1e3 if microseconds else None,
        "gflops": flops / microseconds / 1e3 if microseconds and flops else None,
    }


async def _given(device: Device, tensor: Tensor) -> GpuTensor:
    data = await Pattern(tensor.dtype, tensor.file_bytes).read(0, tensor.file_bytes)
    array = tensor.dtype.from_bytes(data).reshape(tensor.dims)
    return await upload(device, array, tensor.dtype, "a kernel's input")


async def _times(
    delegate: GpuDelegate, inputs: Sequence[GpuTensor], budget: TimeBudget
) -> tuple[list[float], list[str]]:
    """Return the microseconds of each run, and the labels of its dispatches."""

    async def run(behind: int) -> list[tuple[str, float]]:
        timings = Timings()
        unread = RunRequest(inputs, OutputPlacement.BORROWED)
        await asyncio.gather(
            *(delegate.run(unread) for _ in range(behind)),
            delegate.run(unread._replace(dry_run=DryRun(timings))),
        )
        return [row for row in timings.rows if not row[0].startswith("host: ")]

    started = perf_counter()
    last = await run(0)
    # Runs before each timed run keep the GPU busy: its clocks drop within milliseconds of idling.
    once = max(1.0, sum(microseconds for _, microseconds in last))
    behind = max(1, min(budget.most_behind, round(budget.busy_ms * 1000 / once)))
    while (perf_counter() - started) * 1000 < budget.warm_ms:
        last = await run(behind)
    times: list[float] = []
    started = perf_counter()
    while not times or (
        len(times) < budget.runs and (perf_counter() - started) * 1000 < budget.most_ms
    ):
        times.append(sum(microseconds for _, microseconds in await run(behind)))
    return times, [label for label, _ in last]
