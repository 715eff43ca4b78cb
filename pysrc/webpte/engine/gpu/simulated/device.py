"""A device in plain Python, as strict as a GPU, for tests of planning and scheduling.

It logs every call, has real memory, and computes with the references (see `emulation`). Work is
done at its submission, in order; results come later, so every await suspends. Commands that WebGPU
refuses raise DeviceError (see `validation`), and faults can be injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from webpte.engine.files.download import Progress
from webpte.engine.gpu.convert import to_stored_bytes
from webpte.engine.gpu.device import (
    BufferUse,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Transfer,
)
from webpte.engine.gpu.device_info import DeviceInfo, check_clock
from webpte.engine.gpu.simulated.emulation import MAX_KEPT, RecordedBuffer
from webpte.engine.gpu.simulated.plan import SimulatedPlan, copy_all
from webpte.engine.gpu.simulated.validation import (
    check_copies,
    check_plan,
    check_range,
    check_words,
    find_buffer,
)
from webpte.errors import DeviceError, DeviceLostError, InputError, OutOfMemoryError

__all__ = [
    "MAX_KEPT",
    "RecordedBuffer",
    "SimulatedDevice",
]

# Methods that can be made to fail. Destroying cannot fail, not even on a lost device.
FALLIBLE = (
    *("create_buffers", "create_pipelines", "create_plan", "transfer"),
    *("write", "read", "run", "profile", "copy"),
)


@dataclass
class _Injected:
    """An error that the `left`-th call from now raises."""

    error: type[DeviceError]
    method: str | None
    left: int
    at_result: bool


class RecordedRun(NamedTuple):
    """A `PlanRun` in the log, with a copy of its payload."""

    plan: int
    payload: bytes
    copies: tuple[GpuCopy, ...]
    read: bool
    copies_after: tuple[GpuCopy, ...]
    validate: bool
    slice: tuple[int, int] | None = None


class SimulatedDevice:
    """A device for tests. `log` has a (name, detail) entry per call, in order.

    memory_limit  bytes of buffers above which OutOfMemoryError is raised
    features      of the simulated GPU: "shader-f16", "timestamp-query"
    pauses        returns how often the next await suspends, at least once
    """

    def __init__(
        self,
        memory_limit: int | None = None,
        features: tuple[str, ...] = (),
        pauses: Callable[[], int] | None = None,
    ) -> None:
        self.info = DeviceInfo(kind="recording", features=features)
        self.interop_calls = 0
        self.lost = False
        self.pauses = pauses
        self.log: list[tuple[str, object]] = []
        self.buffers: dict[int, int] = {}  # size in bytes, by buffer
        self.pipelines: dict[PipelineSpec, int] = {}
        self.plans: dict[int, PlanCommands] = {}
        # contents of constants: their first MAX_KEPT bytes in the file
        self.contents: dict[int, bytes] = {}
        self.adopted: dict[int, RecordedBuffer] = {}
        self.memory: dict[int, RecordedBuffer] = {}  # all buffers, including adopted buffers
        self._recorded: dict[int, SimulatedPlan] = {}
        self._memory_limit = memory_limit
        self._injected: list[_Injected] = []
        self._next_id = 1

    # For tests

    def inject(
        self,
        error: type[DeviceError] = DeviceError,
        *,
        after: int = 1,
        method: str | None = None,
        at_result: bool = False,
    ) -> None:
        """Make the `after`-th call from now fail, of the given method or of any method.

        The call fails at once and does nothing, or with `at_result` when it is awaited: a run has
        then uploaded and done nothing else, as when WebGPU finds its commands invalid. A
        DeviceLostError loses the device for good.
        """
        assert method is None or method in FALLIBLE
        self._injected.append(_Injected(error, method, after, at_result))

    def counts(self) -> dict[str, int]:
        """Live objects, for leak tests."""
        return {
            "buffers": len(self.buffers),
            "plans": len(self.plans),
            "adopted": len(self.adopted),
            "pipelines": len(self.pipelines),
        }

    # Start and end of every call

    def _record(self, name: str, detail: object) -> None:
        self.interop_calls += 1
        self.log.append((name, detail))

    def _begin(self, name: str, detail: object) -> DeviceError | None:
        """Log a call; raise an injected error, or return the error to raise when it is awaited."""
        self._record(name, detail)
        if self.lost:
            raise DeviceLostError(f"{name}: the device is lost")
        struck: DeviceError | None = None
        for injected in list(self._injected):
            if injected.method in (None, name):
                injected.left -= 1
            if injected.left == 0:
                self._injected.remove(injected)
                struck = injected.error(f"{name}: injected")
                if not injected.at_result or name in ("write", "copy"):
                    raise self._struck(struck)
        return struck

    def _struck(self, error: DeviceError) -> DeviceError:
        self.lost |= isinstance(error, DeviceLostError)
        return error

    async def _pause(self) -> None:
        for _ in range(1 if self.pauses is None else max(1, self.pauses())):
            await asyncio.sleep(0)

    async def _settle(self, failure: DeviceError | None) -> None:
        """Pause, then raise `failure`, or DeviceLostError if the device is lost by then."""
        await self._pause()
        if failure is not None:
            raise self._struck(failure)
        if self.lost:
            raise DeviceLostError("the device was lost before the result came")

    async def _later(self, data: bytes, failure: DeviceError | None) -> bytes:
        await self._settle(failure)
        return data

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # Buffers

    async def measure_waiting(self) -> None:
        """Do nothing: there is only one way to wait for results."""

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        failure = self._begin("create_buffers", (tuple(sizes), use))
        for size in sizes:
            check_words(size, "a buffer")
        total = sum(self.buffers.values()) + sum(sizes)
        if self._memory_limit is not None and total > self._memory_limit:
            raise OutOfMemoryError(f"{total} bytes are over the limit of {self._memory_limit}")
        made = {self._new_id(): RecordedBuffer(size, use=use) for size in sizes}
        self.memory |= made
        self.buffers |= {number: buffer.size for number, buffer in made.items()}
        try:
            await self._settle(failure)
        except BaseException:  # a cancelled call leaves no buffers
            self._destroy(list(made))
            raise
        return list(made)

    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        self._record("destroy_buffers", tuple(buffers))
        if len(set(buffers)) < len(buffers):
            raise DeviceError(f"buffers {list(buffers)} cannot be destroyed: one is listed twice")
        for buffer in buffers:
            if buffer not in self.buffers:
                raise DeviceError(f"buffer {buffer} cannot be destroyed: it does not exist")
        self._destroy(buffers)

    def _destroy(self, buffers: Sequence[int]) -> None:
        for buffer in buffers:
            self.memory.pop(buffer).destroy()
            del self.buffers[buffer]
            self.contents.pop(buffer, None)

    @property
    def native(self) -> Any:
        return self

    def native_buffer(self, buffer: int) -> Any:
        return find_buffer(self.memory, buffer, "the native buffer")

    def is_native_buffer(self, value: object) -> bool:
        return isinstance(value, RecordedBuffer)

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        self._record("adopt_buffer", native)
        if not self.is_native_buffer(native) or not native.copyable:
            raise InputError(f"{native} is not a buffer that can be copied from")
        adopted = self._new_id()
        self.adopted[adopted] = self.memory[adopted] = native
        return adopted, native.size

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        self._record("forget_buffers", tuple(buffers))
        for buffer in buffers:
            if buffer not in self.adopted:
                raise DeviceError(f"buffer {buffer} cannot be forgotten: it was not adopted")
            del self.adopted[buffer], self.memory[buffer]

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        self._begin("write", (buffer, offset, data.nbytes))
        target = find_buffer(self.memory, buffer, "a write")
        check_range(target, offset, data.nbytes, f"a write to buffer {buffer}")
        target.write(data.tobytes(), offset)

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        failure = self._begin("read", (buffer, nbytes))
        source = find_buffer(self.memory, buffer, "reading")
        check_range(source, 0, nbytes, f"reading buffer {buffer}")
        if source.destroyed:
            failure = DeviceError(f"reading buffer {buffer}, which its owner destroyed")
        return self._later(source.read(nbytes), failure)

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self._begin("copy", tuple(copies))
        check_copies(self.memory, copies, "a copy")
        copy_all(self.memory, copies)

    async def transfer(
        self, transfers: Sequence[Transfer], progress: Progress | None = None
    ) -> None:
        failure = self._begin("transfer", tuple(transfers))
        done, total = 0, sum(transfer.region.size for transfer in transfers)
        for transfer in transfers:
            target = find_buffer(self.memory, transfer.buffer, "a constant")
            size = min(transfer.region.size, MAX_KEPT) if target.is_huge else transfer.region.size
            data = await transfer.region.read(0, size)
            await self._pause()
            if self.lost:
                raise DeviceLostError("the device was lost while constants were uploaded")
            # raises if the buffer was destroyed meanwhile
            target = find_buffer(self.memory, transfer.buffer, "a constant")
            stored = to_stored_bytes(data, transfer.convert)
            check_range(target, 0, len(stored), f"a constant in buffer {transfer.buffer}")
            self.contents[transfer.buffer] = data[:MAX_KEPT]
            target.write(stored)
            done += transfer.region.size
            if progress is not None:
                progress("constants", done, total)
        await self._settle(failure)

    # Plans

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        failure = self._begin("create_pipelines", tuple(specs))
        new = [spec for spec in dict.fromkeys(specs) if spec not in self.pipelines]
        if new and progress is not None:
            progress("compile", 0, len(new))
        await self._settle(failure)
        for done, spec in enumerate(new, 1):
            if spec not in self.pipelines:  # another call may have compiled this spec meanwhile
                self.pipelines[spec] = self._new_id()
            if progress is not None:
                progress("compile", done, len(new))
        return [self.pipelines[spec] for spec in specs]

    async def create_plan(self, commands: PlanCommands) -> int:
        failure = self._begin("create_plan", commands)
        by_number = {number: spec for spec, number in self.pipelines.items()}
        check_plan(self.memory, by_number, commands)
        plan = self._new_id()
        recorded = SimulatedPlan(plan, commands, self._recorded)
        recorded.check_parts(self.memory)
        self.plans[plan], self._recorded[plan] = commands, recorded
        try:
            await self._settle(failure)
        except BaseException:
            del self.plans[plan], self._recorded[plan]
            raise
        return plan

    def destroy_plan(self, plan: int) -> None:
        self._record("destroy_plan", plan)
        if plan not in self.plans:
            raise DeviceError(f"plan {plan} cannot be destroyed: it does not exist")
        del self.plans[plan], self._recorded[plan]

    # Execution

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        return self._later(*self._execute("run", _recorded(run)))

    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        check_clock(self.info)
        data, failure = self._execute("profile", _recorded(run)._replace(read=True))
        return self._timed(data, failure, len(self.plans[run.plan].dispatches))

    async def _timed(
        self, data: bytes, failure: DeviceError | None, count: int
    ) -> tuple[bytes, list[float]]:
        return await self._later(data, failure), [1.0] * count

    def _execute(self, name: str, run: RecordedRun) -> tuple[bytes, DeviceError | None]:
        """Do the work of a submission; returns its results, or the error to raise with them."""
        failure = self._begin(name, run)
        if run.plan not in self._recorded:
            raise DeviceError(f"plan {run.plan} does not exist, or was destroyed")
        plan = self._recorded[run.plan]
        plan.check_runnable(self.memory, run.payload)
        try:
            check_copies(self.memory, (*run.copies, *run.copies_after), "a copy")
        except DeviceError as error:
            if not run.validate:
                raise
            failure = error
        first, end = run.slice or (0, len(plan.commands.dispatches))
        is_last = end == len(plan.commands.dispatches)
        if first == 0:
            plan.upload(self.memory, run.payload)
        if failure is not None:
            return b"", failure
        plan.replay(self.memory, run.copies, run.copies_after, (first, end))
        return plan.results(self.memory) if run.read and is_last else b"", None


def _recorded(run: PlanRun) -> RecordedRun:
    return RecordedRun(
        run.plan,
        run.payload.tobytes(),
        tuple(run.copies),
        run.read,
        tuple(run.copies_after),
        run.validate,
        run.slice,
    )
