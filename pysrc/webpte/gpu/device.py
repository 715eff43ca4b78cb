"""What the runtime needs of a device, in records that can cross to JavaScript as plain numbers.

Buffers, pipelines and plans are integers here; the objects behind them live on the other side.
Everything that happens once (buffers, pipelines, plans) is handed over in batches. What happens
on every execution is one call, `run`, however many dispatches the plan has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from webpte.errors import DeviceError, OutOfMemoryError
from webpte.graph.graph import Call, Graph
from webpte.ops import OpDef
from webpte.ops.core.records import Grid
from webpte.ops.core.target import Target, TunedConfigs
from webpte.shapes import Dims
from webpte.source import Region

# Uniform blocks and live scalars start at multiples of this: WebGPU's largest requirement.
UNIFORM_ALIGNMENT = 256

HALVES = "shader-f16"  # the feature of shaders that have half floats
CLOCK = "timestamp-query"  # and of GPUs that time their kernels
MATRICES = "chromium-experimental-subgroup-matrix"  # of subgroups that multiply matrices
FEATURES = (HALVES, CLOCK, "subgroups", MATRICES)  # asked for in a browser, where it has them
# Such as kernels take: half floats, added up in float32, M x N x K, in subgroups of so many.
MATRIX_SHAPE, MATRIX_SUBGROUP = "f16 f32 16x16x16", 32

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class DeviceInfo:
    """What runs the kernels. `software` is true for adapters that are a CPU in disguise.

    `waiting` is how a browser is made to tell that results are there ("plain", "scope" or "submit",
    see waiting.js), and `waiting_ms` what each way took here, if it was measured.
    """

    kind: str  # "webgpu", "native", "numpy" or "recording"
    vendor: str = ""
    architecture: str = ""
    description: str = ""
    software: bool = False
    features: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    matrix_shapes: tuple[str, ...] = ()  # that subgroups multiply, such as "f16 f32 16x16x16"
    prefers_matrices: bool = False  # where it has them; for comparison, until it is known to win
    choices: TunedConfigs = ()  # what was measured to be the fastest here, see `Target.choice`
    waiting: str = "plain"
    waiting_ms: dict[str, float] = field(default_factory=dict)

    @property
    def has_halves(self) -> bool:
        """Whether shaders have half floats, so that buffers hold them as such."""
        return HALVES in self.features

    @property
    def has_matrices(self) -> bool:
        """Whether subgroups multiply matrices as kernels need them."""
        sizes = {self.limits.get(f"subgroup{end}Size") for end in ("Min", "Max")}
        features = {MATRICES, HALVES, "subgroups"} <= set(self.features)
        return features and MATRIX_SHAPE in self.matrix_shapes and sizes == {MATRIX_SUBGROUP}

    @property
    def target(self) -> Target:
        """What kernels are chosen for."""
        most = self.limits.get("maxStorageBuffersPerShaderStage", Target.storage_buffers)
        shared = self.limits.get("maxComputeWorkgroupStorageSize", Target.shared_bytes)
        matrices = self.prefers_matrices and self.has_matrices
        return Target(self.software, most, shared, self.choices, matrices)


def check_clock(info: DeviceInfo) -> None:
    """Before kernels are timed."""
    if CLOCK not in info.features:
        raise DeviceError("this GPU offers no timestamps, so kernels cannot be timed")


def is_software(*names: str) -> bool:
    """Whether an adapter that calls itself so is a CPU in disguise."""
    return any(known in name.lower() for name in names for known in ("swiftshader", "llvmpipe"))


def check_sizes(info: DeviceInfo, sizes: Sequence[int], uniform: bool) -> None:
    """Raises OutOfMemoryError for a buffer that is too large for the GPU to have or to bind."""
    limit = info.limits["maxBufferSize"]
    if not uniform:
        limit = min(limit, info.limits["maxStorageBufferBindingSize"])
    if sizes and max(sizes) > limit:
        raise OutOfMemoryError(
            f"a buffer of {max(sizes):,} bytes is over this GPU's limit of {limit:,} bytes"
        )


@dataclass(frozen=True)
class PipelineSpec:
    """Identity of a compiled kernel: equal specs share one pipeline."""

    label: str
    code: str
    bindings: tuple[str, ...]  # "read", "write" or "uniform", by binding number
    overrides: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """The label, and what tells specs of one label apart."""
        digest = sha256(f"{self.code}{self.overrides}".encode()).hexdigest()
        return f"{self.label} {digest[:12]}"


@dataclass(frozen=True)
class Resource:
    """A part of a buffer, bound to one binding."""

    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True, eq=False)
class Origin:
    """The call that dispatches belong to, one object for all of them, and where its values are.

    A GPU has no use for it. A device that computes in NumPy runs the call's reference instead.
    """

    call: Call
    op: OpDef
    graph: Graph
    dims: Mapping[int, Dims]  # live dims of the tensors that it reads and writes, by value id
    tensors: Mapping[int, Resource]  # where these are
    symints: Mapping[int, Resource]  # where SymInts are, 32 bits each
    faults: tuple[tuple[int, Resource], ...]  # what is written where for an index out of range


@dataclass(frozen=True)
class DispatchCommand:
    """One dispatch with everything resolved."""

    pipeline: int
    resources: tuple[Resource, ...]
    grid: Grid
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Upload:
    """Bytes of the payload that go into a buffer before the first dispatch."""

    buffer: int
    payload_offset: int
    nbytes: int


@dataclass(frozen=True)
class Readback:
    """Bytes of a buffer that come back after the last dispatch, at `result_offset`."""

    buffer: int
    nbytes: int
    result_offset: int


@dataclass(frozen=True)
class GpuCopy:
    """Bytes that go from one buffer to another, on the GPU."""

    source: int
    target: int
    nbytes: int
    source_offset: int = 0
    target_offset: int = 0


@dataclass(frozen=True)
class SubPlan:
    """What another plan sets to zero and dispatches, between copies; nothing goes up or back."""

    plan: int
    copies: tuple[GpuCopy, ...] = ()
    kept: tuple[GpuCopy, ...] = ()


@dataclass(frozen=True)
class PlanCommands:
    """One execution: uploads, buffers set to zero, parts, dispatches, read-backs, in that order.

    The plans that parts are taken from must be there when this one is made, and what they use for
    as long as it runs.
    """

    uploads: tuple[Upload, ...]
    dispatches: tuple[DispatchCommand, ...]
    readbacks: tuple[Readback, ...]
    result_bytes: int
    clears: tuple[int, ...] = ()
    parts: tuple[SubPlan, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """Constant bytes from a file into a buffer.

    `convert` names a change of type on the way ("float16", "float64" or "int64" to what the GPU
    stores), None a plain copy.
    """

    region: Region
    buffer: int
    convert: str | None


class Device(Protocol):
    """Implemented by `WebGPUDevice`, `NativeDevice` and `SimulatedDevice`.

    docs/native.md says what all of them promise; tests/support/devices/device_conformance.py checks
    it.
    """

    @property
    def info(self) -> DeviceInfo: ...

    @property
    def native(self) -> Any:
        """The `GPUDevice` itself, for code that makes buffers and kernels of its own."""
        ...

    @property
    def interop_calls(self) -> int:
        """Calls that crossed to JavaScript so far."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the GPU went away: then everything on it is gone, and every call fails."""
        ...

    async def create_buffers(self, sizes: Sequence[int], uniform: bool = False) -> list[int]:
        """Zeroed buffers; all of them or, with OutOfMemoryError, none."""
        ...

    def destroy_buffers(self, buffers: Sequence[int]) -> None: ...

    def native_buffer(self, buffer: int) -> Any:
        """The `GPUBuffer` behind a number."""
        ...

    def is_native_buffer(self, value: object) -> bool:
        """Whether a value is a `GPUBuffer`, of this device or another."""
        ...

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        """The number and the size of a `GPUBuffer` from elsewhere; it stays its maker's.

        Raises InputError for what is no buffer, and for one that cannot be copied from.
        """
        ...

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        """Adopted buffers are not needed any more; nothing happens to their memory."""
        ...

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        """Compiled in parallel; a spec that was compiled before costs nothing.

        `progress` hears of those that were not: ("compile", 0, how many) at once, then after each.
        """
        ...

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None: ...

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        """The first bytes of a buffer, as they are after all that was submitted before this."""
        ...

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        """Move constants into their buffers, without waiting for the GPU."""
        ...

    async def create_plan(self, commands: PlanCommands) -> int: ...

    def destroy_plan(self, plan: int) -> None: ...

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
        """Upload, copy, dispatch, copy what is to be `kept`, and read back, in one submission.

        Everything is submitted when this returns. Without `read` the results stay on the GPU, and
        the awaited bytes are empty. `watched` is for copies from buffers that other code can reach
        and destroy: what WebGPU says against them is then this call's error. The copies of a plan
        with parts come before and after all of these.
        """
        ...

    def profile(
        self,
        plan: int,
        payload: np.ndarray,
        copies: Sequence[GpuCopy] = (),
        *,
        kept: Sequence[GpuCopy] = (),
        watched: bool = False,
    ) -> Awaitable[tuple[bytes, list[float]]]:
        """What `run` does and gives, and the microseconds of each dispatch by the GPU's own clock.

        For plans without parts. Raises DeviceError where the GPU has no clock, before anything is
        submitted.
        """
        ...

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        """Copy on the GPU, after all that was submitted before; nothing comes back."""
        ...
