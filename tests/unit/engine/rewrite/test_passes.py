"""Calls that compute the same again are merged, unless something writes in between."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import build_graph, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import PREPACK, Graph
from webpte.engine.rewrite.passes import (
    merge_duplicate_calls,
    rewritten_buffers,
    separate_buffer_writes,
    tie_buffer_outputs,
    view_permuted_ones,
)
from webpte.engine.rewrite.validate import check_defined
from webpte.errors import GraphError

RELU, ADD, CLONE = "aten.relu.default", "aten.add.Tensor", "aten.clone.default"


def merged(g: GraphWriter) -> Graph:
    graph = build_graph(g)
    check_defined(graph)
    result = merge_duplicate_calls(graph)
    check_defined(result)
    assert [call.index for call in result.calls] == list(range(len(result.calls)))
    assert result.inputs == graph.inputs
    assert len(result.outputs) == len(graph.outputs)
    return result


def names(graph: Graph) -> list[str]:
    return [call.name for call in graph.calls]


def test_equal_calls_become_one() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    a, b = (g.op(RELU, x, g.tensor((4,))) for _ in range(2))
    out = g.op(ADD, a, b, g.int(1), g.tensor((4,)))
    g.inputs(x)
    g.outputs(out)
    graph = merged(g)
    assert names(graph) == [RELU, ADD]
    assert graph.calls[1].args[:2] == (a, a)


def test_merging_goes_on_through_what_was_merged() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    ends = []
    for _ in range(3):
        value = x
        for name in (RELU, "aten.exp.default", "aten.neg.default"):
            value = g.op(name, value, g.tensor((4,)))
        ends.append(value)
    g.inputs(x)
    g.outputs(*ends)
    graph = merged(g)
    assert len(graph.calls) == 3
    assert graph.outputs == (ends[0],) * 3


def test_equal_scalars_are_equal_arguments() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    outs = [g.op(ADD, x, y, g.int(2), g.tensor((4,))) for _ in range(2)]
    g.inputs(x, y)
    g.outputs(*outs)
    assert len(merged(g).calls) == 1


@pytest.mark.parametrize("other", ["scalar", "dtype", "tensor", "op", "order", "absent"])
def test_different_calls_stay(other: str) -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    first = g.op(ADD, x, y, g.int(2), g.tensor((4,)))
    second = {
        "scalar": lambda: g.op(ADD, x, y, g.int(3), g.tensor((4,))),
        "dtype": lambda: g.op(ADD, x, y, g.int(2), g.tensor((4,), "float16")),
        "tensor": lambda: g.op(ADD, x, x, g.int(2), g.tensor((4,))),
        "op": lambda: g.op("aten.sub.Tensor", x, y, g.int(2), g.tensor((4,))),
        "order": lambda: g.op(ADD, y, x, g.int(2), g.tensor((4,))),
        "absent": lambda: g.op(ADD, x, y, g.tensor((4,))),
    }[other]()
    g.inputs(x, y)
    g.outputs(first, second)
    assert len(merged(g).calls) == 2


def test_members_of_lists_count() -> None:
    with temporary_op("test.cat.default", "tensors: tensors -> tensor"):
        g = GraphWriter()
        x, y = g.tensor((4,)), g.tensor((4,))
        copies = [g.op(RELU, x, g.tensor((4,))) for _ in range(2)]
        outs = [
            g.op("test.cat.default", g.value_list(list(members)), g.tensor((8,)))
            for members in ((copies[0], y), (copies[1], y), (y, copies[0]))
        ]
        g.inputs(x, y)
        g.outputs(*outs)
        graph = merged(g)
        assert names(graph) == [RELU, "test.cat.default", "test.cat.default"]
        assert graph.outputs == (outs[0], outs[0], outs[2])


def test_several_outputs_are_merged_one_by_one() -> None:
    with temporary_op("test.split.default", "self: tensor -> tensors"):
        g = GraphWriter()
        x = g.tensor((4,))
        pairs = [[g.tensor((2,)), g.tensor((2,))] for _ in range(2)]
        for pair in pairs:
            g.op("test.split.default", x, g.value_list(pair))
        g.inputs(x)
        g.outputs(pairs[1][1], pairs[1][0])
        graph = merged(g)
        assert len(graph.calls) == 1
        assert graph.outputs == (pairs[0][1], pairs[0][0])


def test_prepacks_stay() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    w = g.tensor((4,), constant=np.ones(4, np.float32))
    out = g.op(ADD, g.prepack(w), g.prepack(w), g.int(1), g.tensor((4,)))
    g.inputs(x)
    g.outputs(out)
    assert len(merged(g).calls) == 3


def test_symints_are_merged() -> None:
    g = GraphWriter()
    x = g.tensor((4,), "int64")
    a, b, total = g.symint(0), g.symint(0), g.symint(0)
    for out in (a, b):
        g.op("et_vk.select_as_symint.default", x, g.int(0), g.int(0), out)
    g.op("add", a, b, total)
    g.inputs(x)
    g.outputs(x)
    graph = merged(g)
    assert len(graph.calls) == 2
    assert graph.calls[1].args == (a, a, total)


def test_symints_that_start_alike_are_different() -> None:
    """SymInts with equal initial values are no duplicates: a position and a size may both be 0."""
    g = GraphWriter()
    x = g.tensor((12,))
    sizes = [g.symint(3), g.symint(3)]
    views = [
        g.op("aten.view_copy.default", x, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
        for n in sizes
    ]
    sums = [g.op("add", n, g.int(1), g.symint(0)) for n in sizes]
    g.inputs(x, *sizes)
    g.outputs(*views, *sums)
    assert len(merged(g).calls) == 4


@pytest.mark.parametrize("kind", ["sign", "type"])
def test_numbers_that_compare_equal_are_different(kind: str) -> None:
    """A quotient by 0.0 is not one by -0.0, and 1 added to integers is not 1.0.

    A single -0.0 does not get into a file, whose writers leave out what equals the default 0.
    """
    with temporary_op("test.scale.default", "self: tensor, by: any -> tensor"):
        g = GraphWriter()
        x = g.tensor((4,))
        first, second = {
            "sign": lambda: (g.double_list([2, 0.0]), g.double_list([2, -0.0])),
            "type": lambda: (g.double(1.0), g.int(1)),
        }[kind]()
        outs = [g.op("test.scale.default", x, by, g.tensor((4,))) for by in (first, second, first)]
        g.inputs(x)
        g.outputs(*outs)
        assert merged(g).outputs == (outs[0], outs[1], outs[0])


def write_between(g: GraphWriter, target: int, other: int) -> list[int]:
    """relu(target), then `other` is written over it, then relu(target) again."""
    first = g.op(RELU, target, g.tensor((4,)))
    g.op("aten.neg.default", other, target)
    second = g.op(RELU, target, g.tensor((4,)))
    return [first, second]


@pytest.mark.parametrize("target", ["input", "intermediate", "constant"])
def test_a_value_that_is_written_in_between(target: str) -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    value = {
        "input": lambda: x,
        "intermediate": lambda: g.op(CLONE, x, g.null(), g.tensor((4,))),
        "constant": lambda: g.tensor((4,), constant=np.ones(4, np.float32)),
    }[target]()
    g.inputs(x, y)
    g.outputs(*write_between(g, value, y))
    assert names(merged(g)).count(RELU) == 2


def test_a_value_that_is_mutated_in_between() -> None:
    with temporary_op("test.bump.default", "self: tensor -> tensor", mutates=("self",)):
        g = GraphWriter()
        x = g.tensor((4,))
        state = g.tensor((4,), constant=np.zeros(4, np.float32))
        outs = []
        for _ in range(2):
            outs.append(g.op(ADD, x, state, g.int(1), g.tensor((4,))))
            g.op("test.bump.default", state, g.tensor((4,)))
        g.inputs(x)
        g.outputs(*outs)
        assert names(merged(g)) == [ADD, "test.bump.default"] * 2


def test_a_call_whose_output_is_written_again_stays() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    shared = g.tensor((4,))
    kept = g.op(RELU, x, g.tensor((4,)))
    g.op(RELU, x, shared)
    g.op("aten.neg.default", y, shared)
    out = g.op(ADD, kept, shared, g.int(1), g.tensor((4,)))
    g.inputs(x, y)
    g.outputs(out)
    assert len(merged(g).calls) == 4


def test_what_a_call_would_write_over_its_own_input_is_copied_there() -> None:
    g = GraphWriter()
    x, out = g.tensor((4,)), g.tensor((4,))
    buffer = g.prepack(g.tensor((4,), constant=np.ones(4, np.float32)))
    g.op(ADD, buffer, x, g.int(1), buffer)
    g.op(RELU, buffer, out)
    g.inputs(x)
    g.outputs(out)
    graph = separate_buffer_writes(build_graph(g))
    check_defined(graph)
    assert names(graph)[1:] == [ADD, "aten.alias_copy.default", RELU]
    assert graph.calls[2].args == (graph.calls[1].args[-1], buffer)
    assert graph.calls[3].args == (buffer, out)


def test_buffers_that_calls_give_new_values() -> None:
    g = GraphWriter()
    x, w = g.tensor((4,)), g.tensor((4,), constant=np.ones(4, np.float32))
    direct = g.tensor((4,), constant=np.ones(4, np.float32))
    kept, rewritten = g.prepack(w), g.prepack(w)
    g.op(ADD, kept, x, g.int(1), rewritten)
    g.op(RELU, x, direct)
    out = g.op(RELU, rewritten, g.tensor((4,)))
    g.inputs(x)
    g.outputs(out)
    assert rewritten_buffers(build_graph(g)) == {rewritten, direct}


@pytest.mark.parametrize("op", ["in place", "apart", "of another"])
def test_what_is_not_written_over_what_it_reads_stays(op: str) -> None:
    """Nothing to separate: the op works in place, or it does not read the written value."""
    with temporary_op("test.bump.default", "self: tensor -> tensor", mutates=("self",)):
        g = GraphWriter()
        x = g.tensor((4,))
        buffer, other = (g.prepack(g.tensor((4,), constant=np.ones(4, np.float32))) for _ in "ab")
        written = {"in place": buffer, "apart": g.tensor((4,)), "of another": other}[op]
        g.op("test.bump.default" if op == "in place" else RELU, buffer, written)
        g.inputs(x)
        g.outputs(written)
        graph = build_graph(g)
        assert separate_buffer_writes(graph).calls == graph.calls


def test_only_a_buffer_may_be_written_by_what_reads_it() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    g.op(RELU, x, x)
    g.inputs(x)
    g.outputs(x)
    with pytest.raises(GraphError, match="writes to tensor value"):
        check_defined(separate_buffer_writes(build_graph(g)))


def two_buffers(second: tuple[int, ...]) -> Graph:
    """Exported by default: the new values of the buffers are the first outputs."""
    g = GraphWriter()
    x = g.tensor((4,))
    buffers = [
        g.prepack(g.tensor(dims, constant=np.ones(dims, np.float32), key=str(index)))
        for index, dims in enumerate(((4,), second))
    ]
    news = [g.op(RELU, b, g.tensor(d)) for b, d in zip(buffers, ((4,), second), strict=True)]
    g.inputs(x)
    g.outputs(*reversed(news), g.op(ADD, x, news[0], g.int(1), g.tensor((4,))))
    return build_graph(g)


def test_surplus_outputs_go_to_the_buffers_of_their_size() -> None:
    graph = two_buffers((5,))
    tied = tie_buffer_outputs(graph, 2)
    check_defined(tied)
    assert tied.outputs == graph.outputs[2:]
    prepacked = [call.args[1] for call in graph.calls if call.name == PREPACK]
    copies = [call.args for call in tied.calls[len(graph.calls) :]]
    assert copies == list(zip(graph.outputs[:2], reversed(prepacked), strict=True))
    assert [graph.tensor(i).dims for i in prepacked] == [(4,), (5,)]


def test_two_buffers_of_one_size_are_no_matter_for_a_guess() -> None:
    with pytest.raises(GraphError, match="alias_buffer_mutations"):
        tie_buffer_outputs(two_buffers((4,)), 2)


def surplus(buffers: int, news: int, prepack: bool = True) -> Graph:
    """Buffers and new values that are all alike."""
    g = GraphWriter()
    x = g.tensor((4,))
    for index in range(buffers):
        w = g.tensor((4,), constant=np.ones(4, np.float32), key=str(index))
        if prepack:
            g.prepack(w)
    g.inputs(x)
    g.outputs(*(g.op(RELU, x, g.tensor((4,))) for _ in range(news)))
    return build_graph(g)


@pytest.mark.parametrize(("buffers", "news", "alike"), [(2, 1, 2), (1, 2, 1), (0, 1, 0)])
def test_one_buffer_for_one_new_value_is_the_only_case_without_doubt(
    buffers: int, news: int, alike: int
) -> None:
    with pytest.raises(GraphError, match=f"but {alike} constants have its size"):
        tie_buffer_outputs(surplus(buffers, news), news)


def test_a_constant_that_is_not_prepacked_can_be_the_buffer() -> None:
    graph = surplus(1, 1, prepack=False)
    (constant,) = (tensor.id for tensor in graph.tensors() if tensor.constant is not None)
    tied = tie_buffer_outputs(graph, 1)
    assert tied.calls[-1].args == (graph.outputs[0], constant)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_prepacks_that_are_none_are_for_others_to_refuse(count: int) -> None:
    g = GraphWriter()
    x, w = g.tensor((4,)), g.tensor((4,), constant=np.ones(4, np.float32))
    g.op(PREPACK, *[w, g.tensor((5,)), g.tensor((6,))][:count])
    g.inputs(x)
    g.outputs(g.op(RELU, x, g.tensor((4,))))
    tied = tie_buffer_outputs(build_graph(g), 1)
    assert tied.calls[-1].args[-1] == w


@pytest.mark.parametrize(
    ("dims", "order", "is_view"),
    [
        ((2, 5, 1, 3), [0, 2, 1, 3], True),
        ((2, 5, 1, 3), [0, -2, 1, -1], True),
        ((1, 5, 1, 1), [3, 2, 1, 0], True),
        ((2, 5, 3), [0, 1, 2], True),
        ((2, 5, 3), [0, 2, 1], False),
        ((2, 1, 3), [2, 1, 0], False),
    ],
)
def test_permutations_of_ones_are_views(
    dims: tuple[int, ...], order: list[int], is_view: bool
) -> None:
    g = GraphWriter()
    x = g.tensor(dims)
    shape = [dims[i] for i in order]
    out = g.op("aten.permute_copy.default", x, g.int_list(order), g.tensor(shape))
    g.inputs(x)
    g.outputs(out)
    (name,) = names(view_permuted_ones(build_graph(g)))
    assert name == ("webpte.permuted_view" if is_view else "aten.permute_copy.default")
