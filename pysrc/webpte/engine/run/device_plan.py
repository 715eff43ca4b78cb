"""Builds device plans: the records at one shape signature as commands that a device replays.

A plan is a single segment unless some op has to run on the host: then the segment ends before the
op, the op's inputs are read back, and its outputs are uploaded with the next segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from webpte.engine.call.call import call_progress
from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import (
    UNIFORM_ALIGNMENT,
    Device,
    DispatchCommand,
    Origin,
    PipelineSpec,
    PlanCommands,
    Readback,
    Resource,
    Upload,
)
from webpte.engine.graph.graph import Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.records import Dispatch, IndexFlag, SymIntBound, SymIntUniform
from webpte.engine.plan.binding_limits import check_scratch
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.plan.planner import PlannedCall, Planner, PlannerState, located_at
from webpte.engine.plan.shaders import Shader, ShaderLibrary
from webpte.engine.run.io import Output, Payload, PayloadLayout
from webpte.engine.run.memory import INDEX_FLAG_BYTES, DelegateMemory, PlanMemory
from webpte.engine.run.slices import Workgroups
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError, ShaderError


@dataclass(frozen=True)
class Segment:
    """A replay, and the op that runs on the host after it, if any.

    The last segment has the index flags of all kernels of the plan; if there are any, the last
    bytes read back are the word for faults.
    """

    handle: int
    payload: Payload
    outputs: tuple[Output, ...]
    labels: tuple[str, ...]
    calls: tuple[int, ...]  # by label, the graph's call that a dispatch is for
    host: PlannedCall | None
    faults: tuple[IndexFlag, ...]
    uploads: tuple[Upload, ...]
    readbacks: tuple[Readback, ...]
    result_bytes: int

    def raised_flag(self, result: bytes) -> IndexFlag | None:
        """Return the flag of the call that met an index out of range, or None."""
        number = int.from_bytes(result[-INDEX_FLAG_BYTES:][:4], "little") if self.faults else 0
        return next((fault for fault in self.faults if fault.number == number), None)


# Live dims of each input tensor, and whether the tensor is on the GPU already.
Signature = tuple[tuple[Dims, bool], ...]
PlanKey = tuple[
    Signature, tuple[Dispatch | PlannedCall, ...], tuple[Dims, ...], tuple[SymIntBound, ...]
]


@dataclass(frozen=True)
class DevicePlan:
    """The commands and checks for a run at a single shape signature."""

    segments: tuple[Segment, ...]
    bounds: tuple[SymIntBound, ...]
    key: PlanKey
    state: PlannerState
    memory: PlanMemory
    # whether some tensors of indices have been seen by the GPU alone
    has_unchecked_indices: bool = False
    # Step batches that use this plan and another plan, by any key; each is destroyed before the
    # plan.
    made_of_it: dict[object, Callable[[], None]] = field(default_factory=dict, compare=False)

    @cached_property
    def is_one_replay(self) -> bool:
        """Whether all kernels run in a single replay, without an op on the host between them."""
        return len(self.segments) == 1

    @cached_property
    def can_fail_late(self) -> bool:
        """Whether a run can still fail once some of its kernels have run."""
        return self.has_unchecked_indices or not self.is_one_replay

    @property
    def signature(self) -> Signature:
        return self.key[0]

    @cached_property
    def workgroups(self) -> Workgroups:
        """The workgroups of a plan that is one replay."""
        grids = [item.grid for item in self.key[1] if isinstance(item, Dispatch)]
        return Workgroups(grids, self.segments[-1].calls)

    @cached_property
    def has_gpu_inputs(self) -> bool:
        """Whether some inputs are on the GPU already."""
        return any(on_gpu for _, on_gpu in self.signature)

    @cached_property
    def host_dims(self) -> tuple[Dims, ...]:
        """Dims of the inputs; only for a plan whose inputs are all on the host."""
        return tuple(dims for dims, _ in self.signature)

    @property
    def labels(self) -> list[str]:
        return [label for segment in self.segments for label in segment.labels]


def index_flags_of(work: Iterable[Dispatch | PlannedCall]) -> Iterator[IndexFlag]:
    """Yield the index flags that dispatches bind."""
    for item in work:
        bindings = item.bindings if isinstance(item, Dispatch) else ()
        yield from (binding for binding in bindings if isinstance(binding, IndexFlag))


def _label(record: Dispatch) -> str:
    """Return the label of a dispatch in a profile: the kernel, with its formula or types."""
    types = dict(record.types)
    if "FORMULA" in types:
        return f"{record.kernel}: {types['FORMULA']}"
    short = [text for text in types.values() if 0 < len(text) <= 12 and " " not in text]
    return " ".join([record.kernel, *short])


# The WGSL types that a shader may declare for stored elements; u32 is for moving bits.
SEEN_AS = {
    "bool": ("u32",),
    "uint8": ("u32",),
    "int8": ("u32",),
    "int32": ("i32", "u32"),
    "float16": ("f16", "u32"),
    "float32": ("f32", "i32", "u32"),
}


def check_types(record: Dispatch, shader: Shader, graph: Graph) -> None:
    """Raise if a kernel declares a tensor with a type that differs from the stored type."""
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
    """Maker of the plans of a delegate, which also destroys them."""

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
        """Return a key of the live shapes: equal keys, equal commands, read-backs and checks."""
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
        """Compile a pipeline for each record, equal records only once.

        Progress goes to `progress`, by default to the progress of the call under way.
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
        """Build the plan for the live shapes, whose key is `key`."""
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
        faults = tuple(index_flags_of(work))
        # The word for faults is cleared before this run's kernels.
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
        pairs = zip(tensors, signature, strict=True)
        seen = {tensor.id for tensor, (_, on_gpu) in pairs if not on_gpu}
        unchecked = any(i not in seen for fault in faults for i, _ in fault.indices)
        state = self._planner.state()
        return DevicePlan(tuple(segments), bounds, key, state, memory, unchecked)

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
        """Build a segment of these records, which ends with the tensors to read back."""
        compiled = await self.compile([record for _, record in records])
        params = await memory.blocks([record.params for _, record in records])
        live = {i: self._memory.place(SymIntUniform(i)) for i in self._symints}
        origins = {step: self._origin(step, live) for step, _ in records}
        dispatches = []
        for (step, record), (pipeline, _), block in zip(records, compiled, params, strict=True):
            with located_at(step.call):
                check_scratch(record, self._memory.most_bytes)
            resources = [await memory.resource(binding) for binding in record.bindings]
            dispatches.append(
                DispatchCommand(pipeline, (*resources, block), record.grid, origins[step])
            )
        payload = Payload([(t, self._live.cur_dims(t.id)) for t in uploads], symints)
        layout = PayloadLayout()
        outputs, readbacks = self._plan_readbacks(reads, layout)
        if faults:
            assert self._memory.index_flag_buffer is not None
            offset, nbytes = layout.add(INDEX_FLAG_BYTES)
            readbacks.append(Readback(self._memory.index_flag_buffer, nbytes, offset))
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
            tuple((number, self._memory.index_flag_word) for number in faults),
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
        self, tensors: Sequence[Tensor], layout: PayloadLayout
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
