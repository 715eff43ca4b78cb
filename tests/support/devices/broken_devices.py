"""Simulated devices that break one promise each, and their conformance subject."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from webpte.engine.gpu.device import (
    BufferUse,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    SubPlan,
    Transfer,
)
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.gpu.simulated.emulation import RecordedBuffer
from webpte.errors import ConstantError, DeviceError, InputError

LIMIT = 1 << 20


class RecordingSubject:
    compiles = False
    too_much = LIMIT + 4

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device

    def make_native(self, nbytes: int, copyable: bool = True) -> Any:
        return RecordedBuffer(nbytes, copyable)

    def lose(self) -> None:
        self.device.lost = True


def recording(
    kind: type[SimulatedDevice] = SimulatedDevice, clock: bool = True
) -> RecordingSubject:
    return RecordingSubject(kind(LIMIT, ("timestamp-query",) if clock else ()))


class NotZeroed(SimulatedDevice):
    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        made = await super().create_buffers(sizes, use)
        for number in made:
            self.memory[number].write(b"\1" * self.memory[number].size)
        return made


class HalfAllocated(SimulatedDevice):
    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        return [(await super(HalfAllocated, self).create_buffers([n], use))[0] for n in sizes]


class Undestroyed(SimulatedDevice):
    def destroy_buffers(self, buffers: Sequence[int]) -> None:
        pass


class LateRead(SimulatedDevice):
    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        async def later() -> bytes:
            await asyncio.sleep(0)
            return await super(LateRead, self).read(buffer, nbytes)

        return later()


class LateCopy(SimulatedDevice):
    """A device that copies only when a result is awaited."""

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        self.delayed = list(copies)

    def read(self, buffer: int, nbytes: int) -> Awaitable[bytes]:
        if hasattr(self, "delayed"):
            super().copy(self.delayed)
        return super().read(buffer, nbytes)


class Unconverted(SimulatedDevice):
    async def transfer(self, transfers: Sequence[Transfer], progress: Any = None) -> None:
        await super().transfer([Transfer(t.region.head(4), t.buffer, None) for t in transfers])


class Truncating(SimulatedDevice):
    async def transfer(self, transfers: Sequence[Transfer], progress: Any = None) -> None:
        with contextlib.suppress(ConstantError):
            await super().transfer(transfers)


class Forgiving(SimulatedDevice):
    """A device that ignores constants for unknown buffers."""

    async def transfer(self, transfers: Sequence[Transfer], progress: Any = None) -> None:
        await super().transfer([t for t in transfers if t.buffer in self.memory])


class Recompiling(SimulatedDevice):
    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Any = None
    ) -> list[int]:
        self.pipelines = dict(self.pipelines)
        for spec in specs:
            self.pipelines.pop(spec, None)
        return await super().create_pipelines(specs, progress)


class Silent(SimulatedDevice):
    """A device without progress before the first kernel is compiled."""

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Any = None
    ) -> list[int]:
        def tell(stage: str, done: int, total: int) -> None:
            if done:
                progress(stage, done, total)

        return await super().create_pipelines(specs, tell if progress else None)


class Uncompiled(RecordingSubject):
    """A device that claims to compile, and never fails."""

    compiles = True


class _Altered(SimulatedDevice):
    """A device that changes every plan by `alter`."""

    @staticmethod
    def alter(commands: PlanCommands) -> PlanCommands:
        raise NotImplementedError

    async def create_plan(self, commands: PlanCommands) -> int:
        return await super().create_plan(self.alter(commands))


class OneUpload(_Altered):
    @staticmethod
    def alter(c: PlanCommands) -> PlanCommands:
        return PlanCommands(c.uploads[:1], c.dispatches, c.readbacks, c.result_bytes, c.clears)


class Backwards(_Altered):
    @staticmethod
    def alter(c: PlanCommands) -> PlanCommands:
        return PlanCommands(c.uploads, c.dispatches[::-1], c.readbacks, c.result_bytes, c.clears)


class Uncleared(_Altered):
    @staticmethod
    def alter(c: PlanCommands) -> PlanCommands:
        return PlanCommands(c.uploads, c.dispatches, c.readbacks, c.result_bytes)


class _AlteredParts(SimulatedDevice):
    """A device that changes the parts of every plan by `alter_parts`."""

    def alter_parts(self, parts: tuple[SubPlan, ...]) -> tuple[SubPlan, ...]:
        raise NotImplementedError

    async def create_plan(self, commands: PlanCommands) -> int:
        parts = self.alter_parts(commands.parts)
        return await super().create_plan(replace(commands, parts=parts))


class UniformsApart(SimulatedDevice):
    """A device whose constants are no uniforms."""

    async def create_plan(self, commands: PlanCommands) -> int:
        for dispatch in commands.dispatches:
            if self.memory[dispatch.resources[-1].buffer].use != "uniform":
                raise DeviceError("a buffer was created for another usage")
        return await super().create_plan(commands)


class PartsOnce(_AlteredParts):
    def alter_parts(self, parts: tuple[SubPlan, ...]) -> tuple[SubPlan, ...]:
        return tuple({part.plan: part for part in reversed(parts)}.values())[::-1]


class PartsWithoutOffsets(_AlteredParts):
    def alter_parts(self, parts: tuple[SubPlan, ...]) -> tuple[SubPlan, ...]:
        def moved(copies: tuple[GpuCopy, ...]) -> tuple[GpuCopy, ...]:
            return tuple(replace(copy, source_offset=0, target_offset=0) for copy in copies)

        return tuple(
            SubPlan(part.plan, moved(part.copies), moved(part.copies_after)) for part in parts
        )


class PartsBackwards(_AlteredParts):
    def alter_parts(self, parts: tuple[SubPlan, ...]) -> tuple[SubPlan, ...]:
        return parts[::-1]


class PartsThatMayBeMissing(_AlteredParts):
    def alter_parts(self, parts: tuple[SubPlan, ...]) -> tuple[SubPlan, ...]:
        there = self.memory.keys()
        return tuple(
            part
            for part in parts
            if part.plan in self.plans and all(copy.source in there for copy in part.copies)
        )


class _AlteredRuns(SimulatedDevice):
    """A device that changes every run by `alter`."""

    def alter(self, run: PlanRun) -> PlanRun:
        raise NotImplementedError

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        return super().run(self.alter(run))


class Uncopied(_AlteredRuns):
    def alter(self, run: PlanRun) -> PlanRun:
        return replace(run, copies=())


class UncopiedAfter(_AlteredRuns):
    def alter(self, run: PlanRun) -> PlanRun:
        return replace(run, copies_after=())


class CopiedAfterTooEarly(_AlteredRuns):
    def alter(self, run: PlanRun) -> PlanRun:
        return replace(run, copies=[*run.copies, *run.copies_after], copies_after=())


class Unsliced(_AlteredRuns):
    def alter(self, run: PlanRun) -> PlanRun:
        return replace(run, slice=None)


class AlwaysRead(_AlteredRuns):
    def alter(self, run: PlanRun) -> PlanRun:
        return replace(run, read=True)


class OneResult(SimulatedDevice):
    """A device with room for the results of one run."""

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        running = super().run(run)

        async def latest() -> bytes:
            self.latest = await running
            await asyncio.sleep(0)
            return getattr(self, "newest", self.latest)

        self.newest = self._recorded[run.plan].results(self.memory)
        return latest()


class LateUpload(SimulatedDevice):
    """A device that reads the payload only when a run is awaited."""

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        async def later() -> bytes:
            return await super(LateUpload, self).run(run)

        return later()


class Immortal(SimulatedDevice):
    def destroy_plan(self, plan: int) -> None:
        pass


class MisTimed(SimulatedDevice):
    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        async def timed() -> tuple[bytes, list[float]]:
            data, times = await super(MisTimed, self).profile(run)
            return data, times[:1]

        return timed()


class ProfileUncopiedAfter(SimulatedDevice):
    def profile(self, run: PlanRun) -> Awaitable[tuple[bytes, list[float]]]:
        return super().profile(replace(run, copies_after=()))


class Grabbing(SimulatedDevice):
    """A device that destroys adopted buffers when it forgets them."""

    def forget_buffers(self, buffers: Sequence[int]) -> None:
        for number in buffers:
            self.adopted[number].destroy()
        super().forget_buffers(buffers)


class Gullible(SimulatedDevice):
    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        try:
            return super().adopt_buffer(native)
        except InputError:
            return 0, 0


class Unvalidated(SimulatedDevice):
    """A device that does not notice destroyed buffers."""

    def adopt_buffer(self, native: Any) -> tuple[int, int]:
        copied = RecordedBuffer(native.size)
        return super().adopt_buffer(native if native in self.memory.values() else copied)


class LostByDestroyed(SimulatedDevice):
    """A device that is lost after one bad call."""

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        running = super().run(run)

        async def fatal() -> bytes:
            try:
                return await running
            except DeviceError:
                self.lost = True
                raise

        return fatal()


class LateLoss(SimulatedDevice):
    """A device that accepts writes after it was lost."""

    def write(self, buffer: int, offset: int, data: np.ndarray) -> None:
        if not self.lost:
            super().write(buffer, offset, data)


class Hoarding(SimulatedDevice):
    """A device that still creates buffers for a cancelled caller, and never destroys them."""

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        return await asyncio.shield(super().create_buffers(sizes, use))


class Poisoned(SimulatedDevice):
    """A device whose later results are lost with a cancelled run."""

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        running = super().run(run)

        async def careless() -> bytes:
            try:
                await asyncio.sleep(0)
                return await running
            except asyncio.CancelledError:
                self.poisoned = True
                raise

        async def empty() -> bytes:
            await running
            return bytes(16)

        return empty() if hasattr(self, "poisoned") else careless()


# Each check, and a device that fails it.
BROKEN: list[tuple[str, type[SimulatedDevice]]] = [
    ("new_buffers_are_zero", NotZeroed),
    ("buffers_are_made_all_or_none", HalfAllocated),
    ("destroyed_buffers_are_gone", Undestroyed),
    ("a_read_sees_what_was_written_before_and_nothing_after", LateRead),
    ("copies_keep_their_place_in_the_queue", LateCopy),
    ("constants_are_converted_on_their_way", Unconverted),
    ("a_constant_that_does_not_fit_is_refused", Truncating),
    ("constants_for_buffers_that_are_gone_are_an_error", Forgiving),
    ("equal_kernels_are_compiled_once", Recompiling),
    ("kernels_to_be_compiled_are_told_of_before_the_first_is", Silent),
    ("a_run_uploads_dispatches_and_reads_back", OneUpload),
    ("dispatches_run_in_order", Backwards),
    ("constants_of_64_kilobytes_bind_as_uniforms", UniformsApart),
    ("a_run_clears_and_copies_around_its_kernels", Uncleared),
    ("a_run_clears_and_copies_around_its_kernels", Uncopied),
    ("a_run_clears_and_copies_around_its_kernels", UncopiedAfter),
    ("a_run_in_slices_is_one_run", Unsliced),
    ("parts_of_other_plans_run_in_one_submission", PartsOnce),
    ("parts_of_other_plans_run_in_one_submission", PartsWithoutOffsets),
    ("parts_of_other_plans_run_in_one_submission", PartsBackwards),
    ("parts_of_what_is_not_there_are_errors", PartsThatMayBeMissing),
    ("a_run_clears_and_copies_around_its_kernels", CopiedAfterTooEarly),
    ("an_unread_run_leaves_its_results_there", AlwaysRead),
    ("runs_overlap_and_each_has_its_results", OneResult),
    ("runs_overlap_and_each_has_its_results", LateUpload),
    ("a_plan_may_go_while_it_runs", Immortal),
    ("a_profile_is_a_run_with_times", MisTimed),
    ("a_profile_is_a_run_with_times", ProfileUncopiedAfter),
    ("other_codes_buffers_can_be_read", Grabbing),
    ("other_codes_buffers_can_be_read", Gullible),
    ("a_buffer_that_its_maker_destroyed_fails_one_call", Unvalidated),
    ("a_buffer_that_its_maker_destroyed_fails_one_call", LostByDestroyed),
    ("a_lost_device_says_so_everywhere", LateLoss),
    ("nothing_stays_of_what_was_cancelled", Hoarding),
    ("a_run_that_was_cancelled_harms_no_other", Poisoned),
]
