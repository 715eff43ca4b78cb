"""Tests a device with small kernels when it is opened, in a single submission.

Browsers and drivers have computed wrong results without an error: arrays of workgroup memory that
were empty, or half-precision numbers that were rounded wrongly. A fault in an optional feature
turns the feature off; any other fault raises FaultyDeviceError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from webpte.engine.gpu.device import (
    UNIFORM_ALIGNMENT,
    Device,
    DispatchCommand,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Readback,
    Resource,
    Upload,
)
from webpte.engine.gpu.device_info import MATRICES, SHADER_F16, DeviceInfo, SelfTest
from webpte.engine.ops.core.records import MAX_WORKGROUPS, Grid
from webpte.engine.plan.shaders import ShaderLibrary, Types
from webpte.errors import FaultyDeviceError, ShaderError

VERSION = "3"  # goes up when the test checks more: stored outcomes of other versions do not count

LANES, GROUPS = 256, 4  # every GPU has 256 invocations; barriers matter beyond one subgroup
LARGE_GRID, SMALL_GRID = (MAX_WORKGROUPS, 2, 1), (1009, 3, 1)
SEEN = 256  # invocations of a grid that are checked before its fold, after it, and at its end
DOTS = 16
SEED = 4
BINDINGS = ("read", "write", "uniform")

UPLOADS, F16 = "uploads and read-backs", "f16"
PACKED_DOT, SUBGROUP_MATRICES = "packed dot products", "subgroup matrices"

_WHAT_TO_DO = (
    "Update the browser and the graphics driver, or try another browser; meanwhile load with "
    "device='numpy'"
)


@dataclass(frozen=True)
class SelfTestKernel:
    """A kernel of the self-test: its input values, and its results by the name of a feature."""

    kernel: str
    values: np.ndarray
    expected: Mapping[str, np.ndarray]  # in sequence, in the order of the output
    grid: Grid = (1, 1, 1)
    types: Types = ()

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.expected.values())

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of its two buffers."""
        return _words(self.values.nbytes), self.nbytes

    def spec(self, text: str | None) -> PipelineSpec:
        code = text or ShaderLibrary().assemble(f"lib/self_test/{self.kernel}", self.types).code
        return PipelineSpec(f"self-test: {self.kernel}", code, BINDINGS, ())


def trials(info: DeviceInfo) -> list[SelfTestKernel]:
    """Return the kernels for the features that a device claims to have."""
    # A CPU runs workgroups in sequence, so as many workgroups as WebGPU allows would take long.
    found = [_workgroup(), _grid(SMALL_GRID if info.software else LARGE_GRID)]
    if info.has_f16:
        found.append(_f16())
    if info.packed_dot:
        found.append(_packed_dot())
    if info.has_subgroup_matrices:
        found.append(_subgroup_matrix(info))
    return found


def _workgroup() -> SelfTestKernel:
    values = (np.arange(LANES * GROUPS, dtype=np.uint32) * 2654435761 % 1009).astype(np.uint32)
    seeded = (values + np.uint32(SEED)).reshape(GROUPS, LANES)
    largest, total = seeded.max(axis=1), [seeded.sum(), seeded.max()]
    expected = {
        "workgroup memory": seeded[:, ::-1],
        "barriers": seeded.sum(axis=1).astype(np.uint32),
        "atomics": np.concatenate([largest, np.array(total, np.uint32)]),
    }
    types = (("COUNT", str(LANES)), ("GROUPS", str(GROUPS)))
    return SelfTestKernel("workgroup", values, expected, (GROUPS, 1, 1), types)


def _grid(grid: Grid) -> SelfTestKernel:
    x, y, _ = grid
    seen = np.concatenate([np.arange(x - SEEN, x + SEEN), np.arange(x * y - SEEN, x * y)])
    expected = {"large grids": (seen + 7 + SEED).astype(np.uint32)}
    return SelfTestKernel("grid", np.array([7], np.uint32), expected, grid, (("SEEN", str(SEEN)),))


