"""The part of a program that looks inside: graph, values, compare, check, trace, memory, tune.

See docs/use/inspecting.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from webpte.engine.call.call_context import CallContext
from webpte.engine.call.info import MethodInfo
from webpte.engine.call.options import Options, variant_label
from webpte.engine.files.download import Progress
from webpte.engine.format.bundled import BundledCase
from webpte.engine.format.program import DelegateCall
from webpte.engine.gpu.device_info import CLOCK, DeviceInfo, check_clock
from webpte.engine.gpu.tuning_cache import keep_choices
from webpte.engine.load.program_file import Contents
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import Delegate, DryRun
from webpte.engine.run.timings import Timings
from webpte.errors import DeviceError, InputError
from webpte.inspection.build_comparison import (
    build_comparison,
    calls_of,
    compare_outputs,
    expected_outputs,
    kept_of,
)
from webpte.inspection.describe import DelegateView, describe
from webpte.inspection.example import Example, example_address, read_example
from webpte.inspection.memory_view import build_memory_report
from webpte.inspection.probe import ComparingProbe
from webpte.inspection.recorder import ValueRecorder
from webpte.inspection.report import (
    Check,
    Comparison,
    MemoryReport,
    MethodGraph,
    RunValues,
    Tolerance,
    Trace,
)
from webpte.inspection.report.difference import ATOL, RTOL
from webpte.inspection.tracing import build_trace
from webpte.inspection.tune.tuning import Tuner, Tuning

if TYPE_CHECKING:
    from webpte.engine.run.method import Method

STAGES = ("planned", "file")


class Inspected:
    """The methods of `Program` that show what it does."""

    name: str
    origin: str  # the path or URL that it was loaded from; empty if it was none
    _build: Build
    _contents: Contents

    def __repr__(self) -> str:
        return f"<{self.name} on {_device_name(self._build)}: {', '.join(self._contents.methods)}>"

    def _known(self, name: str) -> Method:
        raise NotImplementedError

    @property
    def options(self) -> Options:
        """The options that the program was loaded with."""
        return self._build.options

    @property
    def cases(self) -> dict[str, tuple[BundledCase, ...]]:
        """The cases in a bundled program (`.bpte`), by method; other files have none."""
        return dict(self._contents.cases)

    @property
    def kernels(self) -> frozenset[str]:
        """The kernels compiled so far, each with a digest of its text and constants."""
        factories = [delegate.factory for delegate in self._build.gpu_delegates]
        return frozenset(spec.name for factory in factories for spec in factory.pipelines)

    def graph(self, method: str = "forward", stage: str = "planned") -> MethodGraph:
        """Return the graph of a method: calls, values between them, repeated blocks.

        stage  "planned": as it runs on the device, at the shapes of the last call; "file": as the
               exporter wrote it, before anything was folded, offloaded or stitched
        """
        self._known(method)
        if stage not in STAGES:
            raise InputError(f"stage={stage!r}: there are {' and '.join(map(repr, STAGES))}")
        return _graph(self.name, self._build, method, stage)

    async def values(
        self,
        method: str = "forward",
        *inputs: Any,
        nodes: Collection[int],
        progress: Progress | None = None,
    ) -> RunValues:
        """Run a method once and keep what went into some of its calls and came out.

        The device computes; NumPy only does what no kernel does. State (caches, mutable buffers)
        is afterwards as it was before. Without inputs, those of the last `run` are taken.

        nodes     ids of nodes of `graph(method)`, of calls inside of delegates
        progress  called as progress("values", done, total) after each call
        """
        build, found = self._build, self._known(method)
        graph = _graph(self.name, build, method)
        tell = _telling("values", len(graph.nodes), progress)
        recorder = ValueRecorder(
            Tolerance(), False, calls_of(graph, nodes, "nodes"), tell, judged=False
        )
        with build.lifetime.lease(), CallContext():
            await found.run(found.request(inputs, dry_run=DryRun(probe=ComparingProbe(recorder))))
        return RunValues(graph.program, method, _device_name(build), kept_of(graph, recorder))

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
        """Run a method once, call by call, and compare what the device computes with NumPy.

        Each call is computed in NumPy from what the device gave it, so the first that is off is the
        one at fault. State (caches, mutable buffers) is taken from the device, and is afterwards as
        it was before. Without inputs, those of the last `run` are taken. On device="numpy" there is
        nothing to compare call by call, but NaN, infinities and `expected` are looked at.

        rtol, atol  |device - NumPy| <= atol + rtol·|NumPy| is what agrees
        expected    outputs that are wanted: arrays in order (None for one that does not matter), a
                    mapping by name (output0, ...), or the path of an .npy or .npz file
        drift       also run NumPy alone, to see how differences add up: takes twice the time
        keep        ids of nodes of `graph(method)` whose arrays, in and out, the result has as well
        progress    called as progress("compare", done, total) after each call
        """
        build, found = self._build, self._known(method)
        info = found.info
        wanted = None if expected is None else expected_outputs(info, expected)
        tolerance = Tolerance(rtol, atol)
        graph = _graph(self.name, build, method)
        tell = _telling("compare", len(graph.nodes), progress)
        recorder = ValueRecorder(tolerance, drift, calls_of(graph, keep, "keep"), tell)
        with build.lifetime.lease(), CallContext():
            outputs = await found.run(
                found.request(inputs, dry_run=DryRun(probe=ComparingProbe(recorder)))
            )
        named = compare_outputs(info, outputs, wanted, tolerance) if wanted is not None else []
        return build_comparison(graph, recorder, _device_name(build), named)

    async def check(
        self,
        inputs: Any = None,
        expected: Any = None,
        *,
        method: str = "forward",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Check:
        """Run a method once and compare its outputs with those of a reference.

        State (caches, mutable buffers) is afterwards as it was before.

        inputs      the inputs, in order, with `expected`; or the file of an example (bytes, a path,
                    a URL); None: the first case of a bundled program, or the example beside the
                    program, NAME.check.npz for NAME.pte
        expected    as in `compare`
        rtol, atol  |actual - expected| <= atol + rtol·|expected| is what agrees; by default the
                    example's, or those of `compare`
        """
        build, found = self._build, self._known(method)
        example = await self._example(found.info, inputs, expected)
        tolerance = Tolerance(
            example.tolerance.rtol if rtol is None else rtol,
            example.tolerance.atol if atol is None else atol,
        )
        with build.lifetime.lease(), CallContext():
            outputs = await found.run(found.request(example.inputs, dry_run=DryRun()))
        compared = compare_outputs(found.info, outputs, example.expected, tolerance)
        if not compared:
            raise InputError(f"method {method!r}: no output is expected, so nothing is compared")
        info = DeviceInfo("numpy") if isinstance(build.device, str) else build.device.info
        variant = variant_label(build.options, info)
        device = _device_name(build)
        return Check(self.name, method, device, variant, tolerance, tuple(compared))

    async def _example(self, info: MethodInfo, inputs: Any, expected: Any) -> Example:
        if expected is not None:
            if inputs is None:
                raise InputError("expected outputs were given without inputs")
            given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            return Example(given, expected_outputs(info, expected))
        if isinstance(inputs, list | tuple | np.ndarray):
            raise InputError("inputs were given without expected outputs to compare with")
        if inputs is not None:
            return await read_example(info, inputs)
        if bundled := self.cases.get(info.name):
            case = bundled[0]
            return Example(case.inputs, expected_outputs(info, case.expected))
        if not self.origin:
            raise InputError(
                f"{self.name} was not loaded from a path or a URL, so no example is beside it: "
                "give check(inputs, expected)"
            )
        return await read_example(info, example_address(self.origin))

    async def trace(self, method: str = "forward", *inputs: Any) -> Trace:
        """Run a method once and write down what takes how long, on the host and on the GPU.

        Kernels are timed by the GPU's own clock, one by one; where it has none, the trace says
        so, and has the rest. State (caches, mutable buffers) is afterwards as it was before.
        Without inputs, those of the last `run` are taken.
        """
        build, found = self._build, self._known(method)
        timings = Timings(_has_clock(build))
        with build.lifetime.lease(), CallContext():
            started = perf_counter()
            await found.run(found.request(inputs, dry_run=DryRun(timings)))
            ended = perf_counter()
        graph = _graph(self.name, build, method)
        return build_trace(graph, timings, _device_name(build), started, ended)

    async def tune(
        self,
        method: str = "forward",
        *inputs: Any,
        progress: Progress | None = None,
        rest: float = 0.0,
    ) -> Tuning:
        """Time every tile config that kernels of a method can have here, and keep the fastest.

        From now on this program uses them, and so does every program that is loaded later on this
        adapter, for GEMMs of the same sizes; `Options(tuned=False)` does without. Results do
        not change beyond the order of sums. State is afterwards as it was before. Without inputs,
        those of the last `run` are taken. See docs/inside/tuning.md.

        progress  called as progress("tune", done, total)
        rest      seconds that are left to other calls after each candidate: for a background task
        """
        build, found = self._build, self._known(method)
        if isinstance(build.device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which has no kernels to tune")
        check_clock(build.device.info)
        with build.lifetime.lease(), CallContext():
            async with build.tuning:
                instructions = build.stages[method].planned.plan.instructions
                delegates = _on_gpu(build.delegates_of(method))
                tuning = await Tuner(found, instructions, delegates, progress, rest).tune(inputs)
                await keep_choices(build.device.info, tuning.choices)
        return tuning

    @property
    def needs_tuning(self) -> bool:
        """Whether `tune` may help: a method has run on a GPU of a kind that nobody measured."""
        build = self._build
        tuned = any(delegate.info.choices for delegate in build.gpu_delegates)
        return can_tune_now(self) and not tuned and not build.info.adapter_class.measured

    def memory(self, method: str = "forward") -> MemoryReport:
        """Return what a method has in GPU memory: buffers, the tensors that share them, the peak.

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
        return build_memory_report(graph, info.kind, info.limits, gpu.pop(method), calls, gpu)


