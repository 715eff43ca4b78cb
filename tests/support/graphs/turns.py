"""Calls that are followed through every turn of the event loop, and their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

MOST_TURNS = 60  # more than any call here takes


def lookup(rows: int = 8, *, computed: bool = False) -> GraphWriter:
    """Write a lookup of rows 0 to 9 of a table, by given or by computed (negated) indices."""
    g = GraphWriter()
    table = np.arange(10, dtype=np.float32).repeat(2).reshape(10, 2)
    weight = g.prepack(g.tensor((10, 2), constant=table))
    index = x = g.tensor((rows,), "int32")
    if computed:
        index = g.op("aten.neg.default", x, g.tensor((rows,), "int32"))
    out = g.op("aten.embedding.default", weight, index, g.tensor((rows, 2)))
    g.inputs(x)
    g.outputs(out)
    g.host(x, dynamic=True)
    g.host(out, dynamic=True)
    return g


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def outcome(call: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:
    """Return a call's result, or the error of ours that it raises."""
    try:
        return await call
    except (errors.WebpteError, asyncio.CancelledError) as error:
        return error


def nothing_left(device: SimulatedDevice) -> bool:
    counts = device.counts()
    return (counts["buffers"], counts["plans"]) == (0, 0)
