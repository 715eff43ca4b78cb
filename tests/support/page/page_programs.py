"""Programs for the harness page, and Python code that holds their bytes."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np

from support.page.page import encode_bytes, python
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

RELU, ADD = "aten.relu.default", "aten.add.Tensor"
W = np.array([1.5, -2, 3.25], np.float32)


def add_weights(
    *, dims: tuple[int, ...] = (2, 3), weights: np.ndarray = W, prepack: bool = True
) -> bytes:
    """M(x) = x + w."""
    g = GraphWriter()
    x = g.tensor(dims)
    w = g.tensor(weights.shape, str(weights.dtype), constant=weights)
    g.inputs(x)
    g.outputs(g.op(ADD, x, g.prepack(w) if prepack else w, g.int(1), g.tensor(dims)))
    return write_pte(g)


def run(harness: Harness, code: str, data: bytes, **arguments: Any) -> Any:
    """Return code that runs a program; `data` is its bytes in the page."""
    return python(
        harness,
        "data = base64.b64decode(encoded)\n" + dedent(code),
        encoded=encode_bytes(data),
        **arguments,
    )
