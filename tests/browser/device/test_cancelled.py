"""A long call that is cancelled leaves the GPU to others."""

from __future__ import annotations

import numpy as np

from support.page.page import encode_bytes, python
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

SIDE = 512
CALLS = 8


def products() -> bytes:
    """Write a program of many equal products, each by the unit matrix."""
    g = GraphWriter()
    value = x = g.tensor((SIDE, SIDE))
    unit = g.prepack(g.tensor((SIDE, SIDE), constant=np.eye(SIDE, dtype=np.float32)))
    for _ in range(CALLS):
        value = g.op("aten.mm.default", value, unit, g.tensor((SIDE, SIDE)))
    g.inputs(x)
    g.outputs(value)
    return write_pte(g)


def test_the_gpu_is_free_soon_after_a_long_call_was_cancelled(harness: Harness) -> None:
    code = """
    from time import perf_counter
    from webpte.engine.run import slices

    async def taken(work):
        began = perf_counter()
        await work
        return perf_counter() - began

    async with await webpte.load(base64.b64decode(data)) as program:
        x = np.random.default_rng(0).standard_normal((side, side), np.float32)
        await program.forward(x)
        whole = await taken(program.forward(x))
        limits = slices.LONG_MS, slices.SLICE_MS
        slices.LONG_MS = slices.SLICE_MS = 0  # on a fast machine, too, the call is long
        try:
            (sliced,) = await program.forward(x)
            (buffer,) = await program.device.create_buffers([4])
            for _ in range(10):  # a busy machine may hold up some of them
                cancelled = asyncio.ensure_future(program.forward(2 * x))
                await asyncio.sleep(whole / 20)
                cancelled.cancel()
                await asyncio.wait({cancelled})
                rest = await taken(program.device.read(buffer, 4))
                if rest < whole / 2:
                    break
            program.device.destroy_buffers([buffer])
            (after,) = await program.forward(x)
        finally:
            slices.LONG_MS, slices.SLICE_MS = limits
        same = [bool(np.allclose(one, x, rtol=1e-2)) for one in (sliced, after)]
        return [whole, rest, cancelled.cancelled(), same]
    """
    whole, rest, cancelled, same = python(harness, code, data=encode_bytes(products()), side=SIDE)
    assert cancelled
    assert same == [True, True]
    assert rest < whole / 2
