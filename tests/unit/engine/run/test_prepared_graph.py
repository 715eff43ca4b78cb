"""Graphs of real sizes, within a phone's limits; nothing of them is read or allocated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from support.graphs.graphs import build_graph
from support.write.pte_writer import GraphWriter
from webpte.engine.files.source import Region
from webpte.engine.gpu.device_info import DeviceInfo, like_a_phone
from webpte.engine.graph.graph import Constant, Graph, Tensor, Value
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.binding_limits import check_bindable
from webpte.engine.plan.planner import Planner
from webpte.engine.run.prepared_graph import prepare_graph
from webpte.errors import SourceError

VOCABULARY, WIDTH = 128256, 2048  # of Llama 3.2 1B
PHONE = like_a_phone(DeviceInfo("webgpu"))
LIMIT = 128 << 20


@dataclass(frozen=True)
class UnreadFile:
    """A large file that must not be read."""

    size: int = 4 << 30
    name: str = "large.pte"

    async def read(self, offset: int, length: int) -> bytes:
        raise SourceError(f"{length} bytes at {offset} were read")


def enlarged(graph: Graph, sizes: dict[tuple[int, ...], tuple[int, ...]]) -> Graph:
    """Return the graph with other sizes for its tensors; constants are in a large file."""

    def change(value: Value) -> Value:
        if not isinstance(value, Tensor):
            return value
        tensor = replace(value, dims=sizes.get(value.dims, value.dims))
        if tensor.constant is None:
            return tensor
        offset = 1 << 20 if tensor.dtype.is_float else 2 << 30
        return replace(tensor, constant=Constant(Region(UnreadFile(), offset, 2 << 30), None))

    values = tuple(change(value) for value in graph.values)
    return Graph(values, graph.calls, graph.inputs, graph.outputs)


def language_model(table: str) -> Graph:
    """An embedding of floats or f16, and a head of 8 bits; small, then as large as Llama's."""
    g = GraphWriter()
    tokens = g.tensor((1, 1), "int64")
    weights = g.prepack(g.tensor((7, 16), table, constant=np.zeros((7, 16), table)))
    x = g.op("aten.embedding.default", weights, tokens, g.tensor((1, 1, 16), table))
    if table == "float16":
        x = g.op("aten._to_copy.default", x, g.null(), g.tensor((1, 1, 16)))
    head = g.prepack(g.tensor((7, 16), "int8", constant=np.zeros((7, 16), np.int8)))
    scales = g.prepack(g.tensor((7,), constant=np.zeros(7, np.float32)))
    name = "aten._weight_int8pack_mm.default"
    g.inputs(tokens)
    g.outputs(g.op(name, x, head, scales, g.tensor((1, 1, 7))))
    sizes = {
        (7, 16): (VOCABULARY, WIDTH),
        (7,): (VOCABULARY,),
        (1, 1, 16): (1, 1, WIDTH),
        (1, 1, 7): (1, 1, VOCABULARY),
    }
    return enlarged(build_graph(g), sizes)


@pytest.mark.parametrize(("table", "parts"), [("float32", 8), ("float16", 8)])
def test_a_phone_binds_the_tables_of_a_1b_model(table: str, parts: int) -> None:
    prepared = prepare_graph(language_model(table), PHONE, fused=True)
    check_bindable(prepared.graph, prepared.storage, PHONE.binding_bytes)
    sizes = [slot.nbytes for slot in prepared.storage.slots]
    assert PHONE.binding_bytes == LIMIT
    assert max(sizes) <= LIMIT
    # f16 is stored as float32 without shader-f16: a table of 1 GiB, and a head of 250 MiB.
    assert sum(sizes) >= 5 * VOCABULARY * WIDTH
    assert sum(size > LIMIT // 2 for size in sizes) == parts + 2
    planner = Planner(
        prepared.graph,
        LiveState(prepared.graph),
        prepared.ops,
        prepared.storage,
        PHONE.target,
    )
    planner.lower_all()
    names = [dispatch.kernel for dispatch in planner.dispatches()]
    assert names.count("indexing") == parts
    assert names.count("gemv_q4") + names.count("linear_q4_skinny") == 2
    assert names[-1] == "cat"
