"""The GPU is opened and tested while a program is read, and no program comes before the verdict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import webpte
from support.graphs.graphs import chain, wait
from support.write.pte_writer import write_pte
from webpte import loading
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.join_programs import read_programs as read
from webpte.errors import FaultyDeviceError


class Measuring(SimulatedDevice):
    """A GPU that tells when waiting is measured."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self._events = events

    async def measure_waiting(self) -> None:
        self._events.append("measured")


class SlowTest:
    """A GPU whose self-test lasts until `end` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: str = "") -> None:
        self.end, self.events, self._fault = asyncio.Event(), list[str](), fault

        async def read_programs(*given: Any) -> Any:
            contents = await read(*given)
            self.events.append("read")
            return contents

        monkeypatch.setattr(loading, "shared_device", self._open)
        monkeypatch.setattr(loading, "read_programs", read_programs)

    async def _open(self, name: str) -> SimulatedDevice:
        self.events.append("test begins")
        await self.end.wait()
        self.events.append("verdict")
        if self._fault:
            raise FaultyDeviceError("this GPU fails the self-test", {self._fault: "wrong"})
        return Measuring(self.events)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fault", ["", "barriers"])
def test_reading_does_not_wait_for_the_self_test_but_the_program_does(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async def check() -> None:
        gpu = SlowTest(monkeypatch, fault)
        loading = asyncio.ensure_future(webpte.load(write_pte(chain(2)), device="webgpu"))
        await settle()
        assert sorted(gpu.events) == ["read", "test begins"]
        assert not loading.done()
        gpu.end.set()
        if fault:
            with pytest.raises(FaultyDeviceError):
                await loading
        else:
            (await loading).close()
        assert gpu.events[2:] == ["verdict", *([] if fault else ["measured"])]

    wait(check())
