"""WebGPU through Pyodide's JavaScript interop.

The objects live in `engine.js`; this class hands batches over and turns what JavaScript throws
into our errors. Each method is one crossing, and `interop_calls` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from pyodide.code import run_js
from pyodide.ffi import JsException, JsProxy, create_proxy

from webpte.errors import (
    ConstantError,
    DeviceError,
    DeviceLostError,
    InputError,
    NoWebGPUError,
    OutOfMemoryError,
    ShaderError,
    WebpteError,
)
from webpte.gpu.constants import by_file
from webpte.gpu.device import (
    DeviceInfo,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Progress,
    Transfer,
    check_sizes,
    is_software,
)
from webpte.gpu.files import JsFile
from webpte.gpu.pipelines import PipelineCache, completed
from webpte.gpu.unbroken import or_undo

_COPY_SRC = 0x0004  # GPUBufferUsage's number for it

# Asked for where the adapter has them.
_FEATURES = ("shader-f16", "timestamp-query", "subgroups")

_ERRORS: dict[str, type[WebpteError]] = {
    "DeviceLost": DeviceLostError,
    "OutOfMemory": OutOfMemoryError,
    "ShaderError": ShaderError,
    "Overflow": ConstantError,
}

_NO_WEBGPU = (
    "this browser offers no WebGPU adapter; use a current Chrome, Edge, Firefox or Safari on a "
    "page from https or localhost, or load with device='numpy'"
)


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    """JavaScript's exceptions end here."""
    try:
        yield
    except JsException as error:
        kind = _ERRORS.get(str(error.name), DeviceError)
        message = f"{doing}: {error.message}"
        if kind is DeviceLostError:
            message = f"{message.rstrip('.')}; call program.recover(), or load the program again"
        raise kind(message) from error


@cache
def load_script(name: str) -> Any:
    """What a script of this folder evaluates to: functions that have no state of their own."""
    return run_js(Path(__file__).with_name(name).read_text(encoding="utf-8"))


async def find_adapter() -> tuple[Any, DeviceInfo]:
    """The adapter and what it is; raises NoWebGPUError where there is none."""
    module = load_script("adapter.js")
    adapter = await module.request()
    if adapter is None:
        raise NoWebGPUError(_NO_WEBGPU)
    facts = json.loads(module.describe(adapter))
    names = facts["vendor"], facts["architecture"], facts["description"]
    info = DeviceInfo(
        "webgpu",
        *names,
        software=facts["software"] or is_software(*names),
        features=tuple(facts["features"]),
        limits=facts["limits"],
    )
    return adapter, info


