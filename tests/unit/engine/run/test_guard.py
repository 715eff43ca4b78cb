"""State that could not be put back at once is put back before it is saved again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.graphs.graphs import wait
from webpte.engine.gpu.device import GpuCopy
from webpte.engine.run.guard import StateGuard
from webpte.errors import DeviceError

STATE, COPY = 1, 2


class Buffers:
    """A device and a delegate's memory in one: a state of a single buffer, and its copy."""

    def __init__(self) -> None:
        self.holds: dict[int, Any] = {STATE: "as saved"}
        self.fails = False

    def buffers_of(self, _: Sequence[int]) -> dict[int, int]:
        return {STATE: 4}

    async def create(self, _: Sequence[int]) -> list[int]:
        return [COPY]

    def copy(self, copies: Sequence[GpuCopy]) -> None:
        if self.fails:
            raise DeviceError("the GPU is busy")
        for one in copies:
            self.holds[one.target] = self.holds[one.source]


def test_a_restore_that_failed_comes_before_the_next_copy() -> None:
    async def run() -> None:
        buffers = Buffers()
        guard = StateGuard(buffers, buffers, [0])  # type: ignore[arg-type]
        restore = await guard.save()
        buffers.holds[STATE], buffers.fails = "half written", True
        restore()
        assert guard.restore_pending
        buffers.fails = False
        restore = await guard.save()
        assert buffers.holds == {STATE: "as saved", COPY: "as saved"}
        buffers.holds[STATE] = "written again"
        restore()
        assert buffers.holds[STATE] == "as saved"

    wait(run())
