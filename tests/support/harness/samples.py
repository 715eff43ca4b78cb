"""Small programs that several tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter, Host, MethodWriter

Dims = tuple[int, ...]


def add_graph() -> GraphWriter:
    g = GraphWriter()
    x, y = g.tensor((2, 3)), g.tensor((2, 3))
    w = g.tensor((3,), constant=np.arange(3, dtype=np.float32))
    g.op("aten.add.Tensor", x, g.prepack(w), g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    return g


def every_kind() -> MethodWriter:
    """Write a method with every kind of value and instruction."""
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


def numbers(*dims: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(dims).astype(np.float32)


def relu(m: MethodWriter, source: Host, dims: Dims, dtype: str = "float32", **how: Any) -> Host:
    """Add a delegate of one relu."""
    g = GraphWriter()
    x = g.tensor(dims, dtype)
    g.inputs(x)
    g.outputs(g.op("aten.relu.default", x, g.tensor(dims, dtype)))
    out = m.tensor(dims, dtype, **how)
    m.delegate(g, [source, out])
    return out


def convolution(**weight: Any) -> MethodWriter:
    """Write relu, a convolution of up to 4 images of 5 x 5, and relu."""
    m = MethodWriter()
    x, made = (m.tensor((4, channels, 5, 5), dynamic=True) for channels in (2, 3))
    m.inputs(x)
    given = relu(m, x, (4, 2, 5, 5), dynamic=True)
    kernel = m.tensor((3, 2, 3, 3), **weight)
    bias = m.tensor((3,), data=numbers(3))
    sizes = ([1, 1], [1, 1], [1, 1])
    m.kernel("aten::convolution.out", given, kernel, bias, *sizes, False, [0, 0], 1, made, made)
    m.outputs(relu(m, made, (4, 3, 5, 5), dynamic=True))
    return m
