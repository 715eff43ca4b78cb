"""The arena for uniform blocks: bytes on the GPU after places were used again, or a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.graphs.graphs import wait
from webpte.engine.gpu.device import Resource
from webpte.engine.gpu.params_arena import ParamsArena
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError

A, B, C, D, E = (bytes([number] * 16) for number in range(1, 6))


def uploaded(device: SimulatedDevice, places: Sequence[Resource]) -> list[bytes]:
    ends = [(device.memory[place.buffer], place.offset, place.nbytes) for place in places]
    return [buffer.read(buffer.size)[at : at + nbytes] for buffer, at, nbytes in ends]


@pytest.mark.parametrize("order", [(B, C), (C, B)])
def test_blocks_in_places_that_were_free_are_uploaded(order: tuple[bytes, bytes]) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        arena = ParamsArena(device)
        first, *_ = await arena.place([A, B, C])
        arena.release(order)
        places = await arena.place([D, E, A])
        assert uploaded(device, places) == [D, E, A]
        assert places[2] == first
        assert len({place.offset for place in places}) == 3

    wait(run())


def test_blocks_that_were_not_uploaded_are_not_placed() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        arena = ParamsArena(device)
        device.inject(DeviceError, method="write")
        with pytest.raises(DeviceError, match="injected"):
            await arena.place([A, B])
        assert arena.allocated == device.buffers == {}
        places = await arena.place([B, A])
        assert uploaded(device, places) == [B, A]
        arena.release([A, B])
        assert device.buffers == {}

    wait(run())
