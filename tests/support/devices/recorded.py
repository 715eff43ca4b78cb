"""Readers of a `SimulatedDevice`'s log, and small programs to fill it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.device import PlanCommands
from webpte.engine.gpu.simulated.device import RecordedRun, SimulatedDevice

RELU, ADD = "aten.relu.default", "aten.add.Tensor"


def ones(*dims: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(dims, dtype)


def add_graph(
    dims: tuple[int, ...] = (2, 3), *, dynamic: bool = False, host: str | None = None
) -> GraphWriter:
    """(x, y) -> x + y."""
    g = GraphWriter()
    x, y, out = (g.tensor(dims) for _ in range(3))
    g.op(ADD, x, y, g.int(1), out)
    g.inputs(x, y)
    g.outputs(out)
    for value in (x, y, out):
        g.host(value, host, dynamic=dynamic)
    return g


def narrowed_graph(size: int) -> GraphWriter:
    """x [size] -> -x: int64 outside, int32 inside, as the exporter narrows it."""
    g = GraphWriter()
    x, out = g.tensor((size,), "int32"), g.tensor((size,), "int32")
    g.op("aten.neg.default", x, out)
    g.inputs(x)
    g.outputs(out)
    for value in (x, out):
        g.host(value, "int64")
    return g


def resizable() -> GraphWriter:
    """x [<=8, 3] -> relu -> + y [<=8, 3]."""
    g = GraphWriter()
    x, y = g.tensor((8, 3)), g.tensor((8, 3))
    a = g.op(RELU, x, g.tensor((8, 3)))
    out = g.op(ADD, a, y, g.int(1), g.tensor((8, 3)))
    g.inputs(x, y)
    g.outputs(out)
    return g


def pair(rows: int) -> list[np.ndarray]:
    """Return inputs of `resizable`."""
    return [ones(rows, 3), ones(rows, 3)]


NO_PAYLOAD = np.zeros(0, np.uint8)
NO_PLAN = PlanCommands((), (), (), 0)


def words(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


async def two_buffers(device: SimulatedDevice) -> tuple[int, int]:
    """Create a buffer of 16 and one of 8 bytes."""
    first, second = await device.create_buffers([16, 8])
    return first, second


DEVICES = ["numpy", "recording"]


def device_of(name: str) -> Any:
    """Return the `device` to load with: a new simulated one for "recording", else the name."""
    return SimulatedDevice() if name == "recording" else name


def names(device: SimulatedDevice, since: int = 0) -> list[str]:
    """Return the names of the calls from the log's entry `since` on."""
    return [name for name, _ in device.log[since:]]


def sent(device: SimulatedDevice) -> bytes:
    """Return the payload of the last execution."""
    name, detail = device.log[-1]
    assert name == "run"
    assert isinstance(detail, RecordedRun)
    return detail.payload


def plans(device: SimulatedDevice) -> list[PlanCommands]:
    """Return the plans that were created, in order."""
    made = [detail for name, detail in device.log if name == "create_plan"]
    assert all(isinstance(plan, PlanCommands) for plan in made)
    return made  # type: ignore[return-value]


def runs(device: SimulatedDevice) -> list[dict[str, Any]]:
    """Return the fields of each `PlanRun`, in order."""
    return [
        detail._asdict()
        for name, detail in device.log
        if name == "run" and isinstance(detail, RecordedRun)
    ]


class Slow(SimulatedDevice):
    """A device that lets other tasks run whenever it creates a plan."""

    async def create_plan(self, commands: PlanCommands) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().create_plan(commands)
