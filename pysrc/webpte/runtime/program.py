"""The public face: `load` a file, look at its methods, run them, close it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any
from weakref import WeakSet

import numpy as np

from webpte.dtypes import DTYPES, DType
from webpte.errors import (
    ClosedError,
    DeviceError,
    DeviceLostError,
    ExecutionError,
    ForeignDelegateError,
    InputError,
    UnsupportedOpError,
)
from webpte.format.vulkan import BoolValue, IntValue
from webpte.gpu.device import Device, DeviceInfo, Progress
from webpte.graph import Call, Graph, Tensor
from webpte.runtime.constants import ConstantStore
from webpte.runtime.contents import BACKEND, Contents, MethodContents, read_contents
from webpte.runtime.delegate import GpuDelegate
from webpte.runtime.devices import shared_device
from webpte.runtime.gpu_tensor import GpuTensor
from webpte.runtime.info import MethodInfo, Placement, Stats, TensorInfo
from webpte.runtime.lifted import lift
from webpte.runtime.method import Delegate, Method
from webpte.runtime.numpy_delegate import NumpyDelegate
from webpte.runtime.open import open_source
from webpte.runtime.state import read_states, share_cells
from webpte.shaders import ShaderLibrary
from webpte.shapes import Dims

OUTPUTS = ("numpy", "gpu")


async def load(
    source: Any,
    *,
    device: str | Device = "webgpu",
    data: Sequence[Any] = (),
    strict: bool = False,
    name: str | None = None,
    progress: Progress | None = None,
) -> Program:
    """Open a `.pte` and make it ready to run.

    source    bytes, a path, or in the browser also a URL (str) or a Blob
    device    "webgpu", "numpy" (the references, in CPython too), or a Device to share
    data      the `.ptd` files that belong to the program, each given like `source`
    strict    refuse to run on the host what has no kernel, instead of doing it and reporting it
    progress  called as progress(stage, done, total); stages: fetch, read, compile, constants
    """
    if isinstance(device, str) and device not in ("webgpu", "numpy"):
        raise DeviceError(f"no device is called {device!r}; there are 'webgpu' and 'numpy'")
    clock = _Clock()
    opened = await open_source(source, name=name, progress=progress)
    files = [await open_source(file, progress=progress) for file in data]
    clock.lap("fetch")
    contents = await read_contents(opened, files)
    if progress is not None:
        progress("read", 1, 1)
    clock.lap("read")
    check_supported(contents)
    shared = device == "webgpu"
    if shared:
        device = await shared_device()
        clock.lap("device")
    program = Program(contents, device, clock, strict, shared)
    await program._build(progress)
    return program


async def inspect(
    source: Any, *, data: Sequence[Any] = (), name: str | None = None
) -> dict[str, MethodInfo]:
    """What is in a file, without a device; unsupported operators are listed, not raised."""
    files = [await open_source(file) for file in data]
    contents = await read_contents(await open_source(source, name=name), files)
    return {name: method.info for name, method in contents.methods.items()}


def check_supported(contents: Contents) -> None:
    """Refuse, before anything is allocated, what could not run: all of it at once."""
    for method in contents.methods.values():
        for delegate in method.plan.delegates:
            if delegate.id != BACKEND:
                raise ForeignDelegateError(_foreign_message(method.info.name, delegate.id))
    missing: Counter[str] = Counter()
    for method in contents.methods.values():
        missing.update(method.info.unsupported)
    if missing:
        raise UnsupportedOpError(contents.source.name, missing)


def _foreign_message(method: str, backend: str) -> str:
    return (
        f"method {method!r} has a delegate compiled for {backend!r}, which only that backend can "
        "run. Export for this runtime with:\n"
        "    from executorch.backends.vulkan.partitioner.vulkan_partitioner "
        "import VulkanPartitioner\n"
        "    to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])"
    )


@contextmanager
def _executing(method: str) -> Iterator[None]:
    """What goes wrong inside becomes an ExecutionError; a wrong input is one already."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise ExecutionError(f"method {method!r}: {error}") from error


