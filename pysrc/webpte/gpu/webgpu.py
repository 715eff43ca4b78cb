"""WebGPU through Pyodide's JavaScript interop.

The objects live in `engine.js`; this class hands batches over and turns what JavaScript throws
into our errors. Each method is one crossing, and `interop_calls` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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
from webpte.gpu.device import (
    DeviceInfo,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Progress,
    Transfer,
)
from webpte.gpu.files import JsFile

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
def load_engine_module() -> Any:
    """The functions of engine.js, which have no state of their own."""
    code = Path(__file__).with_name("engine.js").read_text(encoding="utf-8")
    return run_js(code)


async def find_adapter() -> tuple[Any, Any, DeviceInfo]:
    """engine.js, the adapter and what it is; raises NoWebGPUError where there is none."""
    module = load_engine_module()
    adapter = await module.requestAdapter()
    if adapter is None:
        raise NoWebGPUError(_NO_WEBGPU)
    facts = json.loads(module.describeAdapter(adapter))
    names = f"{facts['vendor']} {facts['architecture']} {facts['description']}".lower()
    software = facts["software"] or "swiftshader" in names or "llvmpipe" in names
    info = DeviceInfo(
        kind="webgpu",
        vendor=facts["vendor"],
        architecture=facts["architecture"],
        description=facts["description"],
        software=software,
        features=tuple(facts["features"]),
        limits=facts["limits"],
    )
    return module, adapter, info


class WebGPUDevice:
    """The device of one browser context. `create` it once and share it among programs."""

    def __init__(self, engine: Any, info: DeviceInfo) -> None:
        self._engine = engine
        self._pipelines: dict[PipelineSpec, int] = {}
        self.info = info
        self.interop_calls = 0

    @classmethod
    async def create(cls) -> WebGPUDevice:
        module, adapter, info = await find_adapter()
        with _translated("asking for the GPU"):
            engine = await module.createEngine(adapter, json.dumps(_FEATURES))
        return cls(engine, info)

    @property
    def lost(self) -> bool:
        return bool(self._engine.isLost())

    async def create_buffers(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        limit = self.info.limits["maxBufferSize"]
        if not uniform:
            limit = min(limit, self.info.limits["maxStorageBufferBindingSize"])
        if sizes and max(sizes) > limit:
            raise OutOfMemoryError(
                f"a buffer of {max(sizes):,} bytes is over this GPU's limit of {limit:,} bytes"
            )
        self.interop_calls += 1
        with _translated(f"allocating {len(sizes)} buffers, {sum(sizes):,} bytes in all"):
            made: list[int] = json.loads(
                await self._engine.createBuffers(json.dumps(list(sizes)), uniform)
            )
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
        missing = [spec for spec in dict.fromkeys(specs) if spec not in self._pipelines]
        if missing:
            self.interop_calls += 1
            described = [
                {"label": s.label, "code": s.code, "bindings": s.bindings, "overrides": s.overrides}
                for s in missing
            ]
            with _translated("compiling kernels"), _proxied(progress) as proxy:
                ids = json.loads(await self._engine.createPipelines(json.dumps(described), proxy))
            self._pipelines |= dict(zip(missing, ids, strict=True))
        return [self._pipelines[spec] for spec in specs]

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
        by_file: dict[JsFile, list[Transfer]] = {}
        for transfer in transfers:
            source = transfer.region.source
            if not isinstance(source, JsFile):
                raise DeviceError(f"{source.name}: constants come from files in the browser")
            by_file.setdefault(source, []).append(transfer)
        for source, part in by_file.items():
            # In file order, so that the file is read through once.
            ordered = sorted(part, key=lambda transfer: transfer.region.offset)
            described = [[t.buffer, t.region.offset, t.region.size, t.convert] for t in ordered]
            total = sum(t.region.size for t in ordered)
            self.interop_calls += 1
            with _translated(f"{source.name}: moving constants"), _proxied(progress) as proxy:
                await self._engine.transfer(source.file, json.dumps(described), total, proxy)

    async def create_plan(self, commands: PlanCommands) -> int:
        self.interop_calls += 1
        description = {
            "uploads": [[u.buffer, u.payload_offset, u.nbytes] for u in commands.uploads],
            "dispatches": [
                [d.pipeline, [[r.buffer, r.offset, r.nbytes] for r in d.resources], *d.grid]
                for d in commands.dispatches
            ],
            "readbacks": [[r.buffer, r.nbytes, r.result_offset] for r in commands.readbacks],
            "resultBytes": commands.result_bytes,
        }
        with _translated("preparing the execution"):
            return int(await self._engine.createPlan(json.dumps(description)))

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
        lists = [[[c.source, c.target, c.nbytes] for c in part] for part in (copies, kept)]
        described = json.dumps(lists) if copies or kept else ""
        with _translated("running"):
            return self._collect(self._engine.run(plan, payload, described, read, watched), read)

    async def _collect(self, promise: Any, read: bool, doing: str = "running") -> bytes:
        if promise is None:
            return b""
        self.interop_calls += 1 + read  # the promise, and the copy of its result
        with _translated(doing):
            result = await promise
            return bytes(result.to_bytes()) if read else b""

    async def profile(self, plan: int) -> list[float]:
        if "timestamp-query" not in self.info.features:
            raise DeviceError("this GPU offers no timestamps, so kernels cannot be timed")
        self.interop_calls += 1
        with _translated("timing kernels"):
            return [
                nanoseconds / 1000 for nanoseconds in json.loads(await self._engine.profile(plan))
            ]

    def counts(self) -> dict[str, int]:
        """Live objects on the JavaScript side, for leak tests."""
        counted: dict[str, int] = json.loads(self._engine.counts())
        return counted

    def destroy(self) -> None:
        """Give the GPU back; every program on this device is lost."""
        self._engine.destroy()


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
