"""Small programs that several tests start from."""

from __future__ import annotations

import numpy as np

from support.pte_writer import GraphWriter, MethodWriter


def add_graph() -> GraphWriter:
    g = GraphWriter()
    x, y = g.tensor((2, 3)), g.tensor((2, 3))
    w = g.tensor((3,), constant=np.arange(3, dtype=np.float32))
    g.op("aten.add.Tensor", x, g.prepack(w), g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    return g


def every_kind() -> MethodWriter:
    """A method with every kind of value and instruction."""
    m = MethodWriter.of(add_graph())
    x, y = m.input(0), m.output(0)
    flag = m.value(True)
    z = m.tensor((2, 3), "int64", dynamic=True)
    m.kernel("aten::topk.values", x, 2, -1, None, 0.5, "text", [1, 2], [0.5, 1.5], [True, False])
    m.kernel("aten::copy_", [x, y], [x, None, y], z, z)
    m.jump_false(flag, 5)
    m.move(x, y)
    m.free(z)
    m.outputs(z)
    return m
