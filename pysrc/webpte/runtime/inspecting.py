"""Looking inside of a program: `graph`, `compare`, `trace` and `memory`; see docs/inspecting.md."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from webpte.errors import DeviceError, InputError
from webpte.format.program import DelegateCall
from webpte.gpu.device import Progress
from webpte.insight import Comparison, MemoryReport, MethodGraph, Tolerance, Trace
from webpte.insight.difference import ATOL, RTOL
from webpte.runtime.build import Build
from webpte.runtime.compare import calls_of, compare_outputs, expected_outputs
from webpte.runtime.compare import made_of as made_comparison
from webpte.runtime.comparing import Notes
from webpte.runtime.delegate import GpuDelegate
from webpte.runtime.describe import Inside, describe
from webpte.runtime.memory_view import made_of as made_memory
from webpte.runtime.numpy_delegate import NumpyDelegate
from webpte.runtime.probe import Probe, Rehearsal
from webpte.runtime.timings import Timings
from webpte.runtime.tracing import made_of as made_trace

if TYPE_CHECKING:
    from webpte.runtime.method import Delegate, Method

STAGES = ("planned", "file")


class Inspected:
    """The part of a program that shows what it does. `Program` is the only one of its kind."""

    name: str
    _build: Build

    def _known(self, name: str) -> Method:
        raise NotImplementedError

    def _tallied(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def graph(self, method: str = "forward", stage: str = "planned") -> MethodGraph:
        """What a method consists of: calls, values between them, repeated blocks.

        stage  "planned": as it runs on the device, at the shapes of the last call; "file": as the
               exporter wrote it, before anything was folded, lifted or stitched
        """
        self._known(method)
        if stage not in STAGES:
            raise InputError(f"stage={stage!r}: there are {' and '.join(map(repr, STAGES))}")
        return _graph(self.name, self._build, method, stage)

    async def compare(
        self,
        method: str = "forward",
        *inputs: Any,
        rtol: float = RTOL,
        atol: float = ATOL,
        expected: Any = None,
        drift: bool = True,
        keep: Collection[int] = (),
        progress: Progress | None = None,
    ) -> Comparison:
        """Run a method once, call by call, and hold what the device computes against NumPy.

        Each call is computed in NumPy from what the device gave it, so the first that is off is the
        one at fault. State (caches, mutable buffers) is taken from the device, and is afterwards as
        it was before. Without inputs, those of the last `run` are taken. On device="numpy" there is
        nothing to compare call by call, but NaN, infinities and `expected` are looked at.

        rtol, atol  |device - NumPy| <= atol + rtol·|NumPy| is what agrees
        expected    outputs that are wanted: arrays in order (None for one that does not matter), a
                    mapping by name (output0, ...), or the path of an .npy or .npz file
        drift       also run NumPy alone beside, to see how differences add up: twice the time
        keep        ids of nodes of `graph(method)` whose arrays, in and out, the result has as well
        progress    called as progress("compare", done, total) after each call
        """
        build, found = self._build, self._known(method)
        info = found.info
        wanted = None if expected is None else expected_outputs(info, expected)
        tolerance = Tolerance(rtol, atol)
        graph = _graph(self.name, build, method)
        total = len(graph.nodes)

        def tell(done: int) -> None:
            if progress is not None:
                progress("compare", done, max(done, total))

        notes = Notes(tolerance, drift, calls_of(graph, keep), tell)
        with build.lifetime.lease(), self._tallied():
            outputs = await found.rehearse(inputs, Rehearsal(probe=Probe(notes)))
        named = compare_outputs(info, outputs, wanted, tolerance) if wanted is not None else []
        return made_comparison(graph, notes, _device_name(build), named)

    async def trace(self, method: str = "forward", *inputs: Any) -> Trace:
        """Run a method once and write down what takes how long, on the host and on the GPU.

        Kernels are timed by the GPU's own clock, each by itself; where it has none, the trace says
        so, and has the rest. State (caches, mutable buffers) is afterwards as it was before.
        Without inputs, those of the last `run` are taken.
        """
        build, found = self._build, self._known(method)
        timings = Timings(_has_clock(build))
        with build.lifetime.lease(), self._tallied():
            started = perf_counter()
            await found.rehearse(inputs, Rehearsal(timings))
            ended = perf_counter()
        graph = _graph(self.name, build, method)
        return made_trace(graph, timings, _device_name(build), started, ended)

    def memory(self, method: str = "forward") -> MemoryReport:
        """What a method has in GPU memory: buffers, the tensors that take turns in them, the peak.

        Tensors that calls returned and that are still there are not among them; `stats` has those.
        """
        self._known(method)
        build = self._build
        if isinstance(build.device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which has no memory of its own")
        gpu = {name: _on_gpu(build.delegates_of(name)) for name in build.methods}
        plan = build.stages[method].planned.plan
        calls = [i.delegate_index for i in plan.instructions if isinstance(i, DelegateCall)]
        graph, info = _graph(self.name, build, method), build.device.info
        return made_memory(graph, info.kind, info.limits, gpu.pop(method), calls, gpu)


def _on_gpu(delegates: Iterable[Delegate]) -> list[GpuDelegate]:
    return [delegate for delegate in delegates if isinstance(delegate, GpuDelegate)]


def _has_clock(build: Build) -> bool:
    """NumPy needs none: all is timed on the host."""
    if isinstance(build.device, str):
        return True
    return "timestamp-query" in build.device.info.features


def _graph(program: str, build: Build, method: str, stage: str = "planned") -> MethodGraph:
    stages = build.stages[method]
    if stage == "planned":
        contents = stages.planned
        inside = [_inside(delegate) for delegate in build.delegates_of(method)]
    else:
        contents = stages.file
        inside = [Inside(graph) for graph in contents.graphs if graph is not None]
    staying = {id(i) for i in stages.planned.plan.instructions}
    unfolded = {id(i) for i in stages.folded.plan.instructions}
    places = {
        id(i): "host" if id(i) in staying else "gpu" if id(i) in unfolded else "folded"
        for i in contents.plan.instructions
    }
    return describe(program, contents, stage, inside, stages.state, places, build.library)


def _device_name(build: Build) -> str:
    return build.device if isinstance(build.device, str) else build.device.info.kind


def _inside(delegate: Delegate) -> Inside:
    if isinstance(delegate, GpuDelegate):
        steps = {step.call.index: step for step in delegate.planner.steps}
        return Inside(delegate.graph, delegate.live, steps)
    assert isinstance(delegate, NumpyDelegate)
    return Inside(delegate.graph, where="host")
