"""Plans whose parts are plans of delegates: several runs of a model in one submission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from webpte.engine.gpu.device import Device
from webpte.engine.run.device_plan import DevicePlan
from webpte.engine.run.memory import DelegateMemory, ScratchKey

Scratches = Callable[[ScratchKey], Awaitable[int]]


class CombinedPlan(Protocol):
    """A plan whose parts are other plans."""

    @property
    def handle(self) -> int: ...


Combined = TypeVar("Combined", bound=CombinedPlan)


class CombinedPlans(Generic[Combined]):
    """Plans made of other plans, each kept for as long as all of its parts exist."""

    def __init__(self, device: Device, memory: DelegateMemory) -> None:
        """Take the `memory` that holds scratch buffers of combined plans."""
        self._device = device
        self._memory = memory
        self._built: dict[object, Combined] = {}

    async def get(
        self,
        plans: Sequence[DevicePlan],
        kind: tuple[object, ...],
        build: Callable[[Scratches], Awaitable[Combined]],
    ) -> Combined:
        """Return the plan of this kind that is made of these plans, built if need be."""
        key = (*(plan.segments[-1].handle for plan in plans), *kind)
        if key in self._built:
            return self._built[key]
        taken: list[ScratchKey] = []

        async def scratch(wanted: ScratchKey) -> int:
            place = await self._memory.take_scratch(wanted)
            taken.append(wanted)
            return place.buffer

        def release() -> None:
            for one in taken:
                self._memory.release_scratch(one)

        try:
            combined = await build(scratch)
        except BaseException:
            release()
            raise

        def destroy() -> None:
            for plan in plans:
                del plan.made_of_it[key]
            del self._built[key]
            self._device.destroy_plan(combined.handle)
            release()

        for plan in plans:
            plan.made_of_it[key] = destroy
        self._built[key] = combined
        return combined
