"""The graph of a search: products of all vectors with a query, and the largest of them."""

from __future__ import annotations

from collections.abc import Sequence

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.vulkan import BoolValue, IntValue, NullValue, SymIntValue, ValueListValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.shapes import Dims

MOST_FOUND = 1024  # results per search
FIRST_BLOCK = 2  # first input with a block; the query and the number of results come before it


def search_graph(width: int, capacities: Sequence[int]) -> Graph:
    """Build the graph for blocks of vectors of a width, with a largest size for each block.

    Inputs: the query [1, width]; the number of results, an int; then the blocks, each [rows,
    width]. Outputs: scores, float32 [1, results], the largest first, and their rows, int32, counted
    through all blocks. Of equal scores the first row's comes first.
    """
    floats, words = DTYPES["float32"], DTYPES["int32"]
    values: list[Value] = []
    calls: list[Call] = []

    def add(value: Value) -> int:
        values.append(value)
        return len(values) - 1

    def tensor(dims: Dims) -> int:
        return add(Tensor(len(values), floats, dims, None, None))

    def call(name: str, *args: int) -> int:
        calls.append(Call(len(calls), name, args))
        return args[-1]

    query, count = tensor((1, width)), add(SymIntValue(1))
    blocks = [tensor((rows, width)) for rows in capacities]
    nothing = add(NullValue())
    scores = [
        call("aten.linear.default", query, block, nothing, tensor((1, rows)))
        for block, rows in zip(blocks, capacities, strict=True)
    ]
    whole = scores[0]
    if len(scores) > 1:
        parts, dim = add(ValueListValue(tuple(scores))), add(IntValue(1))
        whole = call("aten.cat.default", parts, dim, tensor((1, sum(capacities))))
    last, yes, most = add(IntValue(-1)), add(BoolValue(True)), (1, MOST_FOUND)
    best = tensor(most)
    rows = add(Tensor(len(values), words, most, None, None))
    outputs = add(ValueListValue((best, rows)))
    call("aten.topk.default", whole, count, last, yes, yes, outputs)
    return Graph(tuple(values), tuple(calls), (query, count, *blocks), (best, rows))
