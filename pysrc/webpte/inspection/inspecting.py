"""Functions that look inside of a program: graph, values, compare, check, trace, memory, tune.

`Program` has a method for each of these functions, with the full description. See
docs/use/inspecting.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.call.call import CallContext
from webpte.engine.call.info import MethodInfo
from webpte.engine.call.options import variant_label
from webpte.engine.files.download import Progress
from webpte.engine.format.program import DelegateCall
from webpte.engine.gpu.device_info import CLOCK, DeviceInfo, check_clock
from webpte.engine.gpu.tuning_cache import keep_choices
from webpte.engine.load.program_file import Contents
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.method import Method
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

STAGES = ("planned", "file")


@dataclass(frozen=True)
class Subject:
    """A program to look into: its build, and the file from which it was built.

    origin  the path or URL that it was loaded from; "" if unknown
    """

    name: str
    origin: str
    build: Build
    contents: Contents

    def method(self, name: str) -> Method:
        """Return a method; raise InputError if no method has this name."""
        methods = self.build.methods
        if name not in methods:
            listed = ", ".join(methods) or "none"
            raise InputError(f"{self.name} has no method {name!r}; it has: {listed}")
        return methods[name]


def graph(subject: Subject, method: str = "forward", stage: str = "planned") -> MethodGraph:
    """Return the graph of a method: calls, values between them, repeated blocks."""
    subject.method(method)
    if stage not in STAGES:
        raise InputError(f"stage={stage!r}: there are {' and '.join(map(repr, STAGES))}")
    return _graph(subject.name, subject.build, method, stage)


async def values(
    subject: Subject,
    method: str = "forward",
    *inputs: Any,
    nodes: Collection[int],
    progress: Progress | None = None,
) -> RunValues:
    """Run a method once and keep the inputs and outputs of some of its calls."""
    build, found = subject.build, subject.method(method)
    graph = _graph(subject.name, build, method)
    tell = _telling("values", len(graph.nodes), progress)
    recorder = ValueRecorder(
        Tolerance(), False, calls_of(graph, nodes, "nodes"), tell, judged=False
    )
    with build.lifetime.lease(), CallContext():
        await found.run(found.request(inputs, dry_run=DryRun(probe=ComparingProbe(recorder))))
    return RunValues(graph.program, method, device_name(build), kept_of(graph, recorder))


async def compare(
    subject: Subject,
    method: str = "forward",
    *inputs: Any,
    rtol: float = RTOL,
    atol: float = ATOL,
    expected: Any = None,
    drift: bool = True,
    keep: Collection[int] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Run a method once, call by call, and compare the device's results with NumPy."""
    build, found = subject.build, subject.method(method)
    info = found.info
    wanted = None if expected is None else expected_outputs(info, expected)
    tolerance = Tolerance(rtol, atol)
    graph = _graph(subject.name, build, method)
    tell = _telling("compare", len(graph.nodes), progress)
    recorder = ValueRecorder(tolerance, drift, calls_of(graph, keep, "keep"), tell)
    with build.lifetime.lease(), CallContext():
        outputs = await found.run(
            found.request(inputs, dry_run=DryRun(probe=ComparingProbe(recorder)))
        )
    named = compare_outputs(info, outputs, wanted, tolerance) if wanted is not None else []
    return build_comparison(graph, recorder, device_name(build), named)


async def check(
    subject: Subject,
    inputs: Any = None,
    expected: Any = None,
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
) -> Check:
    """Run a method once and compare its outputs with the outputs of a reference."""
    build, found = subject.build, subject.method(method)
    example = await _example(subject, found.info, inputs, expected)
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
    return Check(subject.name, method, device_name(build), variant, tolerance, tuple(compared))


async def _example(subject: Subject, info: MethodInfo, inputs: Any, expected: Any) -> Example:
    if expected is not None:
        if inputs is None:
            raise InputError("expected outputs were given without inputs")
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        return Example(given, expected_outputs(info, expected))
    if isinstance(inputs, list | tuple | np.ndarray):
        raise InputError("inputs were given without expected outputs to compare with")
    if inputs is not None:
        return await read_example(info, inputs)
    if bundled := subject.contents.cases.get(info.name):
        case = bundled[0]
        return Example(case.inputs, expected_outputs(info, case.expected))
    if not subject.origin:
        raise InputError(
            f"{subject.name} was not loaded from a path or a URL, so no example is beside it: "
            "give check(inputs, expected)"
        )
    return await read_example(info, example_address(subject.origin))


