"""Rebuilding a program whose device went away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.losable import Losable, share_losable
from support.devices.recorded import ADD, RELU, ones
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Losable]:
    """The shared devices that were made, in order: a new one once the last is lost."""
    return share_losable(monkeypatch)


def add_weights() -> bytes:
    g = GraphWriter()
    x, w = g.tensor((3,)), g.tensor((3,), constant=np.array([1, 2, 3], np.float32))
    g.inputs(x)
    g.outputs(g.op(ADD, x, g.prepack(w), g.int(1), g.tensor((3,))))
    return write_pte(g)


def counter() -> bytes:
    """Returns how often it ran before, if that is more than its input."""
    g = GraphWriter()
    x = g.tensor((2,))
    g.inputs(x)
    g.outputs(g.op(RELU, x, g.tensor((2,))))
    m = MethodWriter.of(g)
    state = m.tensor((2,), data=np.zeros(2, np.float32), mutable=True)
    out = m.tensor((2,))
    m.kernel("aten::maximum.out", m.output(0), state, out, out)
    m.kernel("aten::add.out", state, m.tensor((2,), data=ones(2)), 1, state, state)
    m.output_values[:] = [out]
    return write_pte(m)


def test_a_lost_program_is_rebuilt_on_a_new_device(devices: list[Losable]) -> None:
    async def run() -> None:
        program = await webpte.load(add_weights())
        await program.forward(ones(3))
        devices[0].lost = True
        for _ in range(2):
            with pytest.raises(errors.DeviceLostError, match=r"^method 'forward', delegate 0: "):
                await program.forward(ones(3))
        await program.recover()
        (result,) = await program.forward(ones(3))
        assert result.shape == (3,)
        old, new = devices
        assert [old.measured, new.measured] == [1, 1]
        assert not old.buffers
        assert not old.plans
        assert np.array([1, 2, 3], np.float32).tobytes() in new.contents.values()
        assert program.stats.executions == 1
        assert program.stats.prepack_transfers == 1
        assert {"device", "build"} <= program.stats.load_ms.keys()
        program.close()
        assert not new.buffers
        assert not new.plans

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "webgpu"])
@pytest.mark.usefixtures("devices")
def test_state_starts_as_it_was_loaded(device: str) -> None:
    async def run() -> None:
        async with await webpte.load(counter(), device=device) as program:
            for before in (0, 1, 2):
                (result,) = await program.forward(np.zeros(2, np.float32))
                assert result.tolist() == [before, before]
            await program.recover()
            (result,) = await program.forward(np.zeros(2, np.float32))
            assert result.tolist() == [0, 0]

    wait(run())


def test_a_program_that_is_not_lost_is_rebuilt_where_it_is(devices: list[Losable]) -> None:
    async def run() -> None:
        program = await webpte.load(add_weights())
        counts = program.stats.buffers, len(devices[0].plans)
        await program.recover()
        assert len(devices) == 1
        assert (len(devices[0].buffers), len(devices[0].plans)) == counts
        await program.forward(ones(3))
        program.close()
        assert devices[0].buffers == {}

    wait(run())


def test_a_device_of_the_callers_own(devices: list[Losable]) -> None:
    """It is not replaced behind the caller's back."""

    async def run() -> None:
        first, second = Losable(), Losable()
        async with await webpte.load(add_weights(), device=first) as program:
            await program.recover()
            first.lost = True
            with pytest.raises(errors.DeviceLostError, match=r"call recover\(device\)"):
                await program.recover()
            await program.recover(second)
            await program.forward(ones(3))
            assert second.buffers
        assert second.buffers == {}
        assert devices == []

    wait(run())


def test_a_recovery_that_fails_can_be_tried_again(devices: list[Losable]) -> None:
    async def run() -> None:
        program = await webpte.load(add_weights())
        devices[0].lost = True
        full = SimulatedDevice(memory_limit=10)
        with pytest.raises(errors.OutOfMemoryError):
            await program.recover(full)
        assert full.buffers == {}
        await program.recover()
        await program.forward(ones(3))
        program.close()

    wait(run())


def test_a_file_that_was_deleted_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        file = tmp_path / "model.pte"
        file.write_bytes(add_weights())
        program = await webpte.load(file, device=SimulatedDevice())
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(errors.SourceError, match=r"model\.pte: No such file"):
            await program.recover()
        with pytest.raises(errors.SourceError, match=r"model\.pte: No such file"):
            await program.compare("forward", ones(3))
        file.write_bytes(content)
        await program.recover()

    wait(run())


def test_a_closed_program_stays_closed(devices: list[Losable]) -> None:
    async def run() -> None:
        program = await webpte.load(add_weights())
        recovering = asyncio.ensure_future(program.recover())
        await asyncio.sleep(0)
        program.close()
        with pytest.raises(errors.ClosedError):
            await recovering
        with pytest.raises(errors.ClosedError, match="load it again"):
            await program.recover()
        assert not devices[0].buffers
        assert not devices[0].plans

    wait(run())


def test_recoveries_at_once(devices: list[Losable]) -> None:
    async def run() -> None:
        program = await webpte.load(add_weights())
        devices[0].lost = True
        await asyncio.gather(*(program.recover() for _ in range(3)))
        await program.forward(ones(3))
        assert len(devices) == 2
        program.close()
        assert devices[1].buffers == {}

    wait(run())
