"""The program that `webpte.load` returns: look at its methods, run them, close it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakSet

from webpte.engine.call.call import CallLog, Clock
from webpte.engine.call.gpu_tensor import GpuTensor, allocated_bytes
from webpte.engine.call.info import MethodInfo, Placement, Stats
from webpte.engine.call.options import Options
from webpte.engine.files.download import Progress
from webpte.engine.format.bundled import BundledCase
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo, check_clock
from webpte.engine.gpu.devices import shared_device
from webpte.engine.load.fingerprint import fingerprint
from webpte.engine.load.program_file import Contents
from webpte.engine.run.build import Build
from webpte.engine.run.io import OutputPlacement, returned
from webpte.engine.run.method import Method
from webpte.engine.run.request import DryRun
from webpte.engine.run.timings import Timings
from webpte.errors import ClosedError, DeviceError, DeviceLostError, InputError
from webpte.inspection import inspecting
from webpte.inspection.display import program_table
from webpte.inspection.inspecting import Subject
from webpte.inspection.report import (
    Check,
    Comparison,
    MemoryReport,
    MethodGraph,
    RunValues,
    Trace,
)
from webpte.inspection.report.difference import ATOL, RTOL
from webpte.inspection.tune.tuning import Tuning
from webpte.inspection.tune_programs import LOADED

A = TypeVar("A")
OUTPUTS = {"numpy": OutputPlacement.HOST, "gpu": OutputPlacement.OWNED}


class Attachment(Protocol):
    """An object that belongs to a program, such as its LoRAs."""

    @property
    def allocated(self) -> Mapping[int, int]:
        """Size in bytes of each GPU buffer, by number."""
        ...

    def close(self) -> None:
        """Free the memory, because the program is closed."""


class Program:
    """A loaded program. Close it, or use `async with`, to free its GPU memory.

    Calls may overlap. A call that is under way when the program is closed or rebuilt ends with its
    result, or with a ClosedError if it was still being prepared.
    """

    def __init__(
        self,
        contents: Contents,
        build: Build,
        clock: Clock,
        strict: bool = False,
        shared: str | None = None,
    ) -> None:
        """Take the build; `shared` is the name of a shared device, None for the caller's device."""
        self._contents, self._build, self._clock = contents, build, clock
        self._strict, self._shared = strict, shared
        self._recovery = asyncio.Lock()
        self._tensors: WeakSet[GpuTensor] = WeakSet()  # outputs that callers still hold
        self._attached: dict[type, Attachment] = {}
        self.name = contents.source.name
        self._log = CallLog(self.name)
        self.origin = ""
        LOADED.add(self)

    @property
    def methods(self) -> dict[str, MethodInfo]:
        """Every method with its inputs, outputs, operators and constants."""
        return {name: contents.info for name, contents in self._contents.methods.items()}

    def _repr_html_(self) -> str:
        return program_table(self.name, self.methods).html()

    @property
    def generation(self) -> int:
        """The number of times `recover` rebuilt the program: earlier state is gone."""
        return self._log.generation

    async def forward(self, *inputs: Any, output: str = "numpy") -> tuple[Any, ...]:
        """Run the method `forward`; always returns a tuple, one item per output."""
        return await self.run("forward", *inputs, output=output)

    async def run(
        self, method: str, *inputs: Any, output: str = "numpy", progress: Progress | None = None
    ) -> tuple[Any, ...]:
        """Run a method by name. A call that is cancelled has had all of its effect, or no effect.

        inputs    NumPy arrays (float32 for bfloat16), `GpuTensor`s, JavaScript `GPUBuffer`s (where
                  the input has a fixed shape), and scalars where the method takes them
        output    "numpy": tensors come back as arrays; "gpu": they stay there as `GpuTensor`s
        progress  called as progress("compile", done, total), from 0 on, while new shapes need new
                  kernels
        """
        build, found = self._build, self._method(method)
        if output not in OUTPUTS:
            raise InputError(f"output={output!r}: there are {' and '.join(map(repr, OUTPUTS))}")
        if output == "gpu" and isinstance(build.device, str):
            raise DeviceError(f"output='gpu': {self.name} runs on NumPy, where there is no GPU")
        with self._log.context(progress):
            outputs = await found.run(found.request(inputs, OUTPUTS[output]))
        if output == "gpu":
            self._hold_tensors(outputs)
        return returned(found.info, inputs, outputs)

    def _hold_tensors(self, outputs: Sequence[Any]) -> None:
        """Remember tensors on the GPU until the program is closed; raise if it already is."""
        tensors = [value for value in outputs if isinstance(value, GpuTensor)]
        if self._log.closed and tensors:
            for tensor in tensors:
                tensor.destroy()
            raise ClosedError(f"{self.name} was closed while it ran")
        self._tensors.update(tensors)

    def _method(self, name: str) -> Method:
        """Return a method, and count a call that may change state."""
        found = self._known(name)
        self._log.count(name)
        return found

    def _known(self, name: str) -> Method:
        self._log.check_open()
        return self._build.methods.get(name) or self._subject().method(name)

    def _subject(self) -> Subject:
        self._log.check_open()
        return Subject(self.name, self.origin, self._build, self._contents)

    async def profile(self, method: str = "forward", *inputs: Any) -> list[tuple[str, float]]:
        """Run a method once; return the steps in order, each with its microseconds.

        Kernels are timed by the GPU's own clock; steps on the host are called "host: ...". State
        (caches, mutable buffers) does not change. Without inputs, the inputs of the last `run` are
        used.
        """
        build, found = self._build, self._known(method)
        if isinstance(build.device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which has no kernels to time")
        check_clock(build.device.info)
        with self._log.context():
            timings = Timings()
            await found.run(found.request(inputs, dry_run=DryRun(timings)))
            return timings.rows

    def __repr__(self) -> str:
        device = inspecting.device_name(self._build)
        return f"<{self.name} on {device}: {', '.join(self._contents.methods)}>"

    @property
    def options(self) -> Options:
        """The options that the program was loaded with."""
        return self._build.options

    @property
    def cases(self) -> dict[str, tuple[BundledCase, ...]]:
        """The cases in a bundled program (`.bpte`), by method; {} for other files."""
        return dict(self._contents.cases)

    @property
    def kernels(self) -> frozenset[str]:
        """The kernels compiled so far, each with a digest of its text and constants."""
        return inspecting.kernels(self._build)

    def graph(self, method: str = "forward", stage: str = "planned") -> MethodGraph:
        """Return the graph of a method: calls, values between them, repeated blocks.

        stage  "planned": as it runs on the device, at the shapes of the last call; "file": as the
               exporter wrote it, before anything was folded, offloaded or stitched
        """
        return inspecting.graph(self._subject(), method, stage)

    async def values(
        self,
        method: str = "forward",
        *inputs: Any,
        nodes: Collection[int],
        progress: Progress | None = None,
    ) -> RunValues:
        """Run a method once and keep the inputs and outputs of some of its calls.

        The device computes; NumPy only runs ops without a kernel. State (caches, mutable buffers)
        does not change. Without inputs, the inputs of the last `run` are used.

        nodes     ids of nodes of `graph(method)`, of calls inside of delegates
        progress  called as progress("values", done, total) after each call
        """
        return await inspecting.values(
            self._subject(), method, *inputs, nodes=nodes, progress=progress
        )

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
        """Run a method once, call by call, and compare the device's results with NumPy.

        Each call is computed in NumPy from the device's values of its inputs, so the first call
        that differs is at fault. State (caches, mutable buffers) is taken from the device, and does
        not change. Without inputs, the inputs of the last `run` are used. On device="numpy" there
        is nothing to compare call by call, but NaN, infinities and `expected` are checked.

        rtol, atol  values agree if |device - NumPy| <= atol + rtol·|NumPy|
        expected    wanted outputs: arrays in order (None for an output that does not matter), a
                    mapping by name (output0, ...), or the path of an .npy or .npz file
        drift       also run NumPy alone, to see how differences add up: takes twice the time
        keep        ids of nodes of `graph(method)` whose arrays, in and out, the result has as well
        progress    called as progress("compare", done, total) after each call
        """
        return await inspecting.compare(
            self._subject(),
            method,
            *inputs,
            rtol=rtol,
            atol=atol,
            expected=expected,
            drift=drift,
            keep=keep,
            progress=progress,
        )

    async def check(
        self,
        inputs: Any = None,
        expected: Any = None,
        *,
        method: str = "forward",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Check:
        """Run a method once and compare its outputs with the outputs of a reference.

        State (caches, mutable buffers) does not change.

        inputs      the inputs, in order, with `expected`; or the file of an example (bytes, a path,
                    a URL); None: the first case of a bundled program, or the example in the folder
                    of the program, NAME.check.npz for NAME.pte
        expected    as in `compare`
        rtol, atol  values agree if |actual - expected| <= atol + rtol·|expected|; by default as in
                    the example, or as in `compare`
        """
        return await inspecting.check(
            self._subject(), inputs, expected, method=method, rtol=rtol, atol=atol
        )

    async def trace(self, method: str = "forward", *inputs: Any) -> Trace:
        """Run a method once and record the time of each step, on the host and on the GPU.

        Kernels are timed by the GPU's own clock, each separately; without a clock, the trace says
        so, and has the rest. State (caches, mutable buffers) does not change. Without inputs, the
        inputs of the last `run` are used.
        """
        return await inspecting.trace(self._subject(), method, *inputs)

    async def tune(
        self,
        method: str = "forward",
        *inputs: Any,
        progress: Progress | None = None,
        rest: float = 0.0,
    ) -> Tuning:
        """Time every tile config that kernels of a method can have here, and keep the fastest.

        From now on this program uses the fastest configs, and so does every program that is loaded
        later on this adapter, for GEMMs of the same sizes; `Options(tuned=False)` does without.
        Results do not change beyond the order of sums. State does not change. Without inputs, the
        inputs of the last `run` are used. See docs/inside/tuning.md.

        progress  called as progress("tune", done, total)
        rest      seconds that are left to other calls after each candidate: for a background task
        """
        return await inspecting.tune(self._subject(), method, *inputs, progress=progress, rest=rest)

    @property
    def needs_tuning(self) -> bool:
        """Whether `tune` may help: a method has run on a kind of GPU without measurements."""
        return inspecting.needs_tuning(self._subject())

    def memory(self, method: str = "forward") -> MemoryReport:
        """Return a method's GPU memory: buffers, the tensors that share them, the peak.

        Tensors that calls returned and that still exist are not included; `stats` has them.
        """
        return inspecting.memory(self._subject(), method)

    @property
    def stats(self) -> Stats:
        """The counters of the program."""
        build = self._build
        gpu, runs = build.gpu_delegates, list[Any](build.delegates)
        tensors = [tensor for tensor in self._tensors if tensor.device is build.device]
        latest = max((one.times for one in gpu), key=lambda times: times.ended, default=None)
        allocated = build.allocated
        for attached in self._attached.values():
            allocated |= attached.allocated
        for tensor in tensors:
            allocated |= allocated_bytes(tensor)
        return Stats(
            buffers=len(allocated),
            buffer_bytes=sum(allocated.values()),
            dispatches=sum(delegate.dispatches for delegate in gpu),
            pipelines=sum(delegate.pipelines for delegate in gpu),
            prepack_transfers=sum(delegate.transfers for delegate in runs),
            interop_calls=0 if isinstance(build.device, str) else build.device.interop_calls,
            executions=sum(delegate.executions for delegate in runs),
            submissions=self._log.submissions,
            hooks_fired=sum(delegate.hooks_fired for delegate in gpu),
            lowerings=sum(delegate.lowerings for delegate in gpu),
            load_ms=dict(self._clock.laps),
            last_ms=dict(latest.last_ms) if latest else {},
        )

    @property
    def report(self) -> list[Placement]:
        """Return every operator of every method, its place, and its time on the host."""
        return self._build.placements()

    @property
    def device(self) -> Device:
        """The device that the program runs on; `device.native` is its `GPUDevice`."""
        if isinstance(self._build.device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which is not a device")
        return self._build.device

    @property
    def device_info(self) -> DeviceInfo:
        device = self._build.device
        return DeviceInfo(kind="numpy") if isinstance(device, str) else device.info

    async def recover(
        self, device: Device | None = None, *, progress: Progress | None = None
    ) -> None:
        """Build the program again, as it was loaded; for after a DeviceLostError.

        The file is read again from where it was opened. State that runs have changed (caches,
        mutable buffers) starts over. A program whose device still works can be rebuilt as well. If
        this fails, the program does not change, and `recover` can be tried again.

        device    where to build; by default a new shared device, or the device given to `load`
        progress  as in `load`; stages: compile, constants
        """
        async with self._recovery:
            clock = Clock()
            target = await self._recovery_device(device)
            clock.lap("device")
            given = self._contents, target, self._strict, progress, self._build.options
            build = await Build.create(*given, shares=target is not self._build.device)
            clock.lap("build")
            if self._log.closed:
                build.end(f"{self.name} was closed")
                raise ClosedError(f"{self.name} was closed while it was being rebuilt")
            old, self._build, self._clock = self._build, build, clock
            self._shared = self._shared if device is None else None
            self._log.generation += 1
            old.end(f"{self.name} was rebuilt while this call was being prepared; call it again")

    async def _recovery_device(self, device: Device | None) -> str | Device:
        self._log.check_open()
        if device is not None:
            return device
        if self._shared is not None:
            opened = await shared_device(self._shared)
            await opened.measure_waiting()
            return opened
        current = self._build.device
        if not isinstance(current, str) and current.lost:
            raise DeviceLostError(
                f"the device that {self.name} was loaded on is lost; make another, "
                "and call recover(device)"
            )
        return current

    def close(self) -> None:
        """Free every GPU buffer, also of returned tensors. The program cannot run afterwards.

        While calls are under way, the buffers that they use are freed when they end.
        """
        self._log.closed = True
        LOADED.discard(self)
        self._build.end(f"{self.name} was closed while this call was being prepared")
        for tensor in list(self._tensors):
            tensor.destroy()
        for attached in self._attached.values():
            attached.close()

    async def __aenter__(self) -> Program:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


# Access to a program for the shelves above and the page: no part of the public API


def build_of(program: Program) -> Build:
    """Return the program on its device, until `recover`."""
    return program._build


def method_of(program: Program, name: str) -> Method:
    """Return a method on its device, until `recover`."""
    return program._known(name)


def contents_of(program: Program) -> Contents:
    """Return the file that the program is built from."""
    return program._contents


def call_log_of(program: Program) -> CallLog:
    """Return the log of all calls of a program, which `recover` continues."""
    return program._log


def rebuilding(program: Program) -> asyncio.Lock:
    """Return the lock that is held while the program is rebuilt."""
    return program._recovery


def attach(program: Program, attachment: Attachment) -> None:
    """Count an object as the program's, until the program is closed."""
    program._attached[type(attachment)] = attachment


def attached(program: Program, kind: type[A]) -> A | None:
    """Return the object of this class that was attached to a program."""
    return cast("A | None", program._attached.get(kind))


async def fingerprint_of(program: Program) -> str:
    """Return a hash that distinguishes the program from others."""
    return await fingerprint(program._contents)


def can_tune_now(program: Program) -> bool:
    """Return whether `tune` has work: a method has run, with kernels that have configs."""
    return inspecting.can_tune_now(program._subject())
