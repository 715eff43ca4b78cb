"""WebGPU through Pyodide's JavaScript interop.

The WebGPU objects live in `engine.js`; `WebGPUDevice` hands batches over and turns JavaScript's
exceptions into WebpteErrors. Each method crosses once, and `interop_calls` counts the crossings.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from pyodide.ffi import JsProxy, create_proxy

from webpte.engine.browser.files import JsFile, abortable
from webpte.engine.browser.scripts import load_script
from webpte.engine.browser.settings_store import BrowserStore
from webpte.engine.files.detached import shield_or_undo
from webpte.engine.files.download import Progress
from webpte.engine.files.source import FileSource
from webpte.engine.gpu.convert import group_by_file, stored_offset, to_stored_bytes
from webpte.engine.gpu.device import (
    BufferUse,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Transfer,
)
from webpte.engine.gpu.device_info import (
    FEATURES,
    DeviceInfo,
    check_clock,
    check_sizes,
    is_software,
    like_a_phone,
)
from webpte.engine.gpu.pipelines import PipelineCache, add_packed_dot
from webpte.engine.gpu.self_test_cache import MemoryText, checked_info
from webpte.engine.gpu.webgpu.eager_future import EagerFuture
from webpte.engine.gpu.webgpu.pending_requests import PendingRequests, translated
from webpte.errors import (
    DeviceError,
    InputError,
    NoWebGPUError,
)

# JavaScript writes results up to this size into an array of Python's; larger results are copied
# twice.
_IN_PLACE_BYTES = 4 << 20
_CHUNK_BYTES = 8 << 20  # of constants that Python converts

_COPY_SRC = 0x0004  # as in GPUBufferUsage

_NO_WEBGPU = (
    "this browser offers no WebGPU adapter; use a current Chrome, Edge, Firefox or Safari on a "
    "page from https or localhost, or load with device='numpy'"
)


async def find_adapter() -> tuple[Any, DeviceInfo]:
    """Return the adapter and its description; raises NoWebGPUError without an adapter."""
    module = load_script("gpu/webgpu/adapter.js")
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
        matrix_shapes=tuple(facts["matrixShapes"]),
        packed_dot=facts["packedDot"],
    )
    return adapter, info


class WebGPUDevice:
    """The device of a browser context. `create` it once and share it among programs."""

    def __init__(
        self, engine: Any, waiter: Any, info: DeviceInfo, requests: PendingRequests
    ) -> None:
        self._engine, self._waiter = engine, waiter
        self._requests = requests
        # by plan: the array to which JavaScript writes results
        self._results: dict[int, np.ndarray | None] = {}
        self._payloads: dict[int, np.ndarray] = {}  # by plan: the array that the engine views
        self._pipelines = PipelineCache(self._compile)
        self.interop_calls = 0
        self.info = info
        self._describe_waiting()

    @classmethod
    async def create(
        cls,
        waiting: str | None = None,
        phone: bool = False,
        self_test_texts: Mapping[str, str] | None = None,
    ) -> WebGPUDevice:
        """Open the browser's GPU and test it, once per adapter and version of the browser.

        waiting          a way to wait for results; without it, `measure_waiting` finds the fastest
        phone            with no more than the limits and features of a phone's GPU
        self_test_texts  as in `run_self_test`: then nothing is kept
        """
        adapter, info = await find_adapter()
        info = like_a_phone(info) if phone else info
        features = [name for name in FEATURES if name in info.features]
        given = json.dumps(features), json.dumps(info.limits)
        with translated("requesting the GPU"):
            device = await load_script("gpu/webgpu/adapter.js").open(adapter, *given)
            waiter = load_script("gpu/webgpu/waiting.js").open(device, info.software, waiting)
            parts = [
                load_script(f"gpu/webgpu/{name}.js") for name in ("replay", "upload_constants")
            ]
            requests = PendingRequests()
            # Never destroyed: requests that are pending when a device is lost still complete.
            completed = create_proxy(requests.completed)
            engine = load_script("gpu/webgpu/engine.js")(device, *parts, waiter, completed)
        made = cls(engine, waiter, info, requests)
        store = MemoryText() if self_test_texts else BrowserStore("self_test.json")
        browser = str(load_script("gpu/webgpu/adapter.js").browser())
        try:
            made.info = await checked_info(made, store, browser, self_test_texts)
        except BaseException:
            made.destroy()
            raise
        return made

    @property
    def lost(self) -> bool:
        return bool(self._engine.isLost())

    async def measure_waiting(self) -> None:
        with translated("measuring how results are waited for"):
            await self._waiter.measure()
        self._describe_waiting()

    def _describe_waiting(self) -> None:
        chosen = json.loads(self._waiter.describe())
        self.info = replace(self.info, waiting=chosen["way"], waiting_ms=chosen["ms"])

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        check_sizes(self.info, sizes, use == "uniform")
        self.interop_calls += 1
        with translated(f"allocating {len(sizes)} buffers, {sum(sizes):,} bytes in all"):
            promise = self._engine.createBuffers(json.dumps(list(sizes)), use)
            made: list[int] = json.loads(await shield_or_undo(promise, self._engine.destroyBuffers))
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
            raise InputError("the GPUBuffer was not created with the usage COPY_SRC")
        self.interop_calls += 1
        return int(self._engine.adoptBuffer(native)), int(native.size)

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        self.interop_calls += 1
        self._engine.forgetBuffers(json.dumps(list(buffers)))

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        return await self._pipelines.get(specs, progress)

    async def _compile(self, specs: Sequence[PipelineSpec], progress: Progress) -> list[int]:
        self.interop_calls += 1
        described = [
            {**asdict(spec), "code": add_packed_dot(spec.code, self.info.packed_dot)}
            for spec in specs
        ]
        with translated("compiling kernels"), _proxied(progress) as proxy:
            ids: list[int] = json.loads(
                await self._engine.createPipelines(json.dumps(described), proxy)
            )
        return ids

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        self.interop_calls += 1
        with translated("writing parameters"):
            self._engine.write(buffer, offset, data)

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        self.interop_calls += 2  # this call, and the completion
        number, future = self._requests.expect("reading a tensor back")
        with self._begun(number, "reading a tensor back"):
            self._engine.read(number, buffer, nbytes)
        return _awaited(future)

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        files = group_by_file(transfers)
        for source, _ in files:
            if isinstance(source, FileSource):
                raise DeviceError(f"{source.name}: constants must be in files of the browser")
        for source, ordered in files:
            # sources that were made when the program was built, which may convert large parts
            if not isinstance(source, JsFile):
                for t in ordered:
                    for start in range(0, t.region.size, _CHUNK_BYTES):
                        length = min(_CHUNK_BYTES, t.region.size - start)
                        stored = to_stored_bytes(await t.region.view(start, length), t.convert)
                        place = stored_offset(start, t.convert)
                        self.write(t.buffer, place, np.frombuffer(stored, np.uint8))
                continue
            described = [[t.buffer, t.region.offset, t.region.size, t.convert] for t in ordered]
            total = sum(t.region.size for t in ordered)
            self.interop_calls += 1
            with translated(f"{source.name}: uploading constants"), _proxied(progress) as proxy:
                given = source.file, json.dumps(described), total, proxy
                await abortable(partial(self._engine.uploadConstants, *given))

    async def create_plan(self, commands: PlanCommands) -> int:
        self.interop_calls += 1
        description = {
            "uploads": [[u.buffer, u.payload_offset, u.nbytes] for u in commands.uploads],
            "clears": commands.clears,
            "parts": [[p.plan, _rows(p.copies), _rows(p.copies_after)] for p in commands.parts],
            "dispatches": [
                [d.pipeline, [[r.buffer, r.offset, r.nbytes] for r in d.resources], *d.grid]
                for d in commands.dispatches
            ],
            "readbacks": [[r.buffer, r.nbytes, r.result_offset] for r in commands.readbacks],
            "resultBytes": commands.result_bytes,
        }
        with translated("preparing the execution"):
            promise = self._engine.createPlan(json.dumps(description))
            plan = int(await shield_or_undo(promise, self._engine.destroyPlan))
        size = commands.result_bytes
        self._results[plan] = np.empty(size, np.uint8) if 0 < size <= _IN_PLACE_BYTES else None
        return plan

    def destroy_plan(self, plan: int) -> None:
        self.interop_calls += 1
        self._engine.destroyPlan(plan)
        self._results.pop(plan, None)
        self._payloads.pop(plan, None)

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        self.interop_calls += 1 + run.read  # this call, and the completion
        self._attach(run.plan, run.payload)
        number, future = self._requests.expect("running", self._results[run.plan])
        with self._begun(number, "running"):
            given = number, run.plan, _described(run), run.read, run.validate
            completes = self._engine.run(*given, *(run.slice or ()))
        if completes:
            return _awaited(future)
        self._requests.forget(number)
        return _nothing()

    @contextmanager
    def _begun(self, number: int, doing: str) -> Iterator[None]:
        """Forget a request if its call raises: the engine will not complete it."""
        try:
            with translated(doing):
                yield
        except BaseException:
            self._requests.forget(number)
            raise

    def _attach(self, plan: int, payload: np.ndarray) -> None:
        """Give the engine views of a plan's arrays, unless it has them from the call before."""
        if self._payloads.get(plan) is payload:
            return
        self.interop_calls += 1
        with translated("running"):
            result = self._results.get(plan)  # if the plan does not exist, the engine raises
            self._engine.attach(plan, payload if payload.size else None, result)
        self._payloads[plan] = payload

    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        check_clock(self.info)
        self.interop_calls += 1
        with translated("timing kernels"):
            self._attach(run.plan, run.payload)
            timed = load_script("gpu/webgpu/timing.js")
            return self._timed(timed(self._engine, run.plan, _described(run)))

    async def _timed(self, promise: Any) -> tuple[bytes, list[float]]:
        self.interop_calls += 2
        with translated("timing kernels"):
            result = await promise
            microseconds = [n / 1000 for n in json.loads(result.nanoseconds)]
            return bytes(result.bytes.to_bytes()), microseconds

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self.interop_calls += 1
        with translated("copying on the GPU"):
            self._engine.copy(json.dumps(_rows(copies)))

    def counts(self) -> dict[str, int]:
        """Live objects on the JavaScript side, for leak tests."""
        counted: dict[str, int] = json.loads(self._engine.counts())
        return counted

    def destroy(self) -> None:
        """Destroy the GPU device; every program on it is lost."""
        self._engine.destroy()


async def _awaited(future: EagerFuture[bytes]) -> bytes:
    return await future


async def _nothing() -> bytes:
    return b""


def _rows(copies: Sequence[GpuCopy]) -> list[list[int]]:
    return [[c.source, c.target, c.nbytes, c.source_offset, c.target_offset] for c in copies]


def _described(run: PlanRun) -> str:
    """Return the copies of a run as JSON; "" without copies."""
    if not run.copies and not run.copies_after:
        return ""
    return json.dumps([_rows(run.copies), _rows(run.copies_after)])


@contextmanager
def _proxied(progress: Progress | None) -> Iterator[Any]:
    """A proxy of a progress function, valid until JavaScript's promise settles."""
    if progress is None:
        yield None
        return
    proxy = create_proxy(progress)
    try:
        yield proxy
    finally:
        proxy.destroy()
