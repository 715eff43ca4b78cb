"""One delegate's graph on a GPU device: its buffers, its constants, its plans by shape."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from webpte.dtypes import DType, narrow_to_storage
from webpte.errors import ExecutionError, GraphError, WebpteError
from webpte.format.vulkan import SymIntValue
from webpte.gpu.arena import ParamsArena
from webpte.gpu.device import (
    UNIFORM_ALIGNMENT,
    Device,
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Progress,
    Readback,
    Resource,
    Transfer,
    Upload,
)
from webpte.graph import Graph, Tensor
from webpte.live import LiveState
from webpte.ops.records import Binding, Dispatch, Scratch, SymIntBound, SymIntUniform
from webpte.passes import merge_duplicate_calls
from webpte.plan import (
    Planner,
    PlannerState,
    check_bounds,
    check_defined,
    constant_transfers,
    read_symint,
    resolve_ops,
    symint_sources,
)
from webpte.shaders import ShaderLibrary
from webpte.shapes import Dims, numel
from webpte.storage import StoragePlan, aligned, plan_storage

SYMINT_BYTES = 16

# Plans kept per delegate: prefill lengths come and go, and each plan holds its bind groups.
MAX_PLANS = 32

Signature = tuple[Dims, ...]
PlanKey = tuple[Signature, tuple[Dispatch, ...], tuple[Dims, ...]]


@dataclass(frozen=True)
class GpuTensor:
    """An output that stayed on the GPU; valid until its delegate runs again."""

    buffer: int
    dtype: DType
    shape: Dims

    @property
    def nbytes(self) -> int:
        return aligned(numel(self.shape) * self.dtype.storage.itemsize)


Input = np.ndarray | int | GpuTensor


@dataclass(frozen=True)
class _Output:
    tensor: Tensor
    dims: Dims
    offset: int


@dataclass(frozen=True)
class DevicePlan:
    """Everything that one shape signature needs to run: a handle, and the layout of its bytes."""

    handle: int
    payload: np.ndarray  # uint8; inputs and SymInts on their way up
    input_views: tuple[np.ndarray | None, ...]  # parts of the payload, typed; None: never read
    symint_view: np.ndarray  # int32 (symints, words per block)
    outputs: tuple[_Output, ...]
    dispatches: int
    labels: tuple[str, ...]
    bounds: tuple[SymIntBound, ...]
    key: PlanKey
    state: PlannerState


@dataclass
class _Allocations:
    """Everything to give back."""

    buffers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class GpuDelegate:
    """Made by `create`; `execute` may be called again and again, also concurrently."""

    def __init__(self, graph: Graph, device: Device, library: ShaderLibrary) -> None:
        graph = merge_duplicate_calls(graph)
        check_defined(graph)
        ops = resolve_ops(graph)
        self._graph = graph
        self._device = device
        self._library = library
        self._storage: StoragePlan = plan_storage(graph, ops)
        self._live = LiveState(graph)
        self._planner = Planner(graph, self._live, ops, self._storage)
        self._symints = [i for i, v in enumerate(graph.values) if isinstance(v, SymIntValue)]
        self._symint_index = {value_id: index for index, value_id in enumerate(self._symints)}
        self._symint_sources = symint_sources(graph, ops)
        self._arena = ParamsArena(device)
        self._owned = _Allocations()
        self._slot_buffers: list[int] = []
        self._scratch: dict[tuple[str, int], int] = {}
        self._symint_buffer: int | None = None
        self._absent_buffer: int | None = None
        self._pipelines: set[PipelineSpec] = set()
        self._plans: dict[PlanKey, DevicePlan] = {}  # least recently made or switched to first
        self._latest: dict[Signature, DevicePlan] = {}
        self._current: DevicePlan | None = None
        self._lock = asyncio.Lock()
        self.transfers = 0
        self.executions = 0
        self.last_ms: dict[str, float] = {}

    @classmethod
    async def create(
        cls,
        graph: Graph,
        device: Device,
        library: ShaderLibrary,
        progress: Progress | None = None,
    ) -> GpuDelegate:
        """Allocate, compile and move constants; gives everything back if any of it fails."""
        delegate = cls(graph, device, library)
        try:
            await delegate._build(progress)
        except BaseException:
            delegate.close()
            raise
        return delegate

    async def _build(self, progress: Progress | None) -> None:
        transfers = constant_transfers(self._graph)
        self._planner.lower_all()
        self._slot_buffers = await self._allocate([slot.nbytes for slot in self._storage.slots])
        if self._symints:
            blocks = len(self._symints) * UNIFORM_ALIGNMENT
            (self._symint_buffer,) = await self._allocate([blocks], uniform=True)
        # The GPU process compiles while this one reads the file.
        compiling = asyncio.ensure_future(self._compile(self._planner.dispatches(), progress))
        try:
            await self._device.transfer(
                [
                    Transfer(
                        region=t.constant.region.head(t.target.file_bytes),
                        buffer=self._buffer_of(t.target.id),
                        convert=_conversion(t.target),
                    )
                    for t in transfers
                    if t.target.file_bytes
                ],
                progress,
            )
        finally:
            await compiling
        self.transfers = len(transfers)
        await self._switch()

    async def _allocate(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        buffers = await self._device.create_buffers(sizes, uniform) if sizes else []
        self._owned.buffers += buffers
        self._owned.sizes += sizes
        return buffers

    def _buffer_of(self, value_id: int) -> int:
        return self._slot_buffers[self._storage.slot_of[value_id]]

    # Plans

    def _signature(self) -> Signature:
        return tuple(
            self._live.cur_dims(i)
            for i in self._graph.inputs
            if isinstance(self._graph.value(i), Tensor)
        )

    async def _compile(
        self, records: Sequence[Dispatch], progress: Progress | None = None
    ) -> list[tuple[int, PipelineSpec]]:
        specs = []
        for record in records:
            shader = self._library.assemble(record.kernel, record.types)
            if len(shader.bindings) != len(record.bindings) + 1:
                raise GraphError(
                    f"{record.kernel}.wgsl has {len(shader.bindings)} bindings, "
                    f"the record fills {len(record.bindings) + 1}"
                )
            label = " ".join([record.kernel, *(text for name, text in record.types)])
            specs.append(PipelineSpec(label, shader.code, shader.bindings, record.overrides))
        ids = await self._device.create_pipelines(specs, progress) if specs else []
        self._pipelines.update(specs)
        return list(zip(ids, specs, strict=True))

    async def _switch(self) -> DevicePlan:
        """The plan for the live shapes: one made before, or a new one."""
        key = (
            self._signature(),
            self._planner.dispatches(),
            tuple(self._live.cur_dims(i) for i in self._graph.outputs),
        )
        plan = self._plans.pop(key, None) or await self._make_plan(key)
        self._plans[key] = self._latest[key[0]] = self._current = plan
        if len(self._plans) > MAX_PLANS:
            oldest = self._plans.pop(next(iter(self._plans)))
            if self._latest[oldest.key[0]] is oldest:
                del self._latest[oldest.key[0]]
            self._device.destroy_plan(oldest.handle)
        return plan

    async def _make_plan(self, key: PlanKey) -> DevicePlan:
        """Turn the records at the live shapes into a plan on the device."""
        records = key[1]
        compiled = await self._compile(records)
        params = await self._arena.place([record.params for record in records])
        dispatches = []
        for record, (pipeline, _), block in zip(records, compiled, params, strict=True):
            resources = [await self._resource(binding) for binding in record.bindings]
            dispatches.append(DispatchCommand(pipeline, (*resources, block), record.grid))
        layout = _PayloadLayout()
        uploads, views = self._plan_uploads(layout)
        payload = np.zeros(layout.nbytes, np.uint8)
        symint_span = views.pop()
        outputs, readbacks, result_bytes = self._plan_readbacks()
        commands = PlanCommands(tuple(uploads), tuple(dispatches), readbacks, result_bytes)
        return DevicePlan(
            handle=await self._device.create_plan(commands),
            payload=payload,
            input_views=tuple(None if view is None else view(payload) for view in views),
            symint_view=symint_span(payload) if symint_span else np.zeros((0, 1), np.int32),
            outputs=outputs,
            dispatches=len(dispatches),
            labels=tuple(spec.label for _, spec in compiled),
            bounds=self._planner.symint_bounds(),
            key=key,
            state=self._planner.state(),
        )

    async def _resource(self, binding: Binding) -> Resource:
        if isinstance(binding, int):
            slot = self._storage.slots[self._storage.slot_of[binding]]
            return Resource(self._slot_buffers[slot.index], 0, slot.nbytes)
        if isinstance(binding, SymIntUniform):
            assert self._symint_buffer is not None
            offset = self._symint_index[binding.value_id] * UNIFORM_ALIGNMENT
            return Resource(self._symint_buffer, offset, SYMINT_BYTES)
        if isinstance(binding, bytes):
            (resource,) = await self._arena.place([binding])
            return resource
        if isinstance(binding, Scratch):
            key = (binding.key, aligned(binding.nbytes))
            if key not in self._scratch:
                (self._scratch[key],) = await self._allocate([key[1]])
            return Resource(self._scratch[key], 0, key[1])
        if self._absent_buffer is None:
            (self._absent_buffer,) = await self._allocate([aligned(0)])
        return Resource(self._absent_buffer, 0, aligned(0))

    def _plan_uploads(
        self, layout: _PayloadLayout
    ) -> tuple[list[Upload], list[Callable[[np.ndarray], np.ndarray] | None]]:
        """Uploads, and how to get typed views of the payload: inputs in order, then SymInts."""
        uploads: list[Upload] = []
        views: list[Callable[[np.ndarray], np.ndarray] | None] = []
        for value_id in self._graph.inputs:
            value = self._graph.value(value_id)
            if not isinstance(value, Tensor) or value_id not in self._storage.slot_of:
                views.append(None)
                continue
            dims, dtype = self._live.cur_dims(value_id), value.dtype.storage.numpy
            offset, nbytes = layout.add(numel(dims) * dtype.itemsize)
            views.append(_typed_view(offset, dims, dtype))
            if nbytes:
                uploads.append(Upload(self._buffer_of(value_id), offset, nbytes))
        if self._symint_buffer is None:
            return uploads, [*views, None]
        offset, nbytes = layout.add(len(self._symints) * UNIFORM_ALIGNMENT)
        uploads.append(Upload(self._symint_buffer, offset, nbytes))
        words = (len(self._symints), UNIFORM_ALIGNMENT // 4)
        return uploads, [*views, _typed_view(offset, words, np.dtype(np.int32))]

    def _plan_readbacks(self) -> tuple[tuple[_Output, ...], tuple[Readback, ...], int]:
        layout = _PayloadLayout()
        outputs, readbacks = [], []
        for value_id in self._graph.outputs:
            tensor, dims = self._graph.tensor(value_id), self._live.cur_dims(value_id)
            offset, nbytes = layout.add(numel(dims) * tensor.dtype.storage.itemsize)
            outputs.append(_Output(tensor, dims, offset))
            if nbytes:
                readbacks.append(Readback(self._buffer_of(value_id), nbytes, offset))
        return tuple(outputs), tuple(readbacks), layout.nbytes

    # Execution

    @property
    def input_count(self) -> int:
        return len(self._graph.inputs)

    async def execute(self, inputs: Sequence[Input]) -> list[np.ndarray]:
        """Run once. After an error the delegate is as it was before the call."""
        plan, running = await self._submit(inputs, read=True)
        submitted = perf_counter()
        result = await running
        self.last_ms["wait"] = (perf_counter() - submitted) * 1000
        return [_unpack(result, output) for output in plan.outputs]

    async def execute_on_gpu(self, inputs: Sequence[Input]) -> list[GpuTensor]:
        """Run once and leave the outputs where they are."""
        plan, running = await self._submit(inputs, read=False)
        await running
        return [
            GpuTensor(self._buffer_of(output.tensor.id), output.tensor.dtype, output.dims)
            for output in plan.outputs
        ]

    async def _submit(
        self, inputs: Sequence[Input], read: bool
    ) -> tuple[DevicePlan, Awaitable[bytes]]:
        """Everything is in the queue when this returns; only the results are still to come."""
        async with self._lock:
            started = perf_counter()
            plan = await self._prepare(inputs)
            copies = []
            for index, (view, value) in enumerate(zip(plan.input_views, inputs, strict=True)):
                if view is None:
                    continue
                tensor = self._graph.tensor(self._graph.inputs[index])
                if isinstance(value, GpuTensor):
                    copies.append(self._gpu_copy(value, tensor))
                else:
                    array = np.asarray(value)
                    view[...] = narrow_to_storage(array, tensor.dtype, f"input {index}")
            for index, value_id in enumerate(self._symints):
                plan.symint_view[index, 0] = self._live.symint(value_id)
            self.executions += 1
            prepared = perf_counter()
            running = self._device.run(plan.handle, plan.payload, copies, read)
            self.last_ms["prepare"] = (prepared - started) * 1000
            self.last_ms["submit"] = (perf_counter() - prepared) * 1000
            return plan, running

    def _gpu_copy(self, value: GpuTensor, tensor: Tensor) -> GpuCopy:
        if value.dtype.stored != tensor.dtype.stored:
            raise ExecutionError(
                f"a GPU tensor of {value.dtype.name} was given where {tensor.dtype.name} is needed"
            )
        return GpuCopy(value.buffer, self._buffer_of(tensor.id), value.nbytes)

    async def profile(self) -> list[tuple[str, float]]:
        """Label and microseconds of each dispatch of the current plan, on whatever data is there.

        Runs the dispatches once more, so state such as caches is written once more, too.
        """
        assert self._current is not None
        times = await self._device.profile(self._current.handle)
        return list(zip(self._current.labels, times, strict=True))

    async def _prepare(self, inputs: Sequence[Input]) -> DevicePlan:
        """Bring shapes and SymInts up to date, and find or make the plan for them."""
        assert self._current is not None
        if len(inputs) != len(self._graph.inputs):
            raise ExecutionError(
                f"the delegate takes {len(self._graph.inputs)} inputs, not {len(inputs)}"
            )
        signature = tuple(value.shape for value in inputs if not isinstance(value, int))
        before = self._current
        symints_before = self._live.symints()
        try:
            if before.key[0] != signature and signature in self._latest:
                self._current = self._latest[signature]
                self._planner.restore(self._current.state)
            self._planner.changed = False
            self._set_inputs(inputs)
            self._planner.propagate_resize()
            if self._planner.changed or self._current.key[0] != signature:
                await self._switch()
            check_bounds(self._current.bounds, self._live)
        except WebpteError:
            self._current = before
            self._planner.restore(before.state)
            self._live.restore_symints(symints_before)
            raise
        return self._current

    def _set_inputs(self, inputs: Sequence[Input]) -> None:
        by_id = dict(zip(self._graph.inputs, inputs, strict=True))
        for value_id, value in by_id.items():
            if isinstance(value, int):
                self._live.set_symint(value_id, value)
            else:
                self._live.set_cur_dims(value_id, value.shape)
        for source in self._symint_sources:
            value = by_id[source.input]
            if isinstance(value, GpuTensor):
                raise ExecutionError("an input that the graph reads on the host must be an array")
            self._live.set_symint(source.symint, read_symint(source, value))

    # Facts

    @property
    def dispatches(self) -> int:
        return self._current.dispatches if self._current else 0

    @property
    def pipelines(self) -> int:
        return len(self._pipelines)

    @property
    def buffers(self) -> int:
        return len(self._owned.buffers) + len(self._arena.buffers)

    @property
    def buffer_bytes(self) -> int:
        return sum(self._owned.sizes) + self._arena.nbytes

    @property
    def hooks_fired(self) -> int:
        return self._planner.hooks_fired

    @property
    def lowerings(self) -> int:
        return self._planner.lowerings

    def close(self) -> None:
        """Free every buffer and plan; a second call does nothing."""
        for plan in self._plans.values():
            self._device.destroy_plan(plan.handle)
        buffers = self._owned.buffers + self._arena.buffers
        if buffers:
            self._device.destroy_buffers(buffers)
        self._plans, self._latest, self._current = {}, {}, None
        self._owned, self._arena = _Allocations(), ParamsArena(self._device)


class _PayloadLayout:
    """Places parts one after the other, each aligned, so that every copy has whole words."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> tuple[int, int]:
        """Offset and padded size of the next part; nothing takes no room."""
        offset, padded = self.nbytes, aligned(nbytes) if nbytes else 0
        self.nbytes += padded
        return offset, padded


def _typed_view(
    offset: int, dims: Dims, dtype: np.dtype[np.generic]
) -> Callable[[np.ndarray], np.ndarray]:
    nbytes = numel(dims) * dtype.itemsize
    return lambda payload: payload[offset : offset + nbytes].view(dtype).reshape(dims)


def _unpack(result: bytes, output: _Output) -> np.ndarray:
    stored = output.tensor.dtype.storage.numpy
    flat = np.frombuffer(result, stored, numel(output.dims), output.offset)
    return flat.reshape(output.dims).astype(output.tensor.dtype.numpy)


def _conversion(tensor: Tensor) -> str | None:
    """Constants whose stored type is not the file's are converted on their way."""
    return None if tensor.dtype.name == tensor.dtype.stored else tensor.dtype.name
