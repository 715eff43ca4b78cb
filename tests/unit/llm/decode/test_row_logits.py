"""Graphs that give the logits of every token of a call, in place of the last one's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import build_graph, wait
from support.graphs.small_llm import small_llm
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import Graph
from webpte.engine.load.program_file import read_contents
from webpte.engine.open.open_source import open_source
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import RunRequest
from webpte.llm.decode.row_logits import row_logits

CHUNK, SIZE, VOCABULARY = 6, 8, 11
RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(VOCABULARY, SIZE)).astype(np.float32)
WEIGHT = RNG.normal(size=(VOCABULARY, SIZE)).astype(np.float32)
TOKENS = np.array([[3, 1, 7, 10]])

Head = Callable[[GraphWriter, int], int]


def model(head: Head) -> Graph:
    """Build an embedding and a head, without attention."""
    g = GraphWriter()
    tokens, position = g.tensor((1, CHUNK), "int64"), g.tensor((1,), "int64")
    table = g.prepack(g.tensor(TABLE.shape, constant=TABLE))
    hidden = g.op("aten.embedding.default", table, tokens, g.tensor((1, CHUNK, SIZE)))
    g.inputs(tokens, position)
    g.outputs(head(g, hidden))
    return build_graph(g)


def linear(g: GraphWriter, rows: int, dims: tuple[int, ...]) -> int:
    weight = g.prepack(g.tensor(WEIGHT.shape, constant=WEIGHT))
    return g.op("aten.linear.default", rows, weight, g.null(), g.tensor((*dims, VOCABULARY)))


def select(g: GraphWriter, value: int, size: int, row: int = -1) -> int:
    return g.op("aten.select_copy.int", value, g.int(1), g.int(row), g.tensor((1, size)))


def last(g: GraphWriter, value: int) -> int:
    ends = (g.int(1), g.int(-1), g.int(2**63 - 1), g.int(1))
    return g.op("aten.slice_copy.Tensor", value, *ends, g.tensor((1, 1, SIZE)))


def selected(g: GraphWriter, hidden: int) -> int:
    return linear(g, select(g, hidden, SIZE), (1,))


def sliced(g: GraphWriter, hidden: int) -> int:
    """Build a head as in transformers: a slice, a linear layer, a soft cap, and a pick."""
    logits = linear(g, last(g, hidden), (1, 1))
    factor = g.prepack(g.tensor((1,), constant=np.array([0.5], np.float32)))
    half = g.op("aten.mul.Tensor", logits, factor, g.tensor((1, 1, VOCABULARY)))
    capped = g.op("aten.tanh.default", half, g.tensor((1, 1, VOCABULARY)))
    return select(g, capped, VOCABULARY)


def viewed(g: GraphWriter, hidden: int) -> int:
    flat = g.op("aten.view_copy.default", last(g, hidden), g.int_list([1, SIZE]), _one(g, SIZE))
    shape = g.int_list([1, 1, VOCABULARY])
    return g.op(
        "aten.view_copy.default", linear(g, flat, (1,)), shape, g.tensor((1, 1, VOCABULARY))
    )


def _one(g: GraphWriter, size: int) -> int:
    return g.tensor((1, size))


async def logits_of(graph: Graph, tokens: np.ndarray) -> np.ndarray:
    delegate = await NumpyDelegate.create(graph)
    (logits,) = await delegate.run(RunRequest([tokens, np.array([0])]))
    return np.asarray(logits)


@pytest.mark.parametrize("head", [selected, sliced, viewed])
def test_each_row_is_that_of_a_call_that_ends_there(head: Head) -> None:
    graph = model(head)

    async def run() -> None:
        rows = row_logits(graph, 4)
        assert isinstance(rows, Graph)
        assert rows.tensor(rows.inputs[0]).dims == (1, 4)
        found = (await logits_of(rows, TOKENS)).reshape(-1, VOCABULARY)
        assert found.shape == (4, VOCABULARY)
        for count in range(1, 5):
            wanted = await logits_of(graph, TOKENS[:, :count])
            np.testing.assert_allclose(found[count - 1], wanted.reshape(-1), rtol=1e-6)

    wait(run())


def over_all_rows(g: GraphWriter, hidden: int) -> int:
    row = select(g, hidden, SIZE)
    mean = g.op("aten.mean.dim", row, g.int_list([0]), g.bool_(True), g.tensor((1, SIZE)))
    return linear(g, mean, (1,))


def another_row(g: GraphWriter, hidden: int) -> int:
    return linear(g, select(g, hidden, SIZE, 0), (1,))


def with_a_sum(g: GraphWriter, hidden: int) -> int:
    total = g.op(
        "aten.sum.dim_IntList", hidden, g.int_list([1]), g.bool_(False), g.tensor((1, SIZE))
    )
    row = select(g, hidden, SIZE)
    both = g.op("aten.add.Tensor", row, total, g.int(1), g.tensor((1, SIZE)))
    return linear(g, both, (1,))


@pytest.mark.parametrize("head", [over_all_rows, another_row, with_a_sum])
def test_heads_that_may_mix_rows_are_refused(head: Head) -> None:
    reason = row_logits(model(head), 4)
    assert isinstance(reason, str)
    assert "not known to compute" in reason


def test_more_rows_than_a_call_takes() -> None:
    assert row_logits(model(selected), CHUNK + 1) == "a call takes 6 tokens, not 7"


async def graph_of(file: Any) -> Graph:
    contents = await read_contents(await open_source(file), [])
    (graph,) = [graph for graph in contents.methods["forward"].graphs if graph is not None]
    return graph


@pytest.mark.parametrize("name", ["llama_tiny_fp32", "llama_tiny_q4"])
def test_exported_programs(root: Path, name: str) -> None:
    graph = asyncio.run(graph_of(root / "tests/data/llm" / f"{name}.pte"))
    rows = row_logits(graph, 8)
    assert isinstance(rows, Graph)
    assert rows.tensor(rows.outputs[0]).dims == (8, 512)


def test_a_program_that_gives_all_logits_becomes_shorter() -> None:
    rows = row_logits(asyncio.run(graph_of(small_llm())), 3)
    assert isinstance(rows, Graph)
    assert rows.tensor(rows.outputs[0]).dims == (1, 3, 12)
