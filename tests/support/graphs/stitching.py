"""Methods of several delegates, and their results on NumPy and on the simulated device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import webpte
from support.devices.recorded import ones, runs
from support.harness.samples import Dims
from support.write.pte_writer import GraphWriter, Host, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice

LOGCUMSUMEXP = "aten::logcumsumexp.out"  # has no counterpart in delegates: stays on the host


def method(*dims: Dims) -> MethodWriter:
    """Write a method with an input for each of these dims."""
    m = MethodWriter()
    m.inputs(*(m.tensor(sizes) for sizes in dims))
    return m


def unary(m: MethodWriter, op: str, source: Host, dims: Dims, dtype: str = "float32") -> Host:
    """Add a delegate of one call."""
    g = GraphWriter()
    x = g.tensor(dims, dtype)
    g.inputs(x)
    g.outputs(g.op(op, x, g.tensor(dims, dtype)))
    out = m.tensor(dims, dtype)
    m.delegate(g, [source, out])
    return out


def neg(m: MethodWriter, source: Host, dims: Dims = (4,)) -> Host:
    return unary(m, "aten.neg.default", source, dims)


def logcumsumexp(m: MethodWriter, source: Host, dims: Dims = (4,)) -> Host:
    out = m.tensor(dims)
    m.kernel(LOGCUMSUMEXP, source, 0, out, out)
    return out


def plus(m: MethodWriter, x: Host, y: Host, dims: Dims = (4,)) -> Host:
    """Add a delegate that adds two tensors."""
    g, out = GraphWriter(), m.tensor(dims)
    a, b = g.tensor(dims), g.tensor(dims)
    g.inputs(a, b)
    g.outputs(g.op("aten.add.Tensor", a, b, g.int(1), g.tensor(dims)))
    m.delegate(g, [x, y, out])
    return out


async def expect(
    m: MethodWriter, *calls: Sequence[Any], submitted: int = 1, **writing: Any
) -> webpte.Program:
    """Check for NumPy's results, and for this number of delegate executions per call."""
    data, device = write_pte(m, **writing), SimulatedDevice()
    expected = await webpte.load(data, device="numpy")
    program = await webpte.load(data, device=device)
    for inputs in calls:
        start = len(runs(device))
        outputs = await program.forward(*inputs)
        for got, want in zip(outputs, await expected.forward(*inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
            assert got.dtype == want.dtype
        assert len(runs(device)) - start == submitted
    return program


def recording(program: webpte.Program) -> SimulatedDevice:
    assert isinstance(program.device, SimulatedDevice)
    return program.device


X = np.array([-1, 2, -3, 4], np.float32)


def counting(m: MethodWriter, source: Host) -> Host:
    """Add a delegate: count += 1; returns x + count."""
    g = GraphWriter()
    x, one = g.tensor((4,)), g.tensor((4,), constant=ones(4))
    count = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    g.op("aten.add.Tensor", count, one, g.int(1), count)
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", x, count, g.int(1), g.tensor((4,))))
    out = m.tensor((4,))
    m.delegate(g, [source, out])
    return out


def negating() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((4,))))
    return g