def can_tune(program: Inspected) -> bool:
    """Tell whether kernels can be timed: the program runs on a GPU, and that has a clock."""
    build = program._build
    return not isinstance(build.device, str) and _has_clock(build)


def can_tune_now(program: Inspected) -> bool:
    """Tell whether there is something to time: a method has run, with kernels that have configs."""
    has_run = any(remembers(program, name) for name in program._build.methods)
    return can_tune(program) and not program._build.info.software and has_run


def remembers(program: Inspected, method: str) -> bool:
    """Tell whether the inputs of a method's last run are still there."""
    try:
        program._known(method).earlier_inputs()
    except InputError:
        return False
    return True


def _telling(stage: str, total: int, progress: Progress | None) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if progress is not None:
            progress(stage, done, max(done, total))

    return tell


def _on_gpu(delegates: Iterable[Delegate]) -> list[GpuDelegate]:
    return [delegate for delegate in delegates if isinstance(delegate, GpuDelegate)]


def _has_clock(build: Build) -> bool:
    """Tell whether calls can be timed; NumPy needs no clock, since the host times everything."""
    return isinstance(build.device, str) or CLOCK in build.device.info.features


def _graph(program: str, build: Build, method: str, stage: str = "planned") -> MethodGraph:
    stages = build.stages[method]
    if stage == "planned":
        contents = stages.planned
        inside = [_inside(delegate) for delegate in build.delegates_of(method)]
    else:
        contents = replace(stages.file, hosted=stages.planned.hosted)
        inside = [DelegateView(graph) for graph in contents.graphs if graph is not None]
    staying = {id(i) for i in stages.planned.plan.instructions}
    unfolded = {id(i) for i in stages.folded.plan.instructions}
    places = {
        id(i): "host" if id(i) in staying else "gpu" if id(i) in unfolded else "folded"
        for i in contents.plan.instructions
    }
    return describe(program, contents, stage, inside, stages.state, places, build.library)


def _device_name(build: Build) -> str:
    return build.device if isinstance(build.device, str) else build.device.info.kind


def _inside(delegate: Delegate) -> DelegateView:
    if isinstance(delegate, GpuDelegate):
        steps = {step.call.index: step for step in delegate.planner.calls}
        return DelegateView(delegate.graph, delegate.live, steps)
    assert isinstance(delegate, NumpyDelegate)
    return DelegateView(delegate.graph, where="host")