def _f16() -> SelfTestKernel:
    """Return a trial with numbers whose products are exact, up to the largest f16."""
    numbers = (1, -2.5, 1 / 3, -0.1, 16376, -16376, 2.0**-14, 0)
    values = np.array(numbers, np.float16)
    return SelfTestKernel("f16", values, {F16: values * np.float16(SEED)}, (len(values) // 4, 1, 1))


def _packed_dot() -> SelfTestKernel:
    four = np.random.default_rng(5).integers(-128, 128, (2, DOTS, 4)).astype(np.int8)
    four[:, 0], four[0, 1], four[1, 1] = -128, -128, 127  # the largest numbers of both signs
    dots = (four[0].astype(np.int32) * four[1]).sum(axis=1) + SEED
    expected = {PACKED_DOT: dots.astype(np.int32)}
    return SelfTestKernel("packed_dot", four, expected, types=(("COUNT", str(DOTS)),))


def _subgroup_matrix(info: DeviceInfo) -> SelfTestKernel:
    """Return a trial with small integers, whose products and sums are exact, and a rounded square.

    The square's error, as the bits of an f16, comes after the product, four times.
    """
    a, b = np.random.default_rng(6).integers(-8, 9, (2, 16, 16)).astype(np.float32)
    factor = np.float16(0.3) + np.float32(SEED)
    values = np.concatenate([a.reshape(-1), b.T.reshape(-1), np.full(4, np.float16(0.3))])
    exact = float(np.float16(factor)) ** 2
    error = np.float16(exact - float(np.float16(exact))).view(np.uint16)
    expected = np.append((a + SEED) @ b, np.full(4, error)).astype(np.float32)
    values = values.astype(np.float32)
    found = {SUBGROUP_MATRICES: expected}
    return SelfTestKernel("subgroup_matrix", values, found, types=info.target.matrix_types)


# The optional features, each with a function that removes it from the device info.
_OPTIONS: dict[str, Callable[[DeviceInfo], DeviceInfo]] = {
    F16: lambda info: _without(info, SHADER_F16),
    PACKED_DOT: lambda info: replace(info, packed_dot=False),
    SUBGROUP_MATRICES: lambda info: _without(info, MATRICES),
}


def _without(info: DeviceInfo, feature: str) -> DeviceInfo:
    return replace(info, features=tuple(name for name in info.features if name != feature))


def can_do_without(name: str) -> bool:
    """Return whether the feature behind a part of the self-test is optional."""
    return name in _OPTIONS


def apply_self_test(info: DeviceInfo, verdict: SelfTest) -> DeviceInfo:
    """Turn off the features that failed the test; raise FaultyDeviceError if any is required."""
    fatal = {name: fault for name, fault in verdict.faults.items() if not can_do_without(name)}
    if fatal:
        faults = "; ".join(f"{name}: {fault}" for name, fault in fatal.items())
        adapter = info.description or f"{info.vendor} {info.architecture}".strip() or "unnamed"
        raise FaultyDeviceError(
            f"this GPU ({adapter}) fails the self-test, so its results would be wrong: {faults}. "
            f"{_WHAT_TO_DO}",
            fatal,
        )
    for name in verdict.faults:
        info = _OPTIONS[name](info)
    return replace(info, self_test=verdict)


async def run_self_test(device: Device, texts: Mapping[str, str] | None = None) -> SelfTest:
    """Run the kernels and compare their results; leaves no buffers and no plan behind.

    texts  WGSL in place of a kernel's text, by the kernel's name, to test that a fault is found
    """
    started = perf_counter()
    wanted, faults = trials(device.info), dict[str, str]()
    specs = [trial.spec((texts or {}).get(trial.kernel)) for trial in wanted]
    made = await asyncio.gather(
        *(device.create_pipelines([spec]) for spec in specs), return_exceptions=True
    )
    running: list[tuple[SelfTestKernel, int]] = []
    for trial, outcome in zip(wanted, made, strict=True):
        if isinstance(outcome, ShaderError):
            line = str(outcome).splitlines()[0]
            faults |= dict.fromkeys(trial.expected, f"its kernel does not compile: {line}")
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            running.append((trial, outcome[0]))
    faults |= await _execute(device, running)
    names = [UPLOADS, *(name for trial in wanted for name in trial.expected)]
    passed = tuple(name for name in names if name not in faults)
    return SelfTest(passed, faults, round(1e3 * (perf_counter() - started), 3))


async def _execute(device: Device, running: Sequence[tuple[SelfTestKernel, int]]) -> dict[str, str]:
    """Run all kernels as a single plan; returns the faults."""
    sizes = [size for trial, _ in running for size in trial.sizes]
    buffers: list[int] = []
    plan = None
    try:
        buffers = await device.create_buffers(sizes)
        (uniform,) = await device.create_buffers([UNIFORM_ALIGNMENT], use="uniform")
        buffers.append(uniform)
        commands, payload = commands_of(running, buffers)
        plan = await device.create_plan(commands)
        data = await device.run(PlanRun(plan, payload))
    finally:
        if plan is not None:
            device.destroy_plan(plan)
        if buffers:
            device.destroy_buffers(buffers)
    return _faults([trial for trial, _ in running], data)


def _words(nbytes: int) -> int:
    return -(-nbytes // 4) * 4


def commands_of(
    running: Sequence[tuple[SelfTestKernel, int]], buffers: Sequence[int]
) -> tuple[PlanCommands, np.ndarray]:
    """Return a plan that uploads, runs and reads back everything, and its payload.

    running  the kernels, with their pipelines
    buffers  two for each kernel, of its `sizes`; then one for its params
    """
    uniform, uploads, dispatches, readbacks = buffers[-1], [], [], []
    parts, sent, received = [np.full(1, SEED, np.uint32).tobytes()], 4, 0
    uploads.append(Upload(uniform, 0, 4))
    for number, (trial, pipeline) in enumerate(running):
        source, target = buffers[2 * number : 2 * number + 2]
        size = _words(trial.values.nbytes)
        parts.append(trial.values.tobytes().ljust(size, b"\0"))
        uploads.append(Upload(source, sent, size))
        places = Resource(source, 0, size), Resource(target, 0, trial.nbytes)
        params = Resource(uniform, 0, UNIFORM_ALIGNMENT)
        dispatches.append(DispatchCommand(pipeline, (*places, params), trial.grid))
        readbacks.append(Readback(source, size, received))
        readbacks.append(Readback(target, trial.nbytes, received + size))
        sent, received = sent + size, received + size + trial.nbytes
    commands = PlanCommands(tuple(uploads), tuple(dispatches), tuple(readbacks), received)
    return commands, np.frombuffer(b"".join(parts), np.uint8)


def received_of(ran: Sequence[SelfTestKernel]) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the values that have to come back: the name of a test, their offset, and the values."""
    at = 0
    for trial in ran:
        for name, wanted in [(UPLOADS, trial.values), *trial.expected.items()]:
            yield name, at, wanted
            at += _words(wanted.nbytes) if name == UPLOADS else wanted.nbytes


def _faults(ran: Sequence[SelfTestKernel], data: bytes) -> dict[str, str]:
    """Compare the bytes that came back with the expected bytes; returns the differences."""
    faults = dict[str, str]()
    for name, at, wanted in received_of(ran):
        got = np.frombuffer(data[at : at + wanted.nbytes], wanted.dtype)
        if fault := _fault(got, wanted.reshape(-1)):
            faults.setdefault(name, fault)
    return faults


def _fault(got: np.ndarray, wanted: np.ndarray) -> str:
    """Describe the first wrong element; "" if all elements are right."""
    if got.size != wanted.size:
        return f"{got.size} of {wanted.size} results came back"
    wrong = np.flatnonzero(got != wanted)
    if not wrong.size:
        return ""
    first = int(wrong[0])
    return (
        f"{wrong.size} of {wanted.size} results are wrong, result {first} is {got[first]} "
        f"instead of {wanted[first]}"
    )
