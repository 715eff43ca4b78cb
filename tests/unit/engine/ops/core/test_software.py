"""Kernels for software adapters: none takes minutes to compile."""

from __future__ import annotations

import struct

import pytest

from support.cases.attention.attention_cases import PLAIN
from support.cases.conv.conv_cases import conv
from support.cases.gemm.linear_q4_cases import backward, q4gsw
from support.cases.gemm.matmul_cases import bmm, linear, mm
from support.cases.row_cases import RowCase
from support.cases.software import slow_kernels
from support.cases.tables import Row, one_row_per_op
from support.graphs.graphs import read_graph
from support.harness.every import check_every
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.attention import attention_kernels
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.plan.memory_plan import plan_memory
from webpte.engine.plan.planner import Planner
from webpte.engine.rewrite.validate import resolve_ops

SOFTWARE = Target(software=True)


def test_nothing_waits_for_other_threads() -> None:
    """tests/native/test_tables.py asks it of every row."""

    def check(row: Row) -> None:
        assert slow_kernels(lowered(row.program(), SOFTWARE)) == []

    check_every(one_row_per_op(), check)


def lowered(program: bytes, target: Target) -> list[Dispatch]:
    graph = read_graph(program)
    ops, live = resolve_ops(graph), LiveState(graph)
    planner = Planner(graph, live, ops, plan_memory(graph, ops), target)
    planner.lower_all()
    return list(planner.dispatches())


@pytest.mark.parametrize(
    ("case", "on_gpu", "in_software"),
    [
        (mm(133, 131, 37), "matmul", "matmul_simple"),
        (bmm(2, 3, 9, 5), "matmul_skinny", "matmul_simple"),
        (linear((1, 64), 8, 8), "matmul_skinny", "matmul_simple"),
        (conv((1, 16, 9, 9), (32, 16, 3, 3)), "conv", "conv_simple"),
        (conv((1, 16, 8, 8), (32, 16, 1, 1)), "gemm_small", "conv_simple"),
        (conv((1, 18, 8, 8), (32, 18, 1, 1)), "conv_pointwise", "conv_simple"),
        (conv((1, 8, 61, 37), (20, 8, 3, 3)), "conv_window", "conv_simple"),
        (mm(133, 132, 36), "gemm_small", "matmul_simple"),
        (conv((1, 6, 9, 9), (6, 1, 3, 3), groups=6), "conv_direct", "conv_simple"),
        (q4gsw((131, 64), 133, 32), "linear_q4", "linear_q4_simple"),
        (q4gsw((1, 64), 133, 32), "linear_q4_skinny", "linear_q4_simple"),
        (backward((68,), 37, 72, 24, 37), "linear_q4", "linear_q4_simple"),
    ],
    ids=str,
)
def test_kernels_by_target(case: RowCase, on_gpu: str, in_software: str) -> None:
    assert lowered(case.program(), GPU)[0].kernel == on_gpu
    assert [dispatch.kernel for dispatch in lowered(case.program(), SOFTWARE)] == [in_software]


def test_blocks_cover_the_product() -> None:
    """Four columns each, and four rows where there are several."""
    (few,) = lowered(mm(1, 401, 9).program(), SOFTWARE)
    (many,) = lowered(bmm(13, 33, 34, 5).program(), SOFTWARE)
    assert (dict(few.types)["ROWS"], few.grid) == ("1", (2, 1, 1))  # 101 invocations
    assert (dict(many.types)["ROWS"], many.grid) == ("4", (17, 1, 1))  # 13 * 9 * 9
    assert struct.unpack_from("<6I", many.params) == (33, 34, 5, 13, 9, 9)


def test_logits_are_made_in_turns_that_fit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in PLAIN if "tiles" in str(case))
    whole = lowered(case.program(), SOFTWARE)
    assert [d.kernel for d in whole] == ["attention_naive_logits", "attention_naive_values"]
    first, every, width = struct.unpack_from("<3I", whole[0].params, 128)
    assert first == 0
    monkeypatch.setattr(attention_kernels, "LOGIT_BYTES", 3 * 4 * width)
    turns = lowered(case.program(), SOFTWARE)
    covered = [struct.unpack_from("<2I", d.params, 128) for d in turns[::2]]
    assert [start for start, _ in covered] == list(range(0, every, 3))
    assert sum(lines for _, lines in covered) == every
