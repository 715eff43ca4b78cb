"""The public API: `load` a file, look at its methods, run them, close it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from webpte.engine.call.call_context import CallLog, executing
from webpte.engine.call.clock import Clock
from webpte.engine.call.gpu_tensor import GpuTensor, allocated_bytes
from webpte.engine.call.info import MethodInfo, Placement, Stats, TensorInfo
from webpte.engine.call.lifetime import Lifetime
from webpte.engine.call.options import Options, applied_to
from webpte.engine.files.detached import detach
from webpte.engine.files.download import Download, Progress
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo, check_clock
from webpte.engine.gpu.devices import NAMES, SHARED, kind_of, shared_device
from webpte.engine.load.fingerprint import fingerprint
from webpte.engine.load.program_file import Contents, read_contents
from webpte.engine.load.supported import check_supported
from webpte.engine.open.manifest_files import is_manifest, open_manifest, open_part
from webpte.engine.open.open_source import keeping, open_source
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.method import Method
from webpte.engine.run.request import DryRun, OutputPlacement
from webpte.engine.run.timings import Timings
from webpte.errors import ClosedError, DeviceError, DeviceLostError, InputError
from webpte.inspection.display import program_table
from webpte.inspection.forecast import forecast_contents
from webpte.inspection.report.forecast import MemoryForecast
from webpte.llm.cache.pack_cache import cache_bytes, fit_caches
from webpte.llm.decode.decoder import Decoder
from webpte.llm.decode.sampler_graph import ARGMAX
from webpte.llm.lora.branches import with_room
from webpte.llm.lora.lora_program import TakesLora
from webpte.llm.lora.slots import LoraRoom, LoraSlots

OUTPUTS = {"numpy": OutputPlacement.HOST, "gpu": OutputPlacement.OWNED}


async def load(
    source: Any,
    *,
    device: str | Device = "webgpu",
    data: Sequence[Any] = (),
    strict: bool = False,
    name: str | None = None,
    progress: Progress | None = None,
    options: Options | None = None,
    keep: bool = False,
    download: Download | None = None,
    on_forecast: Callable[[MemoryForecast], None] | None = None,
    max_context: int | None = None,
    kv_cache: str | None = None,
    lora: LoraRoom | int | None = None,
    training: bool = False,
) -> Program:
    """Open a `.pte`, or the one in a `.bpte`, and make it ready to run.

    source    bytes, a path, or in the browser also a URL (str), a Blob or a file of `library.open`.
              A path or URL of a `.json` is a manifest: its files are opened and checked
    device    "webgpu" (in the browser), "native" (the GPU, from CPython: see docs/use/native.md; of
              several "native:1", by index, name or PCI id), "numpy" (the references, anywhere), or
              a Device to share
    data      the `.ptd` files that belong to the program, each given like `source`
    strict    refuse to run on the host what has no kernel, instead of doing it and reporting it
    progress  called as progress(stage, done, total); stages: fetch, read, compile, constants
    options   how it runs on the device, see `webpte.Options`
    keep      in the browser: take a URL from `webpte.library` if that has the newest, else keep it
              there, while it is loaded; without room for it there, it is loaded all the same.
              A load that is interrupted goes on where it stopped the next time
    download  limits of a download, and a handle to pause it
    on_forecast  called with the GPU memory that the program will need, before weights are read;
              what it raises ends the load
    max_context  of a language model: keep a KV cache of at most so many tokens, which takes less
              memory than what the file says
    kv_cache  of a language model: "f16" or "int8" keeps its KV cache in fewer bits than the file
              says, "f32" only if the file says so
    lora      of a language model: room for LoRAs of up to this rank, or a `webpte.LoraRoom`; see
              `Program.load_lora`
    training  of a language model that was exported with `--train lora`: also read its method
              `learn`, for `webpte.training.LoraTrainer`
    """
    if isinstance(device, str) and kind_of(device) not in NAMES:
        known = ", ".join(map(repr, NAMES))
        raise DeviceError(f"no device is called {device!r}; there are {known}")
    clock = Clock()
    shared = device if isinstance(device, str) and kind_of(device) in SHARED else None
    # A GPU takes a while to open; its errors matter only once there is something to run.
    opening = None if shared is None else detach(shared_device(shared))
    with keeping(keep) as files:
        fetch: dict[str, Any] = {"progress": progress, "keep": keep, "download": download}
        if is_manifest(source):
            manifest = await open_manifest(source, keep)
            for part in (manifest.program, *manifest.data):
                files.append(await open_part(source, part, **fetch))
            files[0].name = name or files[0].name
        else:
            files.append(await open_source(source, name=name, **fetch))
        for file in data:
            files.append(await open_source(file, **fetch))
        clock.lap("fetch")
        contents = await read_contents(files[0], files[1:], training)
        contents, slots = fit_caches(contents, max_context, kv_cache), None
        if lora is not None:
            contents, slots = with_room(contents, lora)
        if progress is not None:
            progress("read", 1, 1)
        clock.lap("read")
        check_supported(contents)
        if opening is not None:
            device = await opening
            await device.measure_waiting()  # after the download, which takes this thread's time
            clock.lap("device")
        chosen = options or Options()
        if on_forecast is not None and not isinstance(device, str):
            info = applied_to(chosen, device.info)
            on_forecast(forecast_contents(contents, info, chosen.fuse))
        build = await Build.create(contents, device, strict, progress, chosen)
        clock.lap("build")
    program = Program(contents, build, clock, strict, shared, slots)
    program.origin = str(source) if isinstance(source, str | Path) else ""
    return program


class Program(TakesLora):
    """A loaded program. Close it, or use `async with`, to free its GPU memory.

    Calls may overlap. One that is under way when the program is closed or rebuilt ends with its
    result, or with a ClosedError if it was still being prepared.
    """

    def __init__(
        self,
        contents: Contents,
        build: Build,
        clock: Clock,
        strict: bool = False,
        shared: str | None = None,
        slots: LoraSlots | None = None,
    ) -> None:
        """`shared` is the name of a shared device; None if the caller gave the device."""
        self._init_lora(slots)
        self._contents, self._build, self._clock = contents, build, clock
        self._strict, self._shared = strict, shared
        self._recovery = asyncio.Lock()
        self._tensors: WeakSet[GpuTensor] = WeakSet()  # outputs that callers still hold
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
        """Run a method by name. A call that is cancelled has had all of its effect, or none.

        inputs    NumPy arrays, `GpuTensor`s, JavaScript `GPUBuffer`s (where the input has a fixed
                  shape), and scalars where the method takes them
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
        return outputs

    def _hold_tensors(self, outputs: Sequence[Any]) -> None:
        """Remember tensors on the GPU until the program is closed; raise if it is already."""
        tensors = [value for value in outputs if isinstance(value, GpuTensor)]
        if self._log.closed and tensors:
            for tensor in tensors:
                tensor.destroy()
            raise ClosedError(f"{self.name} was closed while it ran")
        self._tensors.update(tensors)

    async def run_argmax(self, method: str, *inputs: Any) -> np.ndarray:
        """Run a method with one output, and return where it is largest along its last dim.

        The search runs on the GPU, so a few bytes come back instead of the whole output.
        """
        build, found = self._build, self._method(method)
        if len(found.info.outputs) != 1 or not isinstance(found.info.outputs[0], TensorInfo):
            raise InputError(f"method {method!r} does not have exactly one tensor as its output")
        with build.lifetime.lease(), self._log.context():
            delegate = found.only_delegate
            if not isinstance(delegate, GpuDelegate):
                (output,) = await found.run(found.request(inputs))
                return np.argmax(output, axis=-1)
            given = found.take_inputs(inputs)
            with executing(method):
                (indices,) = await build.with_sampler(delegate, ARGMAX).run(given)
            return indices

    def _decoder(self, method: str, embedding: str | None) -> Decoder:
        before = None if embedding is None else self._known(embedding)
        return Decoder(self._build, self._known(method), self._log, before)

    def _method(self, name: str) -> Method:
        """Return a method, and count a call that may change state."""
        found = self._known(name)
        self._log.count(name)
        return found

    def _known(self, name: str) -> Method:
        self._log.check_open()
        methods = self._build.methods
        if name not in methods:
            listed = ", ".join(methods) or "none"
            raise InputError(f"{self.name} has no method {name!r}; it has: {listed}")
        return methods[name]

    @property
    def _methods(self) -> dict[str, Method]:
        return self._build.methods

    async def profile(self, method: str = "forward", *inputs: Any) -> list[tuple[str, float]]:
        """Run a method once with every kernel timed: what ran, in order, with its microseconds.

        Kernels are timed by the GPU's own clock; what ran on the host is called "host: ...". State
        (caches, mutable buffers) is afterwards as it was before. Without inputs, those of the last
        `run` are taken.
        """
        build, found = self._build, self._known(method)
        if isinstance(build.device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which has no kernels to time")
        check_clock(build.device.info)
        with self._log.context():
            timings = Timings()
            await found.run(found.request(inputs, dry_run=DryRun(timings)))
            return timings.rows

    @property
    def stats(self) -> Stats:
        """The counters of the program."""
        build = self._build
        gpu, runs = build.gpu_delegates, list[Any](build.delegates)
        tensors = [tensor for tensor in self._tensors if tensor.device is build.device]
        allocated = build.allocated | self._lora_buffers()
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
            last_ms=dict(max(gpu, key=lambda delegate: delegate.ended).last_ms) if gpu else {},
        )

    @property
    def report(self) -> list[Placement]:
        """Every operator of every method, where it runs, and the host's time for it."""
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
        """Build the program anew, as it was loaded; for after a DeviceLostError.

        The file is read again from where it was opened. State that runs have changed (caches,
        mutable buffers) starts over. A program whose device is still there can be rebuilt as well.
        If this fails, the program stays as it was, and it can be tried again.

        device    what to build on; by default a new shared device, or the device given to `load`
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
        """Free every GPU buffer, also of tensors that it returned. It cannot run afterwards.

        While calls are under way, what they use is freed when they end.
        """
        self._log.closed = True
        LOADED.discard(self)
        self._build.end(f"{self.name} was closed while this call was being prepared")
        for tensor in list(self._tensors):
            tensor.destroy()
        self._close_loras()

    async def __aenter__(self) -> Program:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


# The use that `webpte.llm`, tasks and the page make of a program: no part of the public API


def lifetime_of(program: Program) -> Lifetime:
    """Return the lifetime of what the program has on its device, until `recover`."""
    return program._build.lifetime


def decoder_of(program: Program, method: str, embedding: str | None = None) -> Decoder:
    """Return a method, after one that embeds tokens, with a sampler; until `recover`."""
    return program._decoder(method, embedding)


def call_log_of(program: Program) -> CallLog:
    """Return the log of all calls of a program, which `recover` continues."""
    return program._log


def kv_cache_bytes(program: Program) -> dict[str, int]:
    """Count the bytes of the KV caches by the `kv_cache` that the program could be loaded with."""
    return cache_bytes(program._contents)


async def fingerprint_of(program: Program) -> str:
    """Return a hash that tells the program apart from others."""
    return await fingerprint(program._contents)


LOADED: WeakSet[Program] = WeakSet()  # those that something still holds: see `webpte.tune`
