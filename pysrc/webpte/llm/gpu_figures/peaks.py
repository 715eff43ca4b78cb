"""The rates that a GPU reaches in the best case: arithmetic in registers, memory, dispatches.

A kernel runs longer and longer until its time can be measured, so that a software adapter takes no
longer than a GPU.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter

import numpy as np

from webpte.engine.gpu.device import (
    Device,
    DispatchCommand,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Readback,
    Resource,
)
from webpte.engine.gpu.device_info import BINDING_LIMIT, BUFFER_LIMIT
from webpte.engine.plan.shaders import ShaderLibrary, Types
from webpte.llm.gpu_figures.result import BenchRow

MEMORY = "memory"
_PEAK = "peak: "
_LANES = 256  # of a workgroup
_QUADS, _QUAD = 8, 4  # chains of an invocation, and elements of each
_ENOUGH = 2e-3  # seconds of a measurement
_MOST_LOOPS, _FIRST_LOOPS = 1 << 14, 16
_MOST_MORE = 256  # dispatches
_ROUNDS = 5
_READ_BYTES = 1 << 28
_DISPATCHES = 256
_PER_CORE = 64  # workgroups that fill a core several times


class PeakMeter:
    """Measures the rates of a device, with buffers that `close` frees."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: list[int] = []

    async def figures(self) -> AsyncIterator[BenchRow]:
        """Yield the rates of arithmetic and memory, and the time of a dispatch."""
        info = self._device.info
        yield await self._arithmetic("float32", "multiply", (("TYPE", "f32"),))
        if info.has_f16:
            yield await self._arithmetic("float16", "multiply", (("TYPE", "f16"),))
        if info.packed_dot:
            yield await self._arithmetic("packed int8", "dot", (), 4)
        yield await self._memory()
        yield await self._dispatch()

    def close(self) -> None:
        """Free the buffers."""
        self._device.destroy_buffers(self._buffers)
        self._buffers = []

    async def _buffer(self, nbytes: int) -> int:
        (made,) = await self._device.create_buffers([nbytes])
        self._buffers.append(made)
        return made

    async def _arithmetic(
        self, name: str, kernel: str, types: Types, products: int = 1
    ) -> BenchRow:
        groups = self._groups()
        out = await self._buffer(4 * _LANES * groups)
        resources = [Resource(out, 0, 4 * _LANES * groups)]
        loops, seconds = _FIRST_LOOPS, 0.0
        while seconds < _ENOUGH and loops < _MOST_LOOPS:
            loops *= 4
            spec = _spec(kernel, types, LOOPS=loops)
            seconds = await self._seconds(spec, resources, groups)
        operations = 2 * products * _QUADS * _QUAD * loops * _LANES * groups
        return BenchRow(f"{_PEAK}{name}", operations / seconds / 1e12, "TFLOP/s")

    async def _memory(self) -> BenchRow:
        groups, limits = self._groups(), self._device.info.limits
        allowed = min(limits.get(BINDING_LIMIT, _READ_BYTES), limits.get(BUFFER_LIMIT, _READ_BYTES))
        nbytes = min(_READ_BYTES, allowed) // (16 if self._device.info.software else 1) & -256
        given, out = await self._buffer(nbytes), await self._buffer(4 * _LANES * groups)
        resources = [Resource(given, 0, nbytes), Resource(out, 0, 4 * _LANES * groups)]
        spec = _spec("read", (), STRIDE=_LANES * groups)
        seconds = await self._seconds(spec, resources, groups)
        return BenchRow(f"{_PEAK}{MEMORY}", nbytes / seconds / 1e9, "GB/s")

    async def _dispatch(self) -> BenchRow:
        out = await self._buffer(4 * 64)
        resources, spec = [Resource(out, 0, 4 * 64)], _spec("step", ())
        one, many = [
            await self._waited(spec, resources, 1, times) for times in (1, 1 + _DISPATCHES)
        ]
        return BenchRow("a dispatch", max(many - one, 0.0) / _DISPATCHES * 1e6, "us")

    def _groups(self) -> int:
        info = self._device.info
        return _PER_CORE * (1 if info.software else info.adapter_class.cores)

    async def _seconds(
        self, spec: PipelineSpec, resources: Sequence[Resource], groups: int
    ) -> float:
        """Return the seconds of a dispatch: the difference that more of them make.

        A browser's clock may go in steps of 0.1 ms, so more are added until they take longer.
        """
        one, more, seconds = await self._waited(spec, resources, groups, 1), 1, 0.0
        while seconds < _ENOUGH and more < _MOST_MORE:
            more *= 2
            seconds = await self._waited(spec, resources, groups, 1 + more) - one
        return max(seconds, 1e-9) / more

    async def _waited(
        self, spec: PipelineSpec, resources: Sequence[Resource], groups: int, times: int
    ) -> float:
        """Return the least seconds that so many dispatches in one submission take."""
        device = self._device
        (pipeline,) = await device.create_pipelines([spec])
        dispatch = DispatchCommand(pipeline, tuple(resources), (groups, 1, 1))
        read = Readback(resources[-1].buffer, 4, 0)
        plan = await device.create_plan(PlanCommands((), (dispatch,) * times, (read,), 4))
        try:
            found = []
            for _ in range(_ROUNDS):
                started = perf_counter()
                await device.run(PlanRun(plan, np.empty(0, np.uint8)))
                found.append(perf_counter() - started)
            return min(found)
        finally:
            device.destroy_plan(plan)


def peak_of(rows: Iterable[BenchRow], name: str) -> float:
    """Return a measured peak, or NaN."""
    return next((row.value for row in rows if row.name == _PEAK + name), math.nan)


def _spec(kernel: str, types: Types, **overrides: int) -> PipelineSpec:
    shader = ShaderLibrary().assemble(f"lib/measure/{kernel}", types)
    named = tuple((name, float(value)) for name, value in overrides.items())
    return PipelineSpec(f"measure: {kernel}", shader.code, shader.bindings, named)
