"""A simulated device whose times a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice


class Timed(SimulatedDevice):
    """A device on which `slow` computes a dispatch's time from its number of workgroups."""

    def __init__(self, slow: Callable[[int], float]) -> None:
        super().__init__(features=("timestamp-query",))
        self._slow = slow
        self._grids: dict[int, list[int]] = {}

    async def create_plan(self, commands: Any) -> int:
        plan = await super().create_plan(commands)
        self._grids[plan] = [dispatch.grid[0] for dispatch in commands.dispatches]
        return plan

    def profile(self, run: PlanRun) -> Any:
        running = super().profile(run)

        async def timed() -> tuple[bytes, list[float]]:
            result, _ = await running
            return result, [self._slow(grid) for grid in self._grids[run.plan]]

        return timed()
