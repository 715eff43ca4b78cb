"""Sums in parts that fit into the largest binding of a GPU."""

from __future__ import annotations

import pytest

from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import Gemm, GemmKernel, tile_dispatches

GEMM = Gemm(32, 64, 8192)  # few outputs and a long sum
WHOLE = 4 * 32 * 64  # bytes of one part


def lowered(limit: int) -> tuple[list[Dispatch], list[Scratch]]:
    kernel = GemmKernel("matmul", (0, 1))
    dispatches = tile_dispatches(kernel, GEMM, 2, Target(binding_bytes=limit))
    bindings = [binding for dispatch in dispatches for binding in dispatch.bindings]
    return dispatches, [binding for binding in bindings if isinstance(binding, Scratch)]


def test_without_a_limit_the_sum_has_many_parts() -> None:
    _, (written, read) = lowered(1 << 30)
    assert written == read
    assert written.nbytes >= 16 * WHOLE


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_as_many_parts_as_fit(parts: int) -> None:
    dispatches, (written, read) = lowered(parts * WHOLE)
    assert len(dispatches) == 2
    assert written == read
    assert WHOLE < written.nbytes <= parts * WHOLE


def test_one_part_needs_no_scratch() -> None:
    dispatches, scratch = lowered(WHOLE)
    assert len(dispatches) == 1
    assert not scratch
