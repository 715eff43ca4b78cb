"""Records at one shape signature, turned into something that the device replays.

A plan is one segment, unless some op has to run on the host: then the GPU's work is cut there, what
the op reads comes back, and what it gives goes up with the next segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from webpte.dtypes import narrow_to_storage
from webpte.errors import GraphError, ShaderError
from webpte.gpu.device import (
    UNIFORM_ALIGNMENT,
    Device,
    DispatchCommand,
    Origin,
    PipelineSpec,
    PlanCommands,
    Progress,
    Readback,
    Resource,
    Upload,
)
from webpte.graph.graph import Graph, Tensor
from webpte.graph.live_state import LiveState
from webpte.ops.core.records import Dispatch, IndexFlag, SymIntBound, SymIntUniform
from webpte.plan.memory_plan import aligned
from webpte.plan.planner import PlannedCall, Planner, PlannerState
from webpte.plan.shaders import Shader, ShaderLibrary
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.base.progress import call_progress
from webpte.runtime.execute.memory import FAULT_BYTES, DelegateMemory, PlanMemory
from webpte.shapes import Dims, numel


@dataclass(frozen=True)
class Output:
    """Where a tensor is: on the device until the next call, and in the bytes that come back."""

    value_id: int
    tensor: DeviceTensor
    offset: int

    def unpack(self, result: bytes) -> np.ndarray:
        """An array of its own, in the declared dtype."""
        return self.tensor.decode(result, self.offset)


class Payload:
    """Bytes on their way up: tensors by value id, then one block per SymInt."""

    def __init__(self, tensors: Sequence[tuple[Tensor, Dims]], symints: int) -> None:
        layout = _PayloadLayout()
        places = [
            (tensor, dims, layout.add(numel(dims) * tensor.dtype.storage.itemsize)[0])
            for tensor, dims in tensors
        ]
        start, _ = layout.add(symints * UNIFORM_ALIGNMENT)
        self.data = np.zeros(layout.nbytes, np.uint8)
        self._dtypes = {tensor.id: tensor.dtype for tensor, _ in tensors}
        self._views = {
            tensor.id: self._view(offset, dims, tensor.dtype.storage.numpy)
            for tensor, dims, offset in places
        }
        self.offsets = {tensor.id: offset for tensor, _, offset in places}
        self.symint_offset = start
        words = (symints, UNIFORM_ALIGNMENT // 4)
        self._symints = self._view(start, words, np.dtype(np.int32))

    def _view(self, offset: int, dims: Dims, dtype: np.dtype[np.generic]) -> np.ndarray:
        nbytes = numel(dims) * dtype.itemsize
        return self.data[offset : offset + nbytes].view(dtype).reshape(dims)

    def __contains__(self, value_id: int) -> bool:
        return value_id in self._views

    def fill(self, value_id: int, array: np.ndarray, what: str) -> None:
        """Put an array in its place; integers must fit into what the GPU stores."""
        self._views[value_id][...] = narrow_to_storage(array, self._dtypes[value_id], what)

    def fill_symints(self, values: Sequence[int]) -> None:
        self._symints[:, 0] = values


class _PayloadLayout:
    """Places parts one after the other, each aligned, so that every copy has whole words."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> tuple[int, int]:
        """Offset and padded size of the next part; nothing takes no room."""
        offset, padded = self.nbytes, aligned(nbytes) if nbytes else 0
        self.nbytes += padded
        return offset, padded


@dataclass(frozen=True)
class Segment:
    """One replay, and the op that runs on the host after it, if there is one.

    The last segment has what the kernels of the whole plan check of tensors of indices; the word
    for faults is then the last thing that comes back.
    """

    handle: int
    payload: Payload
    outputs: tuple[Output, ...]
    labels: tuple[str, ...]
    calls: tuple[int, ...]  # by label, the call of the graph that it is for
    host: PlannedCall | None
    faults: tuple[IndexFlag, ...]
    uploads: tuple[Upload, ...]
    readbacks: tuple[Readback, ...]
    result_bytes: int

    def fault_in(self, result: bytes) -> IndexFlag | None:
        """The call that met an index out of range, if one did, by what came back last."""
        number = int.from_bytes(result[-FAULT_BYTES:][:4], "little") if self.faults else 0
        return next((fault for fault in self.faults if fault.number == number), None)


# Live dims of each input tensor, and whether it is on the GPU already.
Signature = tuple[tuple[Dims, bool], ...]
PlanKey = tuple[
    Signature, tuple[Dispatch | PlannedCall, ...], tuple[Dims, ...], tuple[SymIntBound, ...]
]


