"""Products by subgroup matrices: the kernels as they are, with such matrices in plain WGSL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import webpte
from support.linear_q4_cases import dq8ca, int8, q4gsw, qcs4w
from support.native import need_native
from support.plain_matrices import plain_matrices, with_matrices
from support.row_cases import RowCase
from webpte.gpu.native import NativeDevice
from webpte.ops import matrix_tiles
from webpte.ops.matrix_tiles import MATRIX_TILINGS

Array = np.ndarray


@pytest.fixture(scope="module", autouse=True)
def _plain_matrices() -> Iterator[None]:
    need_native()
    with plain_matrices():
        yield


def device() -> NativeDevice:
    made = asyncio.run(NativeDevice.create())
    made.info = with_matrices(made.info)
    return made


async def run(program: bytes, inputs: Any, on: Any) -> tuple[Array, frozenset[str]]:
    async with await webpte.load(program, device=on) as loaded:
        (result,) = await loaded.forward(*inputs)
        return result, loaded.kernels


def differs(case: RowCase, tiling: int, k_parts: int) -> float:
    """By how much of the largest element."""
    cut = MATRIX_TILINGS[tiling], k_parts
    with patch.object(matrix_tiles, "choose_matrix_tiling", lambda product: cut):
        got, kernels = asyncio.run(run(case.program(), case.steps[0], device()))
    assert any(kernel.startswith("linear_q4_matrix") for kernel in kernels)
    want, _ = asyncio.run(run(case.program(), case.steps[0], "numpy"))
    return float(np.abs(got - want).max() / np.abs(want).max())


# Wide weights, aligned ones, others; each in tiles of every size, whole and in parts.
CASES = [
    (q4gsw((131, 64), 133, 32, bias=True), 0, 1),
    (q4gsw((70, 192), 70, 64), 2, 3),
    (int8((37, 64), 131), 1, 1),
    (int8((37, 36), 131), 2, 2),
    (q4gsw((35, 36), 70, 12), 0, 2),
    (q4gsw((40, 72), 70, 12, columns=71), 1, 1),
    (qcs4w((70, 10), 37, width=5), 0, 1),
    (qcs4w((70, 64), 37), 2, 1),
    (dq8ca((68, 64), 35, 32, bias=True), 2, 1),
]


@pytest.mark.parametrize(("case", "tiling", "k_parts"), CASES, ids=str)
def test_tilings(case: RowCase, tiling: int, k_parts: int) -> None:
    assert differs(case, tiling, k_parts) < 1e-6
