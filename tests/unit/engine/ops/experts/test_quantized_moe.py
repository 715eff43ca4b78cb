"""Mixtures of experts: routing, refused arguments, calls left to the host, parts of tokens."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.cases import write_arg
from support.cases.experts.quantized_moe_cases import OP, Moe
from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import lookup
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.ops.experts.moe_numpy import PackedSize, check_headers, route, unpack
from webpte.engine.plan.planner import Planner
from webpte.errors import ExecutionError, GraphError, UnsupportedError
from webpte.inspection.report.work import work_of
from webpte.llm.decode.row_axes import RowAxes, RowAxis

SMALL = Moe(3, 2, 32, 16)


def graph_of(arguments: tuple[Any, ...]) -> Graph:
    g, ids, inputs = GraphWriter(), list[int](), list[int]()
    for given in arguments:
        if isinstance(given, np.ndarray):
            inputs.append(g.tensor(given.shape, str(given.dtype)))
            ids.append(inputs[-1])
        else:
            ids.append(write_arg(g, given))
    out = g.tensor(arguments[0].shape)
    g.inputs(*inputs)
    g.outputs(g.op(OP, *ids, out))
    return build_graph(g)


def planner_of(arguments: tuple[Any, ...], target: Target = GPU) -> Planner:
    return make_planner(graph_of(arguments), target)[0]


def changed(**places: Any) -> tuple[Any, ...]:
    """Return the arguments of a small call, some of them changed."""
    names = ("x", "gate", "bias", "w13", "w2", "activated", "experts", "hidden", "dim", "group")
    given = dict(zip((*names, "bits", "score", "scale"), SMALL.arguments(x(3)), strict=True))
    return tuple((given | places).values())


def x(tokens: int) -> np.ndarray:
    return SMALL.tokens(tokens)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({"x": np.ones((3, 16), "float32")}, "for 2 of 3 experts of 32 elements"),
        ({"x": np.ones((1, 3, 32), "float32")}, "for 2 of 3 experts"),
        ({"x": np.ones((3, 32), "int32")}, "defined for floats"),
        ({"bias": np.ones(2, "float32")}, r"bias \[2\]"),
        ({"bias": np.ones(3, "float32")}, "expert_bias is for score_func='sigmoid' only"),
        ({"w2": np.ones((2, 9999), "uint8")}, "for 2 of 3 experts"),
        ({"w2": np.ones((3, 9999), "int32")}, r"9999 bytes \(int32\)"),
        ({"w13": np.ones((3, 64), "uint8")}, r"64 bytes \(uint8\); \[32, 32\] takes 1088"),
        ({"activated": 0}, "for 0 of 3"),
        ({"activated": 4}, "for 4 of 3"),
        ({"bits": 2}, "weights of 2 bits"),
        ({"group": 0}, "groups of 0"),
        ({"group": 8}, "groups of 8"),
        ({"group": 32}, "groups of 32 for 32 and 16"),
        ({"score": "top"}, "there are sigmoid and softmax"),
    ],
)
def test_refuses(places: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        planner_of(changed(**places)).lower_all()


def test_experts_of_odd_bytes_are_the_hosts() -> None:
    planner = planner_of(replace(SMALL, padding=2).arguments(x(3)))
    planner.lower_all()
    assert "experts of whole words are needed" in str(planner.calls[0].host)


@pytest.mark.parametrize(("tokens", "parts"), [(1, 1), (4, 1), (5, 2), (9, 3)])
def test_many_tokens_take_several_dispatches(tokens: int, parts: int) -> None:
    """A buffer has the middle of four tokens: two experts of 16 floats each."""
    planner = planner_of(SMALL.arguments(x(tokens)), Target(binding_bytes=4 * 2 * 16 * 4))
    planner.lower_all()
    dispatches = planner.dispatches()
    assert [d.kernel for d in dispatches[:2]] == ["moe_scores", "moe_choose"]
    assert [d.kernel for d in dispatches[2:]] == ["moe_middle", "moe_output"] * parts
    firsts = [struct.unpack_from("<8I", d.params)[7] for d in dispatches[2:]]
    assert firsts == [first for first in range(0, tokens, 4) for _ in range(2)]


def test_no_tokens_need_no_kernels() -> None:
    planner = planner_of(SMALL.arguments(x(0)))
    planner.lower_all()
    assert planner.dispatches() == ()


def test_the_first_of_equals_is_chosen_and_nan_is_behind_all() -> None:
    scores = np.array([[1, 3, 3, 2], [np.nan, -np.inf, -5, np.nan], [7, 7, 7, 7]], float)
    chosen, weights = route(scores, np.zeros(0), 2, False, 1.0)
    assert chosen.tolist() == [[1, 2], [2, 1], [0, 1]]
    np.testing.assert_allclose(weights, [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])


def test_a_bias_ranks_and_does_not_weigh() -> None:
    scores, bias = np.array([[0.0, 1.0, 2.0]]), np.array([5.0, 0.0, 0.5])
    chosen, weights = route(scores, bias, 2, True, 3.0)
    assert chosen.tolist() == [[0, 2]]
    sigmoids = 1 / (1 + np.exp(-scores[0, [0, 2]]))
    np.testing.assert_allclose(weights[0], 3 * sigmoids / sigmoids.sum())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("signed", [False, True])
def test_numbers_are_unpacked(bits: int, signed: bool) -> None:
    moe = Moe(2, 1, 64, 32, group=32, bits=bits, signed=signed)
    numbers, scales = moe.matrices(0)
    found = unpack(moe.packed(0)[1], PackedSize(64, 64, 32, bits))
    np.testing.assert_array_equal(found, numbers[1] * np.repeat(scales[1].astype(float), 32, 1))


@pytest.mark.parametrize("header", [(6712, 2), (0, 1), (-1, -1)])
def test_another_layout_is_an_error(header: tuple[int, int]) -> None:
    packed = SMALL.packed(0)
    check_headers(packed)
    wrong = packed.copy()
    wrong[2, :8] = np.frombuffer(struct.pack("<2i", *header), np.uint8)
    with pytest.raises(ExecutionError, match=f"packed as {header[0]}, {header[1]}"):
        check_headers(wrong)


def test_its_work_is_that_of_the_chosen_experts() -> None:
    arguments, op = SMALL.arguments(x(5)), lookup(OP)
    graph = graph_of(arguments)
    assert op is not None
    work = work_of(op, op.bind(graph.calls[0], graph, LiveState(graph)))
    gate, halves = 5 * 32 * 3, 5 * 2 * (32 * 32 + 32 * 16)
    assert work.flops == 2 * (gate + halves)
    small, packed = sum(a.nbytes for a in arguments[:3]), sum(a.nbytes for a in arguments[3:5])
    assert (work.read, work.written) == (small + packed * 2 // 3, 5 * 32 * 4)


@pytest.mark.parametrize("dim", [0, 1])
def test_tokens_of_several_sequences_can_share_a_call(dim: int) -> None:
    graph, op = graph_of(SMALL.arguments(x(5))), lookup(OP)
    assert op is not None
    axes = RowAxes(graph)
    axes.of[graph.inputs[0]] = RowAxis(dim)
    if dim:
        with pytest.raises(UnsupportedError, match="sums over the rows"):
            axes.follow(graph.calls[0], op)
    else:
        axes.follow(graph.calls[0], op)
        assert axes.of[graph.outputs[0]] == RowAxis(0)
