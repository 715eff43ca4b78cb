"""A model's graph, changed so that the rows of a call belong to several sequences."""

from __future__ import annotations

import pytest

from support.graphs.draft_pairs import Shape, decoder_model
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse
from webpte.engine.rewrite.passes import merge_duplicate_calls, separate_buffer_writes
from webpte.errors import UnsupportedError
from webpte.llm.decode.batched_graph import batched_graph

SHAPE = Shape(
    layers=2,
    size=128,
    hidden=128,
    heads=4,
    kv_heads=2,
    vocabulary=64,
    context=48,
    chunk=16,
    rotary=True,
)


def kernels(rows: int, layers: int = 2) -> list[str]:
    """Return the kernels of a step of so many rows."""
    graph = read_graph(decoder_model(SHAPE.with_layers(layers)))
    batched = batched_graph(graph, 32, rows, min(rows, 32)).graph
    fused = fuse(merge_duplicate_calls(separate_buffer_writes(batched)))
    planner, _ = make_planner(fused, Target(storage_buffers=10, shared_bytes=32768))
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize(("rows", "layer"), [(1, 6), (2, 6), (8, 6), (16, 6), (17, 8), (32, 8)])
def test_dispatches_of_a_layer(rows: int, layer: int) -> None:
    """Count as many dispatches as for a single sequence; with many rows, two more for norms."""
    assert len(kernels(rows, 2)) - len(kernels(rows, 1)) == layer


def test_caches_have_a_slot_for_each_sequence() -> None:
    graph = read_graph(decoder_model(SHAPE))
    batched = batched_graph(graph, slots=5, rows=40, picks=5, context=32)
    dims = {batched.graph.tensor(i).dims for i in batched.caches}
    assert dims == {(5, 32, 2, 32)}
    assert batched.graph.tensor(batched.history).dims == (5, 33, 1, 1)
    tokens, places, picks = (batched.graph.tensor(i).dims for i in batched.graph.inputs)
    # A step may have more rows than a call of the file has tokens.
    assert (tokens, places, picks) == ((1, 40), (40, 4), (5,))
    (logits,) = batched.graph.outputs
    assert batched.graph.tensor(logits).dims == (5, 64)


def test_a_table_must_have_all_positions() -> None:
    graph = read_graph(decoder_model(SHAPE))
    longer = batched_graph(graph, 2, 4, 2)
    assert longer.positions == 48
    with pytest.raises(UnsupportedError, match="takes tokens and a position alone"):
        batched_graph(longer.graph, 2, 4, 2)
