"""Scratch memory of plans: a plan uses a larger plan's memory, never one for two sizes."""

from __future__ import annotations

from typing import Any

from support.graphs.graphs import wait
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.ops.core.records import Scratch
from webpte.engine.run.memory import DelegateMemory, PlanMemory


def memory() -> DelegateMemory:
    unused: Any = None  # a plan of slots, and a store of constants
    return DelegateMemory(RecordingDevice(), unused, (), (), {}, unused)


async def taken(plan: PlanMemory, name: str, nbytes: int) -> tuple[int, int]:
    place = await plan.resource(Scratch(name, nbytes))
    return place.buffer, place.nbytes


def test_a_plan_uses_the_scratch_of_a_larger_plan() -> None:
    async def check() -> None:
        shared = memory()
        large, small = PlanMemory(shared), PlanMemory(shared)
        buffer, _ = await taken(large, "sums", 4096)
        assert await taken(small, "sums", 256) == (buffer, 256)
        assert (await taken(small, "other", 256))[0] != buffer
        large.release()
        assert buffer in shared.allocated  # the small plan still uses it
        small.release()
        assert shared.allocated == {}

    wait(check())


def test_two_sizes_of_a_plan_are_two_memories() -> None:
    """A call may need both at once."""

    async def check() -> None:
        shared = memory()
        large, small = PlanMemory(shared), PlanMemory(shared)
        await taken(large, "sums", 4096)
        places = [await taken(small, "sums", nbytes) for nbytes in (256, 512, 256)]
        assert places[0] == places[2]
        assert places[0][0] != places[1][0]

    wait(check())
