"""`Program.memory`: buffers, their tensors over time, and the peak."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, add_graph, ones
from support.graphs.graphs import chain, load, wait
from support.graphs.stitching import counting, logcumsumexp, method, neg
from support.harness.inspecting import APART
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import MemoryReport

LLAMA = Path(__file__).parents[3] / "data/llm/llama_tiny_q4.pte"


def memory_of(writer: GraphWriter | MethodWriter) -> MemoryReport:
    async def run() -> MemoryReport:
        async with await load(writer, device=SimulatedDevice(), **APART) as program:
            found = program.memory()
            assert found.nbytes == program.stats.buffer_bytes
            assert len(found.buffers) == program.stats.buffers
            return found

    return wait(run())


def test_tensors_take_turns() -> None:
    """A chain needs two tensors at a time: a call's input and its output."""
    found = memory_of(chain(5, dims=(100,)))
    one, other = (b for b in found.buffers if b.kind == "activations")
    assert [(t.first, t.last) for t in one.tensors] == [(-1, 0), (1, 2), (3, 4)]
    assert [(t.first, t.last) for t in other.tensors] == [(0, 1), (2, 3), (4, 5)]
    assert {t.nbytes for t in (*one.tensors, *other.tensors)} == {400}
    assert found.needed == (800,) * 5
    assert (found.peak, found.peak_node, found.unshared) == (800, 0, 2400)


def test_weights_state_and_views() -> None:
    g = GraphWriter()
    x, w = g.tensor((2, 3)), g.tensor((2, 3), constant=np.ones(6, np.float32))
    kept = g.prepack(g.tensor((2, 3), constant=np.zeros(6, np.float32)))
    a = g.op(ADD, x, w, g.int(1), g.tensor((2, 3)))
    b = g.op("aten.view_copy.default", a, g.int_list([6]), g.tensor((6,)))
    g.op(ADD, kept, x, g.int(1), kept)
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", b, g.tensor((6,))))
    found = memory_of(g)
    assert {k: n for k, n in found.by_kind.items() if k != "params"} == {
        "weights": 32,
        "state": 32,
        "activations": 3 * 32,
    }
    (weights,) = (b for b in found.buffers if b.kind == "weights")
    assert [(t.first, t.last) for t in weights.tensors] == [(-1, 5)]
    pairs = [b.tensors for b in found.buffers if b.kind == "activations" and len(b.tensors) == 2]
    ((source, view),) = (pair for pair in pairs if pair[1].first <= pair[0].last)
    assert (source.shape, view.shape) == ((2, 3), (6,))
    assert (source.first, view.last) == (0, 4)
    assert found.unshared == 4 * 24, "a view takes nothing"


def test_live_bytes_and_limits() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        device.info.limits.update(maxBufferSize=1 << 20, maxStorageBufferBindingSize=1 << 18)
        async with await load(add_graph((8, 3), dynamic=True), device=device) as program:
            await program.forward(ones(2, 3), ones(2, 3))
            found = program.memory()
            tensors = [t for b in found.buffers for t in b.tensors]
            assert {(t.nbytes, t.live_nbytes) for t in tensors} == {(96, 24)}
            assert found.largest is not None
            assert found.used_of_limit == found.largest.nbytes / (1 << 18)
            assert "of what this adapter can bind" in str(found)
            assert json.loads(found.json())["needed"] == [3 * 96]

    wait(run())


def test_weights_that_methods_share_and_copies_of_state() -> None:
    async def run() -> None:
        weight = np.ones(4, np.float32)

        def adding() -> GraphWriter:
            g = GraphWriter()
            x, w = g.tensor((4,)), g.tensor((4,), constant=weight, key="weight")
            g.inputs(x)
            g.outputs(g.op(ADD, x, w, g.int(1), g.tensor((4,))))
            return g

        methods = {"forward": MethodWriter.of(adding()), "other": MethodWriter.of(adding())}
        device = SimulatedDevice()
        async with await webpte.load(write_pte(methods=methods), device=device) as program:
            (shared,) = (b for b in program.memory().buffers if b.kind == "weights")
            assert shared.shared_with == ("other",)
            (there,) = (b for b in program.memory("other").buffers if b.kind == "weights")
            assert (there.number, there.shared_with) == (shared.number, ("forward",))
        m = method((4,))
        m.outputs(counting(m, m.input_values[0]))
        async with await load(m, device=device, **APART) as program:
            assert "copies" not in program.memory().by_kind
            await program.compare("forward", ones(4))
            assert program.memory().by_kind["copies"] == 16

    wait(run())


def test_several_delegates_of_a_method() -> None:
    m = method((4,))
    m.outputs(neg(m, logcumsumexp(m, neg(m, m.input_values[0]))))
    found = memory_of(m)
    spans = [(t.first, t.last) for b in found.buffers for t in b.tensors]
    assert spans == [(-1, 0), (0, 1), (1, 2), (2, 3)]
    assert found.needed == (32, 32, 32)


def test_a_language_model_with_its_heads() -> None:
    async def run() -> None:
        async with await webpte.load(LLAMA, device=SimulatedDevice(), **APART) as program:
            found = program.memory()
            assert found.nbytes == program.stats.buffer_bytes
            kinds = {"weights", "state", "activations", "scratch", "params"}
            assert found.by_kind.keys() == kinds
            assert found.by_kind["state"] == 4 * 128 * 2 * 16 * 4
            allocated = found.by_kind["activations"]
            assert found.peak <= allocated < found.unshared
            assert "<table>" in found._repr_html_()

    wait(run())


def test_wrong_questions() -> None:
    async def run() -> None:
        with pytest.raises(errors.DeviceError, match="runs on NumPy"):
            (await load(chain(1))).memory()
        program = await load(chain(1), device=SimulatedDevice(), **APART)
        with pytest.raises(errors.InputError, match="no method 'other'"):
            program.memory("other")
        program.close()
        with pytest.raises(errors.ClosedError):
            program.memory()

    wait(run())
