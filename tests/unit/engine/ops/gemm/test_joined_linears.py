"""Linear layers of one x as one GEMM by subgroup matrices: when, and in how many dispatches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.decoders.decoder_graphs import FAMILIES, decoder_layers
from support.decoders.head_graphs import ChangedHeads, changed_attention
from support.graphs.fusion_graphs import Heads, Net, Sizes, attention, gated
from support.graphs.graphs import build_graph, make_planner
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import Target, Tunable
from webpte.engine.ops.gemm.lib.gemm import Gemm
from webpte.engine.ops.gemm.subgroup_matrix.tiles import (
    MATRIX_TILE_CONFIGS,
    SHARED_BYTES,
    choose_whole_tile_config,
)
from webpte.engine.rewrite.fusion import fuse

PLAIN = Target(storage_buffers=10, shared_bytes=SHARED_BYTES)
MATRICES = replace(PLAIN, subgroup_matrices=True)
SPLIT, SINGLE, MULTI = "linear_q4_split_f16", "linear_q4_subgroup_matrix", "linear_q4_multi_matrix"
SUM = "gemm_split_k_sum_qkv"


def lowered(graph: GraphWriter, target: Target = MATRICES) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(fuse(build_graph(graph)), target)
    planner.lower_all()
    return planner.dispatches()


def kernels(graph: GraphWriter, target: Target = MATRICES) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(graph, target)]


@pytest.mark.parametrize(
    ("family", "before", "after"),
    [
        ("llama", 23, 17),
        ("qwen2", 23, 17),  # biases of q, k and v
        ("qwen3", 25, 19),
        ("gemma", 23, 17),
        ("smollm3", 22, 16),
        ("gpt2", 22, 19),  # no gate
    ],
)
def test_dispatches_of_a_layer(family: str, before: int, after: int) -> None:
    """q, k and v take three dispatches instead of six, gate and up two instead of five.

    The longest k, of down, is in parts.
    """
    found = [
        [len(kernels(decoder_layers(FAMILIES[family], 20, n), target)) for n in (1, 2)]
        for target in (replace(MATRICES, storage_buffers=8), MATRICES)
    ]
    assert [two - one for one, two in found] == [before, after]


@pytest.mark.parametrize("kind", ["q4", "int8", "rounded"])
def test_gate_and_up(kind: str) -> None:
    found = kernels(gated(Sizes(20, 64, 12), kind)[0])
    assert found[-2:] == [SPLIT, MULTI]
    assert len(found) == (4 if kind == "rounded" else 3)


@pytest.mark.parametrize("kind", ["q4", "int8", "rounded"])
def test_queries_keys_and_values(kind: str) -> None:
    found = kernels(attention(Heads(20, 4, 2, 8), kind).g)
    start = 2 if kind == "rounded" else 1
    assert found[start : start + 3] == [SPLIT, MULTI, SUM]
    assert SINGLE not in found


def test_biases_that_are_added_after_the_layers() -> None:
    heads = Heads(20, 4, 2, 8, half=True, turned=8)
    for change in ("bias", "added bias"):
        sums = [
            d for d in lowered(changed_attention(ChangedHeads(heads, change)).g) if d.kernel == SUM
        ]
        assert len(sums) == 1
        assert None not in sums[0].bindings


def test_other_groups_go_one_by_one() -> None:
    """The layers' groups differ, or eight values do not share a scale."""
    net = Net()
    x = net.g.tensor((20, 64))

    def linear(group: int) -> int:
        codes, scales = net.constant(net.codes(12, 32)), net.constant(net.floats(64 // group, 12))
        given = (x, codes, scales, net.g.int(group), net.g.null())
        return net.g.op("et_vk.linear_q4gsw.default", *given, net.g.tensor((20, 12)))

    for groups in ((16, 32), (4, 4)):
        net = Net()
        x = net.g.tensor((20, 64))
        gate = linear(groups[0])
        silu = net.mul(gate, net.sigmoid(gate))
        net.finish((x,), net.mul(silu, linear(groups[1])))
        found = kernels(net.g)
        assert MULTI not in found
        assert found.count(SINGLE) == 2


def test_where_kernels_do_not_fit_nothing_changes() -> None:
    graphs = [gated(Sizes(20, 64, 12), "q4")[0], attention(Heads(20, 4, 2, 8)).g]
    for graph in graphs:
        assert MULTI not in kernels(graph, replace(MATRICES, storage_buffers=8))
        assert MULTI not in kernels(graph, replace(MATRICES, binding_bytes=1 << 13))
        assert MULTI not in kernels(graph, PLAIN)
        assert MULTI not in kernels(graph, replace(MATRICES, software=True))


def test_few_rows_stay_as_they_are() -> None:
    for graph in (gated(Sizes(16, 64, 12), "q4")[0], attention(Heads(3, 6, 2, 8)).g):
        assert lowered(graph) == lowered(graph, PLAIN)


def test_each_layer_fills_whole_tiles() -> None:
    """A workgroup has columns of one of the three; exponents and sums are as many."""
    split, multiply, sums = lowered(attention(Heads(20, 8, 2, 8)).g)[1:4]
    (columns,) = {np.frombuffer(d.params, np.uint32, 2)[1] for d in (split, multiply, sums)}
    tile = 32 * int(dict(multiply.types)["COLUMN_MATRICES"])
    tables = [np.frombuffer(d.params, np.uint32, 12, at) for d, at in ((split, 64), (sums, 48))]
    for table in tables:
        (n0, b0, _, _), (n1, b1, _, _), (n2, b2, _, _) = table.reshape(3, 4).tolist()
        assert (n0, n1, n2) == (64, 16, 16)
        assert (b0, b1 % tile, b2 % tile, columns % tile) == (0, 0, 0, 0)
        assert b1 - b0 >= n0
        assert b2 - b1 >= n1
        assert columns - b2 >= n2


def test_tuning_chooses_tiles_of_both() -> None:
    asked: list[Tunable] = []
    graph = gated(Sizes(20, 64, 12), "q4")[0]
    chosen = lowered(graph, replace(MATRICES, asked=asked))
    (question,) = asked
    assert question.key.startswith(f"{MULTI}_gated tiles m32 n24 k64")
    assert all(label.endswith("k/1") for label in question.labels)
    assert len(question.labels) == len(MATRIX_TILE_CONFIGS)
    other = next(label for label in question.labels if label != question.default)
    assert lowered(graph, replace(MATRICES, choices=((question.key, other),))) != chosen


def test_large_prompts_use_large_tiles() -> None:
    assert choose_whole_tile_config(Gemm(2048, 16384, 2048))[0] == MATRIX_TILE_CONFIGS[0]
