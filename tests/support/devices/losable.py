"""Simulated devices that go away, and the shared device as such a device."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from webpte import errors, loading, program
from webpte.engine.gpu.device import BufferUse, PlanRun, Transfer
from webpte.engine.gpu.simulated.device import SimulatedDevice


class Losable(SimulatedDevice):
    """Fails like a GPU: from one moment on, everything but giving back."""

    measured = 0  # how often waiting was

    async def measure_waiting(self) -> None:
        self.measured += 1

    async def create_buffers(self, sizes: Sequence[int], use: BufferUse = "storage") -> list[int]:
        self._check()
        return await super().create_buffers(sizes, use)

    async def transfer(self, transfers: Sequence[Transfer], progress: Any = None) -> None:
        self._check()
        await super().transfer(transfers, progress)

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        self._check()
        return super().run(run)

    def _check(self) -> None:
        if self.lost:
            raise errors.DeviceLostError("gone")


def share_losable(monkeypatch: pytest.MonkeyPatch) -> list[Losable]:
    """Return the list that shared devices are added to: a new one once the last is lost."""
    made: list[Losable] = []

    async def shared_device(name: str) -> Losable:
        if not made or made[-1].lost:
            made.append(Losable())
        return made[-1]

    for module in (loading, program):
        monkeypatch.setattr(module, "shared_device", shared_device)
    return made
