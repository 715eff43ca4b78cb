"""The basis of the conformance checks: a device to test, and two kernels for it.

The kernels are WGSL for devices that compile, and `aten.neg` and `aten.relu` for a device that
computes with references: each dispatch says both. This also runs in a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.device import (
    BufferUse,
    Device,
    DispatchCommand,
    Origin,
    PipelineSpec,
    PlanCommands,
    Readback,
    Resource,
    SubPlan,
    Upload,
)
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.ops import lookup

NO_PAYLOAD = np.zeros(0, np.uint8)
NO_COMMANDS = PlanCommands((), (), (), 0)

KERNEL = """
override NEGATE: bool;

@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<uniform> count: vec4<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < count.x) {
        let x = source[id.x];
        result[id.x] = select(max(x, 0.0), -x, NEGATE);
    }
}
"""


class CountingDevice(Device, Protocol):
    """A device that counts its live objects, as all do."""

    def counts(self) -> dict[str, int]: ...


class Subject(Protocol):
    """A device under test, fresh for every check, and the actions of other code."""

    @property
    def device(self) -> CountingDevice: ...

    @property
    def compiles(self) -> bool:
        """Whether it compiles the kernels."""
        ...

    @property
    def too_much(self) -> int:
        """Bytes of a buffer that is too large for it."""
        ...

    def make_native(self, nbytes: int, copyable: bool = True) -> Any:
        """Create a zeroed buffer of other code; without `copyable` it has no COPY_SRC."""
        ...

    def lose(self) -> None:
        """Lose the GPU."""
        ...


Check = Callable[[Subject], Awaitable[None]]


class Checks(dict[str, Check]):
    """Checks by name."""

    def add(self, check: Check) -> Check:
        """Decorate a check: its name is the function's."""
        self[check.__name__] = check
        return check


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def floats_in(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.float32)


def expect(got: np.ndarray, want: np.ndarray, what: str) -> None:
    assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f"), f"{what}: {got}, not {want}"


# A test of devices that never settle makes it shorter.
SETTLING_SECONDS = 5.0


async def settled(condition: Callable[[], bool]) -> None:
    """Wait until a condition of the device holds."""
    for _ in range(int(SETTLING_SECONDS * 1000)):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


async def raises(kind: type[Exception], call: Callable[[], Any]) -> str:
    """Return the message of the error that a call raises, at once or when awaited."""
    try:
        result = call()
        if isinstance(result, Awaitable):
            await result
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


class Bench:
    """A few buffers of `elements` floats each, and plans of kernels between them."""

    def __init__(self, device: Device, elements: int) -> None:
        self.device = device
        self.elements = elements
        self.nbytes = 4 * elements
        self.buffers: list[int] = []
        self._count = 0
        self._pipelines: dict[str, int] = {}

    @classmethod
    async def create(
        cls, device: Device, buffers: int, elements: int = 4, counts: int | None = None
    ) -> Bench:
        """Create buffers and pipelines; `counts`: the bytes of a constant for the count."""
        bench = cls(device, elements)
        use: BufferUse = "uniform" if counts is None else "constant"
        bench.buffers = await device.create_buffers([bench.nbytes] * buffers)
        (bench._count,) = await device.create_buffers([counts or 256], use)
        device.write(bench._count, 0, np.array([elements, 0, 0, 0], np.uint32))
        names = ("neg", "relu")
        made = await device.create_pipelines([spec_of(name) for name in names])
        bench._pipelines = dict(zip(names, made, strict=True))
        return bench

    def dispatch(self, name: str, source: int, target: int) -> DispatchCommand:
        """Build a dispatch of neg or relu; buffers by index."""
        op = lookup(f"aten.{name}.default")
        assert op is not None
        dims = (self.elements,)
        places = {
            value: Resource(self.buffers[index], 0, self.nbytes)
            for value, index in enumerate((source, target))
        }
        values = tuple(Tensor(i, DTYPES["float32"], dims, None, None) for i in places)
        call = Call(0, op.name, (0, 1))
        graph = Graph(values, (call,), (0,), (1,))
        origin = Origin(call, op, graph, dict.fromkeys(places, dims), places, {}, ())
        uniform = Resource(self._count, 0, 16)
        grid = (-(-self.elements // 64), 1, 1)
        return DispatchCommand(self._pipelines[name], (*places.values(), uniform), grid, origin)

    async def plan(
        self,
        *dispatches: tuple[str, int, int],
        upload: Sequence[int] = (),
        back: Sequence[int] = (),
        clear: Sequence[int] = (),
        parts: tuple[SubPlan, ...] = (),
    ) -> int:
        """Create a plan; uploads and read-backs are consecutive in payload and results."""
        return await self.device.create_plan(
            PlanCommands(
                tuple(
                    Upload(self.buffers[b], i * self.nbytes, self.nbytes)
                    for i, b in enumerate(upload)
                ),
                tuple(self.dispatch(*dispatch) for dispatch in dispatches),
                tuple(
                    Readback(self.buffers[b], self.nbytes, i * self.nbytes)
                    for i, b in enumerate(back)
                ),
                self.nbytes * len(back),
                tuple(self.buffers[b] for b in clear),
                parts,
            )
        )

    def put(self, index: int, array: np.ndarray) -> None:
        self.device.write(self.buffers[index], 0, array)

    async def get(self, index: int) -> np.ndarray:
        return floats_in(await self.device.read(self.buffers[index], self.nbytes))


def spec_of(name: str) -> PipelineSpec:
    return PipelineSpec(
        name, KERNEL, ("read", "write", "uniform"), (("NEGATE", float(name == "neg")),)
    )


def payload_of(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate([array.view(np.uint8) for array in arrays])
