"""A sum whose weights a test defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter

PREPACK, ADD = "et_vk.prepack.default", "aten.add.Tensor"
W = np.array([1.5, -2.0, 3.25], np.float32)
X = np.array([[10, 20, 30], [-1, -2, -3]], np.float32)


def add_graph(weights: Callable[[GraphWriter], int], **options: Any) -> GraphWriter:
    """Write x + w, with w from `weights`."""
    g = GraphWriter(**options)
    x = g.tensor((2, 3))
    out = g.op(ADD, x, weights(g), g.int(1), g.tensor((2, 3)))
    g.inputs(x)
    g.outputs(out)
    return g


def constant(g: GraphWriter, key: str | None = None) -> int:
    return g.tensor((3,), constant=W, key=key)


def prepacked(g: GraphWriter) -> int:
    return g.prepack(constant(g))
