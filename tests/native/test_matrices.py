"""GEMMs with subgroup matrices: the real kernels, with the matrices emulated in plain WGSL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import webpte
from support.cases.gemm.linear_q4_cases import (
    INVERTED_MATRIX_CASE,
    MATRIX_CASES,
    dequantized,
    q4gsw,
)
from support.cases.gemm.matmul_cases import MATRIX_CASES as MATMUL_CASES
from support.cases.gemm.matmul_cases import linear
from support.cases.row_cases import RowCase
from support.cases.tables import Row
from support.devices.native import need_native
from support.devices.plain_matrices import WHOLE, matrix_device, plain_matrices
from support.harness import extent
from webpte.engine.gpu.self_test import SUBGROUP_MATRICES, run_self_test
from webpte.engine.ops.gemm import gemm_small
from webpte.engine.ops.gemm.subgroup_matrix import tiles
from webpte.engine.ops.gemm.subgroup_matrix.tiles import MATRIX_TILE_CONFIGS
from webpte_host.base.layout import ROOT

Array = np.ndarray


@pytest.fixture(scope="module", autouse=True)
def _plain_matrices() -> Iterator[None]:
    need_native()
    with plain_matrices():
        yield


async def run(
    program: bytes, inputs: Any, on: Any, options: webpte.Options | None = None
) -> tuple[Array, frozenset[str]]:
    async with await webpte.load(program, device=on, options=options or webpte.Options()) as loaded:
        (result,) = await loaded.forward(*inputs)
        return result, loaded.kernels


def differs(case: RowCase, tiling: int, k_parts: int, shape: str = WHOLE) -> float:
    """Return the largest difference as a share of the largest element."""
    config = MATRIX_TILE_CONFIGS[tiling], k_parts
    with patch.object(tiles, "choose_matrix_tile_config", lambda *_: config):
        got, kernels = asyncio.run(run(case.program(), case.steps[0], matrix_device(shape)))
    assert any(kernel.split()[0].endswith("_matrix") for kernel in kernels)
    want, _ = asyncio.run(run(case.program(), case.steps[0], "numpy"))
    return float(np.abs(got - want).max() / np.abs(want).max())


# Every fourth runs by default: tiles of two along both, of four along columns. Tiles of four along
# rows take a driver for CPUs as long to compile, tiles of four along both half a minute.
CONFIGS = chain([(2, 2), (2, 3), (0, 1), (1, 2), (3, 1)], repeat((2, 1)))


@pytest.mark.parametrize(
    ("case", "config"), extent.share([*zip(MATRIX_CASES, CONFIGS, strict=False)], 4), ids=str
)
def test_packed_weights(case: RowCase, config: tuple[int, int]) -> None:
    assert differs(case, *config) < 1e-6


def test_rows_rounded_by_the_inverse_of_their_scale() -> None:
    assert differs(INVERTED_MATRIX_CASE, 2, 1) < 1e-6


@pytest.mark.parametrize("rows", extent.some([17], 32, 40))
def test_few_rows(rows: int) -> None:
    """Four subgroups beside each other, for the rows of decode steps of many sequences."""
    case, few = q4gsw((rows, 96), 131, 32, bias=True), len(MATRIX_TILE_CONFIGS) - 1
    assert MATRIX_TILE_CONFIGS[few].rows == 32
    assert max(differs(case, few, 1), differs(case, few, 3)) < 1e-6


# Of Apple, Intel, NVIDIA (twice), and each that no vendor is known to have.
SHAPES = extent.some(["8x16x16"], "8x8x8", "16x8x16", "16x8x8", "8x8x16", "8x16x8", "16x16x8")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", extent.some([MATRIX_CASES[1]], MATMUL_CASES[0]), ids=str)
def test_matrices_in_parts(case: RowCase, shape: str) -> None:
    assert differs(case, 2, 1, f"f16 f32 {shape}") < 1e-6


@pytest.mark.parametrize("shape", dict.fromkeys(["16x16x16", "8x8x8", *SHAPES]))
def test_the_self_test_multiplies_in_every_shape(shape: str) -> None:
    device = matrix_device(f"f16 f32 {shape}")
    verdict = asyncio.run(run_self_test(device))
    assert SUBGROUP_MATRICES in verdict.passed, verdict.faults


@pytest.mark.parametrize("case", extent.share(MATMUL_CASES, 4), ids=str)
def test_floats(case: RowCase) -> None:
    assert differs(case, 2, 2) < 1e-6


def test_floats_that_are_read_whole() -> None:
    """Rows are multiples of four; small GEMMs of this kind would use another kernel."""
    with patch.object(gemm_small, "MOST_WORK", 0):
        assert differs(linear((131, 64), 133, None), 2, 1) < 1e-6


@pytest.mark.parametrize(
    "case", extent.share([MATRIX_CASES[i] for i in (1, 3, 6)] + MATMUL_CASES[:1]), ids=str
)
def test_half_floats(case: RowCase) -> None:
    """Tensors stored as f16 are not split: one f16 per number."""
    if not matrix_device().info.has_f16:
        pytest.skip("no shader-f16")
    program = Row("linear", case).half_program()
    got, kernels = asyncio.run(run(program, case.steps[0], matrix_device()))
    want, _ = asyncio.run(run(program, case.steps[0], "numpy"))
    (matrix,) = (kernel for kernel in kernels if kernel.split()[0].endswith("_matrix"))
    assert matrix.split()[1:3] == ["2" if "q4" in matrix else "1", "1"]  # of weights, of x
    assert float(np.abs(got - want).max() / np.abs(want).max()) < 1e-3


@pytest.mark.parametrize(
    "case", extent.some([MATRIX_CASES[1]], MATRIX_CASES[2], MATMUL_CASES[0]), ids=str
)
def test_products_of_half_floats(case: RowCase) -> None:
    """One product for one: steps of 32 along k, and 11 bits of each number."""
    options = webpte.Options(half_products=True)
    got, _ = asyncio.run(run(case.program(), case.steps[0], matrix_device(), options))
    want, _ = asyncio.run(run(case.program(), case.steps[0], "numpy"))
    assert 1e-5 < float(np.abs(got - want).max() / np.abs(want).max()) < 1e-3


def test_rows_and_columns_of_any_size() -> None:
    """Rows that are large, small, zero or not finite do not affect their neighbours."""
    case = q4gsw((40, 64), 70, 32)
    x, packed, scales = (array.copy() for array in case.steps[0])
    x[1] *= np.float32(1e30)
    x[2] *= np.float32(1e-30)
    x[3] = 0
    x[4, 1:] = 0
    x[5, 7], x[6, 8] = np.inf, np.nan
    x[7] *= np.float32(1e6)  # more than half floats hold
    scales[:, 3] *= np.float32(1e-20)
    scales[:, 4] *= np.float32(1e20)
    scales[0, 5] *= np.float32(1e5)
    scales[1, 6] = np.inf
    inputs = (x, packed, scales)
    got, _ = asyncio.run(run(case.program(), inputs, matrix_device()))
    with np.errstate(all="ignore"):
        want, _ = asyncio.run(run(case.program(), inputs, "numpy"))
        finite = np.isfinite(want)
        assert np.isnan(got[[5, 6]]).all()
        assert np.isnan(got[:, 6]).all()
        finite[[5, 6]], finite[:, 6] = False, False
        # 1e30 * 1e20 is more than float32 holds.
        assert not finite[1, 4]
        assert np.array_equal(got[1, 4], want[1, 4])
        weights = dequantized(packed, scales, 32, 64)
        together = np.abs(x).astype(np.float64) @ np.abs(weights).T
        assert (np.abs(got - want)[finite] <= 2.0**-21 * together[finite] + 1e-37).all()
    assert (got[3, :6] == 0).all()


def test_a_prompt_of_a_model() -> None:
    """Residuals are added, and GEMMs reuse the same scratch memory one after the other."""
    path = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
    inputs = np.arange(40, dtype=np.int64)[None] * 7 % 50, np.zeros(1, np.int64)

    async def logits(on: Any) -> tuple[Array, frozenset[str]]:
        async with await webpte.load(path, device=on) as loaded:
            (result, *_) = await loaded.forward(*inputs)
            return result, loaded.kernels

    got, kernels = asyncio.run(logits(matrix_device()))
    want, _ = asyncio.run(logits("numpy"))
    assert "linear_q4_subgroup_matrix" in {kernel.split()[0] for kernel in kernels}
    assert float(np.abs(got - want).max() / np.abs(want).max()) < 1e-5
