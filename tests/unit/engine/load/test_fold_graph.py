"""Calls that constants determine are computed when a delegate is built, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.graphs.graphs import build_graph, wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.load import fold_graph
from webpte.engine.load.fold_graph import fold_constants

ADD, MUL, VIEW = "aten.add.Tensor", "aten.mul.Tensor", "aten.view_copy.default"
W = np.arange(6, dtype=np.float32)


def names(graph: Graph) -> list[str]:
    return [call.name for call in wait(fold_constants(graph)).calls]


def positions(prepack: bool = True) -> GraphWriter:
    """x + view(arange(6) * w): all but the last addition is known before a run."""
    g = GraphWriter()
    x, w = g.tensor((2, 3)), g.tensor((6,), constant=W)
    count = (g.int(0), g.int(6), g.int(1), *(g.null() for _ in range(3)), g.bool_(False))
    numbers = g.op("aten.arange.start_step", *count, g.tensor((6,)))
    product = g.op(MUL, numbers, g.prepack(w) if prepack else w, g.tensor((6,)))
    viewed = g.op(VIEW, product, g.int_list([2, 3]), g.tensor((2, 3)))
    g.inputs(x)
    g.outputs(g.op(ADD, x, viewed, g.int(1), g.tensor((2, 3))))
    return g


@pytest.mark.parametrize("prepack", [True, False])
def test_what_is_known_is_computed_once(prepack: bool) -> None:
    """The prepack goes as well: nobody reads its result."""
    assert names(build_graph(positions(prepack))) == [ADD]


def test_answers_stay_and_every_call_stays_without_fusion() -> None:
    x = np.ones((2, 3), np.float32)
    want = x + (np.arange(6) * W).reshape(2, 3)

    async def run(fuse: bool) -> tuple[np.ndarray, int]:
        device = SimulatedDevice()
        async with await webpte.load(
            write_pte(positions()), device=device, options=webpte.Options(fuse=fuse)
        ) as program:
            (got,) = await program.forward(x)
            return got, program.stats.dispatches

    (folded, few), (plain, many) = wait(run(True)), wait(run(False))
    np.testing.assert_array_equal(folded, want)
    np.testing.assert_array_equal(plain, want)
    assert (few, many) == (1, 3)


def test_views_of_weights_stay() -> None:
    g = GraphWriter()
    x, w = g.tensor((2, 3)), g.tensor((6,), constant=W)
    viewed = g.op(VIEW, w, g.int_list([2, 3]), g.tensor((2, 3)))
    g.inputs(x)
    g.outputs(g.op(ADD, x, viewed, g.int(1), g.tensor((2, 3))))
    assert names(build_graph(g)) == [VIEW, ADD]


def test_what_a_run_decides_stays() -> None:
    """Outputs, what SymInts decide, and state that calls write to."""
    g = GraphWriter()
    w = g.tensor((6,), constant=W)
    doubled = g.op(ADD, w, w, g.int(1), g.tensor((6,)))
    g.inputs(g.tensor((1,)))
    g.outputs(doubled)
    assert names(build_graph(g)) == [ADD]
    g = GraphWriter()
    place, table = g.symint(), g.tensor((6,), constant=W)
    ends = (g.int(0), g.int(0), place, g.int(1))
    part = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor((6,)))
    g.inputs(place)
    g.outputs(g.op(ADD, part, part, g.int(1), g.tensor((6,))))
    assert len(names(build_graph(g))) == 2
    g = GraphWriter()
    shape = (1, 4, 1, 2)
    x, place = g.tensor((1, 1, 1, 2)), g.symint()
    cache = g.prepack(g.tensor(shape, constant=np.zeros(shape, np.float32)))
    before = g.op(ADD, cache, cache, g.int(1), g.tensor(shape))
    g.op("llama.update_cache.default", x, cache, place, g.tensor((1,)))
    g.inputs(x, place)
    g.outputs(g.op(MUL, before, before, g.tensor(shape)))
    assert names(build_graph(g)).count(ADD) == 1


def test_large_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_graph, "MOST_GIVEN", 20)
    assert MUL in names(build_graph(positions()))
    monkeypatch.undo()
    monkeypatch.setattr(fold_graph, "MOST_TAKEN", 20)
    assert MUL in names(build_graph(positions()))
