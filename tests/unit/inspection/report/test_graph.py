"""`Program.graph`: calls, values, kernels and repeated blocks, as in the file and as they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, RELU, add_graph, ones
from support.graphs.graphs import chain, load, temporary_op, wait
from support.graphs.stitching import counting, logcumsumexp, method, neg
from support.harness.inspecting import APART
from support.write.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import MethodGraph, links, weight_stats
from webpte.inspection.report.operator_words import operator_words

LLAMA = Path(__file__).parents[3] / "data/llm/llama_tiny_q4.pte"


def graph_of(writer: Any, *inputs: Any, stage: str = "planned") -> MethodGraph:
    async def run() -> MethodGraph:
        async with await load(writer, device=SimulatedDevice(), **APART) as program:
            if inputs:
                await program.forward(*inputs)
            return program.graph(stage=stage)

    return wait(run())


def test_calls_values_and_edges() -> None:
    g = GraphWriter()
    x, w = g.tensor((2, 3)), g.tensor((2, 3), constant=np.arange(6, dtype=np.float32))
    a = g.op(ADD, x, w, g.int(2), g.tensor((2, 3)))
    b = g.op("aten.view_copy.default", a, g.int_list([6]), g.tensor((6,)))
    g.inputs(x)
    g.outputs(g.op(RELU, b, g.tensor((6,))))
    graph = graph_of(g)
    add, view, relu = graph.nodes
    assert [n.op for n in graph.nodes] == [ADD, "aten.view_copy.default", RELU]
    assert [n.where for n in graph.nodes] == ["gpu", "alias", "gpu"]
    assert {a.name: a.value for a in add.arguments} == {"self": None, "other": None, "alpha": 2}
    assert [(e.source, e.target) for e in graph.edges] == [
        *((None, 0), (None, 0), (0, 1), (1, 2), (2, None))
    ]
    kinds = {key: graph.values[key].kind for key in (*add.inputs, *view.outputs, *relu.outputs)}
    assert list(kinds.values()) == ["input", "constant", "temporary", "output"]
    assert graph.inputs == add.inputs[:1]
    assert graph.outputs == relu.outputs
    assert graph.readers(view.outputs[0]) == [relu]
    assert graph.writers(view.outputs[0]) == [view]
    (kernel,) = relu.kernels
    assert kernel.grid == (1, 1, 1)
    assert kernel.params["quads"] == 2
    assert "@compute" in kernel.wgsl
    assert not view.kernels


def test_live_and_largest_shapes() -> None:
    for rows in (8, 2):
        graph = graph_of(add_graph((8, 3), dynamic=True), ones(rows, 3), ones(rows, 3))
        value = graph.values[graph.nodes[0].outputs[0]]
        assert (value.shape, value.largest) == ((rows, 3), (8, 3))


def test_as_in_the_file_and_as_it_runs() -> None:
    """Three delegates of the file are one, and a kernel between them is offloaded or folded."""
    m = method((4,))
    constant = m.tensor((4,), data=ones(4))
    negative, offloaded = m.tensor((4,)), m.tensor((4,))
    m.kernel("aten::neg.out", constant, negative, negative)
    first = neg(m, m.input_values[0])
    m.kernel("aten::mul.out", first, negative, offloaded, offloaded)
    m.outputs(logcumsumexp(m, neg(m, offloaded)))
    file = graph_of(m, stage="file")
    assert [(n.op, n.where) for n in file.nodes] == [
        ("aten::neg.out", "folded"),
        ("aten.neg.default", "delegate"),
        ("aten::mul.out", "gpu"),
        ("aten.neg.default", "delegate"),
        ("aten::logcumsumexp.out", "host"),
    ]
    planned = graph_of(m)
    assert [(n.op, n.where, n.delegate) for n in planned.nodes] == [
        ("aten.neg.default", "gpu", 0),
        ("aten::mul.out", "gpu", 0),
        ("aten.neg.default", "gpu", 0),
        ("aten::logcumsumexp.out", "host", None),
    ]
    assert {graph.nodes[-1].why for graph in (file, planned)} == {
        "no kernel; sums in float64, which a GPU has not"
    }
    for graph in (file, planned):
        edges = [(e.source, e.target) for e in graph.edges if e.source is not None]
        last = len(graph.nodes) - 1
        assert edges[-3:] == [(last - 2, last - 1), (last - 1, last), (last, None)]


def test_state_and_what_changes_it() -> None:
    m = method((4,))
    m.outputs(counting(m, m.input_values[0]))
    graph = graph_of(m)
    (state,) = (v for v in graph.values.values() if v.kind == "state")
    assert [n.id for n in graph.writers(state.key)] == [1]
    assert [n.id for n in graph.readers(state.key)] == [0, 2]


def test_a_call_without_a_kernel_says_why() -> None:
    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("too odd")

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: args.array("self"),
    }
    with temporary_op("test.odd.default", "self: tensor -> tensor", **definition):
        (node,) = graph_of(chain(1, op="test.odd.default")).nodes
    assert (node.where, node.why) == ("host", "too odd")


def test_layers_of_a_language_model_and_its_constants() -> None:
    async def run() -> None:
        async with await webpte.load(LLAMA, device=SimulatedDevice(), **APART) as program:
            graph = program.graph()
            (layers,) = graph.layers
            assert str(layers) == "layer x2"
            firsts = [graph.nodes[start].op for start, _ in layers.ranges]
            assert firsts == ["et_vk.rms_norm.default"] * 2
            lasts = [graph.nodes[stop - 1] for _, stop in layers.ranges]
            assert [n.op for n in lasts] == [ADD] * 2
            assert [n.layer for n in lasts] == ["layer 0", "layer 1"]
            assert graph.nodes[0].layer is None
            assert all("as words" not in k.params for n in graph.nodes for k in n.kernels)
            caches = [v for v in graph.values.values() if v.kind == "state"]
            assert [v.largest for v in caches] == [(1, 128, 2, 16)] * 4
            await program.forward(np.array([[5, 9]]), np.array([0]))
            numbers = [v.number for v in program.graph().values.values() if v.kind == "number"]
            assert 2 in numbers

    wait(run())


def test_a_histogram_reads_a_constant_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([0, 1, 2, 3, 4, np.nan, np.inf, 4], np.float32)
    monkeypatch.setattr(weight_stats, "CHUNK_BYTES", 8)

    async def run() -> None:
        g = GraphWriter()
        x, w = g.tensor((8,)), g.tensor((8,), constant=values)
        g.inputs(x)
        g.outputs(g.op(ADD, x, w, g.int(1), g.tensor((8,))))
        async with await load(g) as program:
            (value,) = program.graph().constants
            assert value.constant is not None
            found = await value.constant.histogram(4)
            assert found.counts == (1, 1, 1, 3)
            assert (found.low, found.high, found.zeros) == (0, 4, 1)
            assert (found.nans, found.infinities) == (1, 1)
            assert found.mean == pytest.approx(14 / 6)
            assert found.std == pytest.approx(np.std([0, 1, 2, 3, 4, 4]))
            with pytest.raises(errors.InputError, match="at least one"):
                await value.constant.histogram(0)

    wait(run())


def test_it_can_be_stored_printed_and_shown() -> None:
    graph = graph_of(chain(40))
    stored = json.loads(graph.json())
    assert stored["nodes"][3]["kernels"][0]["grid"] == [1, 1, 1]
    assert stored["values"].keys() == set(graph.values)
    assert "aten.relu.default" in str(graph)
    assert "... and 10 more" in str(graph)
    assert graph._repr_html_().count("<tr>") == 31
    assert len(graph.find("RELU")) == 40
    assert len(graph.find("activation")) == 40


def test_operators_are_found_by_other_words_for_them() -> None:
    linear = ("aten.addmm.default", "aten._weight_int8pack_mm.default", "aten.mm.default")
    for op in (*linear, "et_vk.linear_q4gsw.default", "webpte.gated_gemm"):
        assert "linear" in operator_words(op)
    for op in ("aten.comm.default", "aten.add.Tensor", "aten.summing.default"):
        assert operator_words(op) == op.lower()
    assert "attention" in operator_words("sdpa_with_kv_cache.default")


def test_on_numpy_all_is_on_the_host() -> None:
    async def run() -> None:
        async with await load(chain(2)) as program:
            assert {n.where for n in program.graph().nodes} == {"host"}

    wait(run())


def test_wrong_questions() -> None:
    async def run() -> None:
        program = await load(chain(1), device=SimulatedDevice(), **APART)
        with pytest.raises(errors.InputError, match="there are 'planned' and 'file'"):
            program.graph(stage="raw")
        with pytest.raises(errors.InputError, match="no method 'backward'; it has: forward"):
            program.graph("backward")
        program.close()
        with pytest.raises(errors.ClosedError):
            program.graph()

    wait(run())


def test_a_delegate_that_is_called_twice_is_there_twice() -> None:
    m = MethodWriter()
    m.inputs(m.tensor((4,)))
    first = neg(m, m.input_values[0])
    second = logcumsumexp(m, first)
    m.outputs(neg(m, second))
    graph = graph_of(m)
    assert [n.delegate for n in graph.nodes] == [0, None, 1]
    assert [(e.source, e.target) for e in graph.edges] == [*((None, 0), (0, 1), (1, 2), (2, None))]


@pytest.mark.parametrize("path", [LLAMA, LLAMA.parents[3] / "web/samples/stories.pte"])
def test_calls_are_linked_to_those_of_the_file(path: Path) -> None:
    """The second file has calls outside of its delegate, which are stitched to it."""

    async def run() -> tuple[MethodGraph, MethodGraph]:
        async with await webpte.load(path, device=SimulatedDevice()) as program:
            return program.graph(), program.graph(stage="file")

    planned, file = wait(run())
    found = links(planned, file)
    assert any(len(node.parts) > 3 for node in planned.nodes)
    for node in planned.nodes:
        origins = [file.nodes[one].op for one in found[node.id]]
        assert sorted(origins) == sorted(node.parts or (node.op,))
    linked = [one for ids in found.values() for one in ids]
    assert len(linked) == len(set(linked))
    gone = {file.nodes[one].op for one in set(range(len(file.nodes))) - set(linked)}
    assert gone <= {"aten.view_copy.default"}