@dataclass(frozen=True)
class DevicePlan:
    """Everything that one shape signature needs to run."""

    segments: tuple[Segment, ...]
    bounds: tuple[SymIntBound, ...]
    key: PlanKey
    state: PlannerState
    memory: PlanMemory
    # What was made of this plan and of others, and has to go before it does; by whatever tells.
    made_of_it: dict[object, Callable[[], None]] = field(default_factory=dict, compare=False)

    @cached_property
    def is_one_replay(self) -> bool:
        """Whether nothing happens on the host between its kernels."""
        return len(self.segments) == 1

    @property
    def labels(self) -> list[str]:
        return [label for segment in self.segments for label in segment.labels]


def faults_of(work: Iterable[Dispatch | PlannedCall]) -> Iterator[IndexFlag]:
    """What kernels check of tensors of indices."""
    for item in work:
        bindings = item.bindings if isinstance(item, Dispatch) else ()
        yield from (binding for binding in bindings if isinstance(binding, IndexFlag))


def _label(record: Dispatch) -> str:
    """What people see in a profile: the kernel with its formula, or with what sets it apart."""
    types = dict(record.types)
    if "FORMULA" in types:
        return f"{record.kernel}: {types['FORMULA']}"
    short = [text for text in types.values() if len(text) <= 12 and " " not in text]
    return " ".join([record.kernel, *short])


# As which numbers a shader may see stored elements. Whatever only moves is seen by its bits.
SEEN_AS = {
    "bool": ("u32",),
    "uint8": ("u32",),
    "int8": ("u32",),
    "int32": ("i32", "u32"),
    "float16": ("f16", "u32"),
    "float32": ("f32", "i32", "u32"),
}


def check_types(record: Dispatch, shader: Shader, graph: Graph) -> None:
    """A kernel that sees a tensor as another type would compute with garbage, and not say so."""
    *variables, _params = shader.variables
    for index, (binding, variable) in enumerate(zip(record.bindings, variables, strict=True)):
        if not isinstance(binding, int):
            continue
        stored, seen = graph.tensor(binding).dtype.stored, variable.scalar or "a uniform"
        if seen not in SEEN_AS[stored]:
            raise ShaderError(
                f"{record.kernel}.wgsl: binding {index}, {variable.name}, is of {seen}, but value "
                f"{binding} is stored as {stored}; a bug of webpte, please report it"
            )


