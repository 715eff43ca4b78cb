"""XNNPACK delegates on WebGPU, and constants that Python converts while they are uploaded."""

from __future__ import annotations

import base64

import numpy as np

from support.graphs.fuzz import FILES
from support.page.page import python
from support.write.pte_writer import write_pte
from support.write.xnnpack_writer import XnnpackWriter
from webpte_host.harness.browser import Harness

COMPARE = """
results = []
for device in ("webgpu", "numpy"):
    async with await webpte.load(data, device=device) as program:
        info = program.methods["forward"]
        given = [
            np.random.default_rng(3).standard_normal(one.shape).astype(one.dtype)
            for one in info.inputs
        ]
        results.append([np.asarray(out, np.float64) for out in await program.forward(*given)])
return [float(np.abs(a - b).max()) for a, b in zip(*results, strict=True)]
"""


def differences(harness: Harness, data: bytes) -> list[float]:
    """Return the largest difference of each output from the output of the NumPy references."""
    code = "import base64\ndata = base64.b64decode(text)\n" + COMPARE
    found: list[float] = python(harness, code, text=base64.b64encode(data).decode())
    return found


def large_layer() -> bytes:
    """Weights of 17 MB, which become halves: 8.8 MB, more than is converted at once."""
    rows, columns = 1100, 4000
    g = XnnpackWriter()
    x = g.value((1, columns), "fp16", argument=0)
    weights = (np.arange(rows * columns, dtype=np.float32) % 7 - 3).reshape(rows, columns) / 64
    w = g.value((rows, columns), constant=weights)
    y = g.value((1, rows), "fp16", argument=1, output=True)
    g.node("FullyConnected", x, w, None, y)
    return write_pte(g.method())


def test_programs_are_as_on_numpy(harness: Harness) -> None:
    for name in ("xnnpack_images", "xnnpack_rows", "xnnpack_unet"):
        assert max(differences(harness, FILES[name])) < 1e-2, name


def test_large_constants_that_are_converted(harness: Harness) -> None:
    (difference,) = differences(harness, large_layer())
    assert difference < 0.1