class _Clock:
    """Milliseconds per stage."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.laps[stage] = (now - self._last) * 1000
        self._last = now


class Program:
    """A loaded program. Close it, or use `async with`, to free its GPU memory."""

    def __init__(
        self,
        contents: Contents,
        device: str | Device,
        clock: _Clock,
        strict: bool = False,
        shared: bool = False,
    ) -> None:
        """`shared` says that `device` is the default one, not one that the caller gave."""
        self._contents = contents
        self._strict = strict
        self._device = device
        self._shared = shared
        self._recovery = asyncio.Lock()
        self._clock = clock
        self._delegates: list[Delegate] = []
        self._delegates_of: dict[str, list[Delegate]] = {}
        self._methods: dict[str, Method] = {}
        self._heads: dict[tuple[DType, Dims], GpuDelegate] = {}
        self._tensors: WeakSet[GpuTensor] = WeakSet()  # outputs that callers still hold
        self._library = ShaderLibrary()
        self._closed = False
        self._generation = 0
        self._calls: Counter[str] = Counter()
        self.name = contents.source.name

    async def _build(self, progress: Progress | None) -> None:
        """Everything on the device; closes the program if any of it fails."""
        try:
            await self._build_methods(progress)
        except BaseException:
            self.close()
            raise
        self._clock.lap("build")

    async def _build_methods(self, progress: Progress | None) -> None:
        constants = ConstantStore()
        states = await read_states(self._contents)
        together = asyncio.Lock() if share_cells(states.values()) else None
        device = None if isinstance(self._device, str) else self._device
        for name, of_file in self._contents.methods.items():
            contents = of_file if device is None else lift(of_file, states[name], device.info)
            delegates = [
                await self._build_delegate(graph, constants, progress)
                for graph in _graphs(contents)
            ]
            self._delegates_of[name] = delegates
            lock = together or asyncio.Lock()
            self._methods[name] = Method(contents, delegates, states[name], device, lock)

    async def _build_delegate(
        self, graph: Graph, constants: ConstantStore, progress: Progress | None
    ) -> Delegate:
        delegate: Delegate
        if isinstance(self._device, str):
            delegate = await NumpyDelegate.create(graph)
        else:
            delegate = await GpuDelegate.create(
                graph, self._device, self._library, progress, self._strict, constants
            )
        self._delegates.append(delegate)
        return delegate

    @property
    def methods(self) -> dict[str, MethodInfo]:
        """Every method with its inputs, outputs, operators and constants."""
        return {name: contents.info for name, contents in self._contents.methods.items()}

    async def forward(self, *inputs: Any, output: str = "numpy") -> tuple[Any, ...]:
        """Run the method `forward`; always returns a tuple, one item per output."""
        return await self.run("forward", *inputs, output=output)

    async def run(self, method: str, *inputs: Any, output: str = "numpy") -> tuple[Any, ...]:
        """Run a method by name.

        inputs  NumPy arrays, `GpuTensor`s, JavaScript `GPUBuffer`s (where the input has a fixed
                shape), and scalars where the method takes them
        output  "numpy": tensors come back as arrays; "gpu": they stay there as `GpuTensor`s
        """
        found = self._method(method)
        if output not in OUTPUTS:
            raise InputError(f"output={output!r}: there are {' and '.join(map(repr, OUTPUTS))}")
        if output == "gpu" and isinstance(self._device, str):
            raise DeviceError(f"output='gpu': {self.name} runs on NumPy, where there is no GPU")
        outputs = await found.run(inputs, on_gpu=output == "gpu")
        tensors = [value for value in outputs if isinstance(value, GpuTensor)]
        self._tensors.update(tensors)
        if self._closed and tensors:
            self.close()
            raise ClosedError(f"{self.name} was closed while it ran")
        return outputs

    async def run_argmax(self, method: str, *inputs: Any) -> np.ndarray:
        """Run a method with one output, and return where it is largest along its last dim.

        The search runs on the GPU, so a few bytes come back instead of the whole output.
        """
        found = self._method(method)
        if len(found.info.outputs) != 1 or not isinstance(found.info.outputs[0], TensorInfo):
            raise InputError(f"method {method!r} does not have exactly one tensor as its output")
        delegate = found.only_delegate
        if not isinstance(delegate, GpuDelegate):
            (output,) = await found.run(inputs)
            return np.argmax(output, axis=-1)
        head = await self._argmax_head(delegate.outputs[0])
        given = found.check_inputs(inputs)
        with _executing(method):
            (indices,) = await delegate.execute_into(given, head)
        return indices

    async def run_unread(self, method: str, *inputs: Any) -> None:
        """Run a method for its effect on state (caches) alone: nothing is read back."""
        found = self._method(method)
        delegate = found.only_delegate
        if not isinstance(delegate, GpuDelegate):
            await found.run(inputs)
            return
        given = found.check_inputs(inputs)
        with _executing(method):
            await delegate.execute_unread(given)

    async def _argmax_head(self, output: Tensor) -> GpuDelegate:
        """A graph of one op that takes a delegate's output; made on first use."""
        heads, device, key = self._heads, self._device, (output.dtype, output.dims)
        if key not in heads:
            assert not isinstance(device, str)
            heads[key] = await GpuDelegate.create(argmax_graph(*key), device, self._library)
        return heads[key]

    def _method(self, name: str) -> Method:
        if self._closed:
            raise ClosedError(f"{self.name} was closed; load it again")
        if name not in self._methods:
            listed = ", ".join(self._methods) or "none"
            raise InputError(f"{self.name} has no method {name!r}; it has: {listed}")
        self._calls[name] += 1
        return self._methods[name]

    def calls(self, method: str) -> int:
        """How often a method was called, in whatever way; tells whether others called it, too."""
        return self._calls[method]

    @property
    def generation(self) -> int:
        """How often `recover` has rebuilt the program: state of another generation is gone."""
        return self._generation

    async def profile(self, method: str = "forward") -> list[tuple[str, float]]:
        """Every kernel of a method's last run, in order, with its microseconds on the GPU.

        Runs the kernels once more on what is in memory: caches and other state are written again.
        """
        delegate = self._method(method).only_delegate
        if not isinstance(delegate, GpuDelegate):
            raise DeviceError(f"method {method!r} is not one delegate on the GPU")
        return await delegate.profile()

    @property
    def stats(self) -> Stats:
        """Counters, now."""
        gpu = [delegate for delegate in self._delegates if isinstance(delegate, GpuDelegate)]
        runs: Sequence[Any] = self._delegates
        tensors = [tensor for tensor in self._tensors if tensor.device is self._device]
        holders: list[GpuDelegate | GpuTensor] = [*gpu, *self._heads.values(), *tensors]
        allocated = {buffer: n for holder in holders for buffer, n in holder.allocated.items()}
        return Stats(
            buffers=len(allocated),
            buffer_bytes=sum(allocated.values()),
            dispatches=sum(delegate.dispatches for delegate in gpu),
            pipelines=sum(delegate.pipelines for delegate in gpu),
            prepack_transfers=sum(delegate.transfers for delegate in runs),
            interop_calls=0 if isinstance(self._device, str) else self._device.interop_calls,
            executions=sum(delegate.executions for delegate in runs),
            hooks_fired=sum(delegate.hooks_fired for delegate in gpu),
            lowerings=sum(delegate.lowerings for delegate in gpu),
            load_ms=dict(self._clock.laps),
            last_ms=dict(max(gpu, key=lambda delegate: delegate.ended).last_ms) if gpu else {},
        )

    @property
    def report(self) -> list[Placement]:
        """What ran where: every operator of every method, with the host's share of the time."""
        rows = []
        for name, method in self._methods.items():
            counts = Counter({(kernel, "host"): n for kernel, n in method.kernels.items()})
            host_ms = defaultdict(
                float, {(kernel, "host"): ms for kernel, ms in method.kernel_ms.items()}
            )
            for index, delegate in enumerate(self._delegates_of[name]):
                if isinstance(delegate, GpuDelegate):
                    for (op, where), count in delegate.placements().items():
                        key = method.lifted.get(index, op), where
                        counts[key] += count
                        host_ms[key] += delegate.host_ms.get(op, 0.0)
            rows += [
                Placement(name, op, where, count, host_ms[op, where])
                for (op, where), count in counts.items()
            ]
        return rows

    @property
    def device(self) -> Device:
        """What the program runs on; `device.native` is the JavaScript `GPUDevice`."""
        if isinstance(self._device, str):
            raise DeviceError(f"{self.name} runs on NumPy, which is no device")
        return self._device

    @property
    def device_info(self) -> DeviceInfo:
        return DeviceInfo(kind="numpy") if isinstance(self._device, str) else self._device.info

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
            clock = _Clock()
            target = await self._recovery_device(device)
            clock.lap("device")
            shared = self._shared and device is None
            fresh = Program(self._contents, target, clock, self._strict, shared)
            await fresh._build(progress)
            if self._closed:
                fresh.close()
                raise ClosedError(f"{self.name} was closed while it was being rebuilt")
            self._free()
            self._device, self._shared, self._clock = target, shared, clock
            self._delegates, self._delegates_of = fresh._delegates, fresh._delegates_of
            self._methods, self._heads = fresh._methods, fresh._heads
            self._generation += 1

    async def _recovery_device(self, device: Device | None) -> str | Device:
        if self._closed:
            raise ClosedError(f"{self.name} was closed; load it again")
        if device is not None:
            return device
        if self._shared:
            return await shared_device()
        if not isinstance(self._device, str) and self._device.lost:
            raise DeviceLostError(
                f"the device that {self.name} was loaded on is lost; make another, "
                "and call recover(device)"
            )
        return self._device

    def close(self) -> None:
        """Free every GPU buffer, also of tensors that it returned. It cannot run afterwards."""
        self._closed = True
        self._free()
        for tensor in list(self._tensors):
            tensor.destroy()

    def _free(self) -> None:
        for delegate in (*self._delegates, *self._heads.values()):
            if isinstance(delegate, GpuDelegate):
                delegate.close()
        self._delegates, self._delegates_of, self._heads = [], {}, {}

    async def __aenter__(self) -> Program:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def argmax_graph(dtype: DType, dims: Dims) -> Graph:
    """One call of argmax over the last dim, for inputs of up to these dims."""
    values = (
        Tensor(0, dtype, dims, None, None),
        IntValue(-1),
        BoolValue(False),
        Tensor(3, DTYPES["int32"], dims[:-1], None, None),
    )
    return Graph(values, (Call(0, "aten.argmax.default", (0, 1, 2, 3)),), (0,), (3,))


def _graphs(contents: MethodContents) -> list[Graph]:
    return [graph for graph in contents.graphs if graph is not None]