class PlanFactory:
    """Makes plans for one delegate."""

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        planner: Planner,
        memory: DelegateMemory,
        device: Device,
        library: ShaderLibrary,
        symints: Sequence[int],
    ) -> None:
        self._graph = graph
        self._live = live
        self._planner = planner
        self._memory = memory
        self._device = device
        self._library = library
        self._symints = symints
        self.pipelines: set[PipelineSpec] = set()

    def key(self, signature: Signature) -> PlanKey:
        """Equal keys mean equal commands, equal shapes of what is read back, and equal checks."""
        work = self._planner.work()
        crossing = [tensor.id for tensor in self._graph.tensor_outputs()]
        for item in work:
            if isinstance(item, PlannedCall):
                crossing += self._planner.reads(item) + self._planner.writes(item)
        dims = tuple(self._live.cur_dims(i) for i in crossing)
        return signature, work, dims, self._planner.symint_bounds()

    async def compile(
        self, records: Sequence[Dispatch], progress: Progress | None = None
    ) -> list[tuple[int, PipelineSpec]]:
        """A pipeline for each record; equal ones are compiled once.

        Without `progress` the call that this is for is told, if it wants to be.
        """
        progress = progress or call_progress()
        specs = []
        for record in records:
            shader = self._library.assemble(record.kernel, record.types)
            if len(shader.bindings) != len(record.bindings) + 1:
                raise GraphError(
                    f"{record.kernel}.wgsl has {len(shader.bindings)} bindings, "
                    f"the record fills {len(record.bindings) + 1}"
                )
            check_types(record, shader, self._graph)
            label = _label(record)
            specs.append(PipelineSpec(label, shader.code, shader.bindings, record.overrides))
        ids = await self._device.create_pipelines(specs, progress) if specs else []
        self.pipelines.update(specs)
        return list(zip(ids, specs, strict=True))

    async def make(self, key: PlanKey) -> DevicePlan:
        """The plan for the live shapes, whose key it is given."""
        signature, work, _, bounds = key
        inputs = [self._graph.value(i) for i in self._graph.inputs]
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        uploads = [
            tensor
            for tensor, (_, on_gpu) in zip(tensors, signature, strict=True)
            if not on_gpu and self._memory.holds(tensor.id)
        ]
        memory = PlanMemory(self._memory)
        segments: list[Segment] = []
        records: list[tuple[PlannedCall, Dispatch]] = []
        symints = len(self._symints)
        faults = tuple(faults_of(work))
        # Whatever an earlier run left in the word for faults is gone before this one's kernels.
        clears: tuple[int, ...] = ()
        try:
            if faults:
                clears = ((await self._memory.faults()).buffer,)
            for step, record in self._planner.items():
                if record is not None:
                    records.append((step, record))
                    continue
                reads = [self._graph.tensor(i) for i in self._planner.reads(step)]
                segments.append(
                    await self.segment(memory, uploads, symints, records, reads, step, clears)
                )
                uploads = [self._graph.tensor(i) for i in self._planner.writes(step)]
                uploads = [tensor for tensor in uploads if self._memory.holds(tensor.id)]
                records, symints, clears = [], 0, ()
            outputs = self._graph.tensor_outputs()
            segments.append(
                await self.segment(memory, uploads, symints, records, outputs, None, clears, faults)
            )
        except BaseException:
            self._destroy(segments, memory)
            raise
        return DevicePlan(tuple(segments), bounds, key, self._planner.state(), memory)

    async def segment(
        self,
        memory: PlanMemory,
        uploads: Sequence[Tensor],
        symints: int,
        records: Sequence[tuple[PlannedCall, Dispatch]],
        reads: Sequence[Tensor],
        host: PlannedCall | None,
        clears: tuple[int, ...],
        faults: tuple[IndexFlag, ...] = (),
    ) -> Segment:
        """These records, and the tensors to read back after them."""
        compiled = await self.compile([record for _, record in records])
        params = await memory.blocks([record.params for _, record in records])
        live = {i: self._memory.place(SymIntUniform(i)) for i in self._symints}
        origins = {step: self._origin(step, live) for step, _ in records}
        dispatches = []
        for (step, record), (pipeline, _), block in zip(records, compiled, params, strict=True):
            resources = [await memory.resource(binding) for binding in record.bindings]
            dispatches.append(
                DispatchCommand(pipeline, (*resources, block), record.grid, origins[step])
            )
        payload = Payload([(t, self._live.cur_dims(t.id)) for t in uploads], symints)
        layout = _PayloadLayout()
        outputs, readbacks = self._plan_readbacks(reads, layout)
        if faults:
            assert self._memory.fault_buffer is not None
            offset, nbytes = layout.add(FAULT_BYTES)
            readbacks.append(Readback(self._memory.fault_buffer, nbytes, offset))
        commands = PlanCommands(
            tuple(self._plan_uploads(uploads, symints, payload)),
            tuple(dispatches),
            tuple(readbacks),
            layout.nbytes,
            clears,
        )
        handle = await self._device.create_plan(commands)
        labels = tuple(spec.label for _, spec in compiled)
        return Segment(
            handle,
            payload,
            outputs,
            labels,
            tuple(step.call.index for step, _ in records),
            host,
            faults,
            commands.uploads,
            commands.readbacks,
            commands.result_bytes,
        )

    def _origin(self, step: PlannedCall, symints: Mapping[int, Resource]) -> Origin:
        ids = {*self._planner.reads(step), *self._planner.writes(step)}
        bound = [b for r in step.records if isinstance(r, Dispatch) for b in r.bindings]
        faults = dict.fromkeys(b.number for b in bound if isinstance(b, IndexFlag))
        return Origin(
            step.call,
            step.op,
            self._graph,
            {i: self._live.cur_dims(i) for i in ids},
            {i: self._memory.place(i) for i in sorted(ids) if self._memory.holds(i)},
            symints,
            tuple((number, self._memory.fault_word) for number in faults),
        )

    def _plan_uploads(
        self, tensors: Sequence[Tensor], symints: int, payload: Payload
    ) -> list[Upload]:
        uploads = []
        for tensor in tensors:
            nbytes = numel(self._live.cur_dims(tensor.id)) * tensor.dtype.storage.itemsize
            if nbytes:
                buffer, offset = self._memory.buffer_of(tensor.id), payload.offsets[tensor.id]
                uploads.append(Upload(buffer, offset, aligned(nbytes)))
        if symints:
            assert self._memory.symint_buffer is not None
            nbytes = symints * UNIFORM_ALIGNMENT
            uploads.append(Upload(self._memory.symint_buffer, payload.symint_offset, nbytes))
        return uploads

    def _plan_readbacks(
        self, tensors: Sequence[Tensor], layout: _PayloadLayout
    ) -> tuple[tuple[Output, ...], list[Readback]]:
        outputs, readbacks = [], []
        for tensor in tensors:
            buffer, dims = self._memory.buffer_of(tensor.id), self._live.cur_dims(tensor.id)
            there = DeviceTensor(buffer, tensor.dtype, tensor.dtype.storage, dims)
            offset, nbytes = layout.add(there.nbytes)
            outputs.append(Output(tensor.id, there, offset))
            if nbytes:
                readbacks.append(Readback(buffer, nbytes, offset))
        return tuple(outputs), readbacks

    def destroy(self, plan: DevicePlan) -> None:
        for destroy in list(plan.made_of_it.values()):
            destroy()
        self._destroy(plan.segments, plan.memory)

    def _destroy(self, segments: Iterable[Segment], memory: PlanMemory) -> None:
        for segment in segments:
            self._device.destroy_plan(segment.handle)
        memory.release()
