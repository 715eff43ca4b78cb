"""A program on a GPU that goes away, and comes back."""

from __future__ import annotations

import numpy as np

from support.graphs.graphs import remembering
from support.page.page import encode_bytes, python
from webpte_host.harness.browser import Harness


def test_a_lost_program_recovers(harness: Harness) -> None:
    code = """
    async def step(value, position):
        x = np.full((1, 1, 1, 2), value, np.float32)
        (y,) = await program.forward(x, np.array([position]))
        return y[0, :, 0]

    program = await webpte.load(base64.b64decode(data))
    results = [await step(5, 0), await step(6, 2)]
    (await shared_device()).destroy()
    message = await raises(webpte.errors.DeviceLostError, step(7, 1))
    await program.recover()
    device = await shared_device()
    results += [await step(7, 1), await step(8, 3)]
    await program.recover()
    results.append(await step(9, 0))
    during = device.counts()
    program.close()
    closed = await raises(webpte.errors.ClosedError, program.recover())
    return [[y.tolist() for y in results], message, closed, during, device.counts()]
    """
    results, message, closed, during, after = python(
        harness, code, data=encode_bytes(remembering())
    )
    expected = [[5, 1, 1, 1], [5, 1, 6, 1], [1, 7, 1, 1], [1, 7, 1, 8], [9, 1, 1, 1]]
    for result, rows in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.add.outer(rows, [10, 20]))
    assert "call program.recover(), or load the program again" in message
    assert "load it again" in closed
    assert during["plans"] == 1
    assert after["buffers"] == after["plans"] == 0