async def trace(subject: Subject, method: str = "forward", *inputs: Any) -> Trace:
    """Run a method once and record the time of each step, on the host and on the GPU."""
    build, found = subject.build, subject.method(method)
    timings = Timings(_has_clock(build))
    with build.lifetime.lease(), CallContext():
        started = perf_counter()
        await found.run(found.request(inputs, dry_run=DryRun(timings)))
        ended = perf_counter()
    graph = _graph(subject.name, build, method)
    return build_trace(graph, timings, device_name(build), started, ended)


async def tune(
    subject: Subject,
    method: str = "forward",
    *inputs: Any,
    progress: Progress | None = None,
    rest: float = 0.0,
) -> Tuning:
    """Time every tile config that kernels of a method can have here, and keep the fastest."""
    build, found = subject.build, subject.method(method)
    if isinstance(build.device, str):
        raise DeviceError(f"{subject.name} runs on NumPy, which has no kernels to tune")
    check_clock(build.device.info)
    with build.lifetime.lease(), CallContext():
        async with build.tuning:
            instructions = build.stages[method].planned.plan.instructions
            delegates = _on_gpu(build.delegates_of(method))
            tuning = await Tuner(found, instructions, delegates, progress, rest).tune(inputs)
            await keep_choices(build.device.info, tuning.choices)
    return tuning


def needs_tuning(subject: Subject) -> bool:
    """Return whether `tune` may help: a method has run on a kind of GPU without measurements."""
    build = subject.build
    tuned = any(delegate.info.choices for delegate in build.gpu_delegates)
    return can_tune_now(subject) and not tuned and not build.info.adapter_class.measured


def memory(subject: Subject, method: str = "forward") -> MemoryReport:
    """Return a method's GPU memory: buffers, the tensors that share them, the peak."""
    subject.method(method)
    build = subject.build
    if isinstance(build.device, str):
        raise DeviceError(f"{subject.name} runs on NumPy, which has no memory of its own")
    gpu = {name: _on_gpu(build.delegates_of(name)) for name in build.methods}
    plan = build.stages[method].planned.plan
    calls = [i.delegate_index for i in plan.instructions if isinstance(i, DelegateCall)]
    graph, info = _graph(subject.name, build, method), build.device.info
    return build_memory_report(graph, info.kind, info.limits, gpu.pop(method), calls, gpu)


def kernels(build: Build) -> frozenset[str]:
    """Return the kernels compiled so far, each with a digest of its text and constants."""
    factories = [delegate.factory for delegate in build.gpu_delegates]
    return frozenset(spec.name for factory in factories for spec in factory.pipelines)


def can_tune(subject: Subject) -> bool:
    """Return whether kernels can be timed: the program runs on a GPU that has a clock."""
    build = subject.build
    return not isinstance(build.device, str) and _has_clock(build)


def can_tune_now(subject: Subject) -> bool:
    """Return whether `tune` has work: a method has run, with kernels that have configs."""
    has_run = any(remembers(subject, name) for name in subject.build.methods)
    return can_tune(subject) and not subject.build.info.software and has_run


def remembers(subject: Subject, method: str) -> bool:
    """Return whether the inputs of a method's last run still exist."""
    try:
        subject.method(method).earlier_inputs()
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
    """Return whether calls can be timed; NumPy needs no clock, since the host times everything."""
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


def device_name(build: Build) -> str:
    """Return "numpy", or the kind of a device."""
    return build.device if isinstance(build.device, str) else build.device.info.kind


def _inside(delegate: Delegate) -> DelegateView:
    if isinstance(delegate, GpuDelegate):
        steps = {step.call.index: step for step in delegate.planner.calls}
        return DelegateView(delegate.graph, delegate.live, steps)
    assert isinstance(delegate, NumpyDelegate)
    return DelegateView(delegate.graph, where="host")