class WebGPUDevice:
    """The device of one browser context. `create` it once and share it among programs."""

    def __init__(self, engine: Any, info: DeviceInfo) -> None:
        self._engine = engine
        self._pipelines = PipelineCache(self._compile)
        self._has_byte_products = bool(load_script("adapter.js").hasByteProducts())
        self.info = info
        self.interop_calls = 0

    @classmethod
    async def create(cls, waiting: str | None = None) -> WebGPUDevice:
        """`waiting` is a way to wait for results (see waiting.js) in place of the best."""
        adapter, info = await find_adapter()
        with _translated("asking for the GPU"):
            device = await load_script("adapter.js").open(adapter, json.dumps(_FEATURES))
            waiter = await load_script("waiting.js").open(device, info.software, waiting)
            parts = (load_script(name) for name in ("commands.js", "transfer.js"))
            engine = load_script("engine.js")(device, *parts, waiter)
        chosen = json.loads(waiter.describe())
        return cls(engine, replace(info, waiting=chosen["way"], waiting_ms=chosen["ms"]))

    @property
    def lost(self) -> bool:
        return bool(self._engine.isLost())

    async def create_buffers(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        check_sizes(self.info, sizes, uniform)
        self.interop_calls += 1
        with _translated(f"allocating {len(sizes)} buffers, {sum(sizes):,} bytes in all"):
            promise = self._engine.createBuffers(json.dumps(list(sizes)), uniform)
            made: list[int] = json.loads(await or_undo(promise, self._engine.destroyBuffers))
        return made

    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        self.interop_calls += 1
        self._engine.destroyBuffers(json.dumps(list(buffers)))

    @property
    def native(self) -> Any:
        return self._engine.device

    def native_buffer(self, buffer: int) -> Any:
        self.interop_calls += 1
        return self._engine.bufferOf(buffer)

    def is_native_buffer(self, value: object) -> bool:
        return isinstance(value, JsProxy) and bool(self._engine.isBuffer(value))

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        if not self.is_native_buffer(native):
            raise InputError(f"a GPUBuffer is needed, not a {type(native).__name__}")
        if not int(native.usage) & _COPY_SRC:
            raise InputError("the GPUBuffer was not made with the usage COPY_SRC")
        self.interop_calls += 1
        return int(self._engine.adoptBuffer(native)), int(native.size)

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        self.interop_calls += 1
        self._engine.forgetBuffers(json.dumps(list(buffers)))

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        return await self._pipelines.get(specs, progress)

    async def _compile(self, specs: Sequence[PipelineSpec], progress: Progress | None) -> list[int]:
        self.interop_calls += 1
        described = [
            {**asdict(spec), "code": completed(spec.code, self._has_byte_products)}
            for spec in specs
        ]
        with _translated("compiling kernels"), _proxied(progress) as proxy:
            ids: list[int] = json.loads(
                await self._engine.createPipelines(json.dumps(described), proxy)
            )
        return ids

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        self.interop_calls += 1
        with _translated("writing parameters"):
            self._engine.write(buffer, offset, data)

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        self.interop_calls += 1
        return self._collect(self._engine.read(buffer, nbytes), True, "reading a tensor back")

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        files = by_file(transfers)
        for source, _ in files:
            if not isinstance(source, JsFile):
                raise DeviceError(f"{source.name}: constants come from files in the browser")
        for source, ordered in files:
            described = [[t.buffer, t.region.offset, t.region.size, t.convert] for t in ordered]
            total = sum(t.region.size for t in ordered)
            self.interop_calls += 1
            with _translated(f"{source.name}: moving constants"), _proxied(progress) as proxy:
                file = cast(JsFile, source).file
                await self._engine.transfer(file, json.dumps(described), total, proxy)

    async def create_plan(self, commands: PlanCommands) -> int:
        self.interop_calls += 1
        description = {
            "uploads": [[u.buffer, u.payload_offset, u.nbytes] for u in commands.uploads],
            "clears": commands.clears,
            "parts": [[p.plan, _rows(p.copies), _rows(p.kept)] for p in commands.parts],
            "dispatches": [
                [d.pipeline, [[r.buffer, r.offset, r.nbytes] for r in d.resources], *d.grid]
                for d in commands.dispatches
            ],
            "readbacks": [[r.buffer, r.nbytes, r.result_offset] for r in commands.readbacks],
            "resultBytes": commands.result_bytes,
        }
        with _translated("preparing the execution"):
            promise = self._engine.createPlan(json.dumps(description))
            return int(await or_undo(promise, self._engine.destroyPlan))

    def destroy_plan(self, plan: int) -> None:
        self.interop_calls += 1
        self._engine.destroyPlan(plan)

    def run(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        read: bool = True,
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> Awaitable[bytes]:
        self.interop_calls += 1
        with _translated("running"):
            running = self._engine.run(plan, payload, _described(copies, kept), read, watched)
            return self._collect(running, read)

    async def _collect(self, promise: Any, read: bool, doing: str = "running") -> bytes:
        if promise is None:
            return b""
        self.interop_calls += 1 + read  # the promise, and the copy of its result
        with _translated(doing):
            result = await promise
            return bytes(result.to_bytes()) if read else b""

    def profile(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> Awaitable[tuple[bytes, list[float]]]:
        if "timestamp-query" not in self.info.features:
            raise DeviceError("this GPU offers no timestamps, so kernels cannot be timed")
        self.interop_calls += 1
        with _translated("timing kernels"):
            return self._timed(self._engine.profile(plan, payload, _described(copies, kept)))

    async def _timed(self, promise: Any) -> tuple[bytes, list[float]]:
        self.interop_calls += 2
        with _translated("timing kernels"):
            result = await promise
            microseconds = [n / 1000 for n in json.loads(result.nanoseconds)]
            return bytes(result.bytes.to_bytes()), microseconds

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self.interop_calls += 1
        with _translated("copying on the GPU"):
            self._engine.copy(json.dumps(_rows(copies)))

    def counts(self) -> dict[str, int]:
        """Live objects on the JavaScript side, for leak tests."""
        counted: dict[str, int] = json.loads(self._engine.counts())
        return counted

    def destroy(self) -> None:
        """Give the GPU back; every program on this device is lost."""
        self._engine.destroy()


def _rows(copies: Sequence[GpuCopy]) -> list[list[int]]:
    return [[c.source, c.target, c.nbytes, c.source_offset, c.target_offset] for c in copies]


def _described(copies: Sequence[GpuCopy], kept: Sequence[GpuCopy]) -> str:
    return json.dumps([_rows(copies), _rows(kept)]) if copies or kept else ""


@contextmanager
def _proxied(progress: Progress | None) -> Iterator[Any]:
    """A progress function that JavaScript may keep until its promise settles."""
    if progress is None:
        yield None
        return
    proxy = create_proxy(progress)
    try:
        yield proxy
    finally:
        proxy.destroy()
