"""The device protocol, with records that cross to JavaScript as plain numbers.

Buffers, pipelines and plans are integers here; their objects live in the device. Objects that are
made once (buffers, pipelines, plans) are handed over in batches. An execution is a single call,
`run`, however many dispatches its plan has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol

import numpy as np

from webpte.engine.files.download import Progress
from webpte.engine.files.source import Region
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.ops import OpDef
from webpte.engine.ops.core.records import Grid
from webpte.engine.shapes import Dims

# Uniform blocks and live scalars start at multiples of this: WebGPU's largest requirement.
UNIFORM_ALIGNMENT = 256

# The most bytes of a uniform binding. Constants of up to this size can be bound as uniforms, but no
# buffers that kernels write to: with both usages each barrier between two kernels waits for more,
# and a decode step takes 3 % longer (measured).
UNIFORM_BYTES = 64 * 1024

BufferUse = Literal["storage", "uniform", "constant"]


@dataclass(frozen=True)
class PipelineSpec:
    """Identity of a pipeline: equal specs share a pipeline."""

    label: str
    code: str
    bindings: tuple[str, ...]  # "read", "write" or "uniform", by binding number
    overrides: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """The label and a digest of code and overrides."""
        digest = sha256(f"{self.code}{self.overrides}".encode()).hexdigest()
        return f"{self.label} {digest[:12]}"


@dataclass(frozen=True)
class Resource:
    """A range of a buffer for a binding."""

    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True, eq=False)
class Origin:
    """The call that dispatches belong to, shared by all of them, and the places of its values.

    Only a device that computes in NumPy needs the call: it runs the call's reference instead.
    """

    call: Call
    op: OpDef
    graph: Graph
    dims: Mapping[int, Dims]  # live dims of the tensors that the call reads and writes, by value id
    tensors: Mapping[int, Resource]  # the places of these tensors
    symints: Mapping[int, Resource]  # the places of SymInts, 32 bits each
    faults: tuple[tuple[int, Resource], ...]  # number and place of each index flag


@dataclass(frozen=True)
class DispatchCommand:
    """A dispatch with everything resolved."""

    pipeline: int
    resources: tuple[Resource, ...]
    grid: Grid
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Upload:
    """A write of payload bytes into a buffer before the first dispatch."""

    buffer: int
    payload_offset: int
    nbytes: int


@dataclass(frozen=True)
class Readback:
    """A copy of a buffer's first bytes to `result_offset` of the results, after all dispatches."""

    buffer: int
    nbytes: int
    result_offset: int


@dataclass(frozen=True)
class GpuCopy:
    """A copy from one buffer to another, on the GPU."""

    source: int
    target: int
    nbytes: int
    source_offset: int = 0
    target_offset: int = 0


@dataclass(frozen=True)
class SubPlan:
    """The clears and dispatches of another plan, without its uploads and read-backs.

    `copies` come before the dispatches, `copies_after` after them.
    """

    plan: int
    copies: tuple[GpuCopy, ...] = ()
    copies_after: tuple[GpuCopy, ...] = ()


@dataclass(frozen=True)
class PlanCommands:
    """The commands of an execution: uploads, clears, parts, dispatches, read-backs, in that order.

    The plans of `parts` must exist when this plan is created, and their buffers as long as it runs.
    """

    uploads: tuple[Upload, ...]
    dispatches: tuple[DispatchCommand, ...]
    readbacks: tuple[Readback, ...]
    result_bytes: int
    clears: tuple[int, ...] = ()
    parts: tuple[SubPlan, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """Constant bytes of a file that go into a buffer.

    `convert` is the type in the file if the GPU stores a different type ("float16", "float64" or
    "int64"), None for a plain copy.
    """

    region: Region
    buffer: int
    convert: str | None


@dataclass(frozen=True, eq=False)
class PlanRun:
    """An execution of a plan.

    payload       the bytes that the plan uploads; they may change once `run` has returned
    copies        before the dispatches of the plan and of all its parts
    copies_after  after the dispatches, before the read-backs
    read          whether the results come back; without it they stay on the GPU
    validate      reports WebGPU's errors about the commands as this run's error; for copies from
                  buffers that other code can reach and destroy
    slice         (first, end): of a long execution, these dispatches only. The first slice also
                  does all work that comes before the dispatches, the last slice all work after
                  them; with `read`, the other slices are waited for, too, and return nothing.
                  Slices begin with the first dispatch of a call, and the slices of an execution
                  come in order, with no other run of the plan between them.
    """

    plan: int
    payload: np.ndarray
    copies: Sequence[GpuCopy] = ()
    copies_after: Sequence[GpuCopy] = ()
    read: bool = True
    validate: bool = False
    slice: tuple[int, int] | None = None


class Device(Protocol):
    """A GPU, or a stand-in for one: `WebGPUDevice`, `NativeDevice` and `SimulatedDevice`.

    docs/use/native.md has the promises of a device;
    tests/support/devices/device_conformance.py checks them.
    """

    @property
    def info(self) -> DeviceInfo: ...

    @property
    def native(self) -> Any:
        """The `GPUDevice`, for code with separate buffers and kernels."""
        ...

    @property
    def interop_calls(self) -> int:
        """Calls that crossed to JavaScript so far."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the GPU is lost: everything on it is gone, and every call fails."""
        ...

    async def measure_waiting(self) -> None:
        """Measure, once, the fastest way to wait for results; the host must be idle meanwhile."""

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        """Create zeroed buffers: either all of them, or an OutOfMemoryError and no buffer.

        "storage" is for kernels that read and write, "uniform" for blocks of numbers; "constant" is
        storage that kernels may bind as uniforms, up to UNIFORM_BYTES.
        """
        ...

    def destroy_buffers(self, buffers: Sequence[int]) -> None: ...

    def native_buffer(self, buffer: int) -> Any:
        """Return the `GPUBuffer` of a number."""
        ...

    def is_native_buffer(self, value: object) -> bool:
        """Return whether a value is a `GPUBuffer`, of this device or another."""
        ...

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        """Register a `GPUBuffer` of other code, which still owns it; returns its number and size.

        Raises InputError if the value is not a buffer, or a buffer without the usage COPY_SRC.
        """
        ...

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        """Unregister adopted buffers; their memory stays untouched."""
        ...

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        """Compile pipelines in parallel; a spec that was compiled before costs nothing.

        `progress` gets ("compile", done, count) for the new pipelines: with 0 at once, then after
        each.
        """
        ...

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None: ...

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        """Read a buffer's first bytes, after everything submitted so far has run."""
        ...

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        """Upload constants to their buffers, without waiting for the GPU."""
        ...

    async def create_plan(self, commands: PlanCommands) -> int: ...

    def destroy_plan(self, plan: int) -> None: ...

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        """Upload, copy, dispatch, copy and read back, in a single submission.

        Everything is submitted when this returns; awaiting gives the results, which are empty
        without `run.read`.
        """
        ...

    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        """Run a plan without parts; returns its results and the GPU microseconds of each dispatch.

        The results come back even without `run.read`. Raises DeviceError before anything is
        submitted if the GPU has no clock.
        """
        ...

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        """Copy on the GPU, after everything submitted so far; nothing comes back."""
        ...
