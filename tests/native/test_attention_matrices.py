"""Attention of prompts by subgroup matrices, emulated in plain WGSL, against float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_cases import MATRIX_CASES
from support.cases.attention.attention_programs import CacheCase
from support.devices.native import need_native
from support.devices.plain_matrices import matrix_device, plain_matrices
from support.graphs.graphs import wait
from support.harness.extent import some

Array = np.ndarray


@pytest.fixture(scope="module", autouse=True)
def _plain_matrices() -> Iterator[None]:
    need_native()
    with plain_matrices():
        yield


async def outputs(case: CacheCase, on: Any, **load: Any) -> tuple[list[Array], set[str]]:
    async with await webpte.load(case.program(), device=on, **load) as loaded:
        found = [(await loaded.forward(*case.inputs(i)))[0] for i in range(len(case.steps))]
        return found, {kernel.split()[0] for kernel in loaded.kernels}


def differs(got: list[Array], want: list[Array]) -> float:
    """Return the largest difference as a share of the largest element."""
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, want, strict=True))


PROMPTS = MATRIX_CASES[0]


# A driver for CPUs takes long to compile three products for one, and longer for large heads.
@pytest.mark.parametrize("case", some((), *MATRIX_CASES[:2]), ids=str)
def test_prompts(case: CacheCase) -> None:
    got, kernels = wait(outputs(case, matrix_device()))
    assert {"attention_split_f16", "attention_matrix"} <= kernels
    assert differs(got, [want for want, *_ in case.expected]) < 2e-6


@pytest.mark.parametrize("case", some([PROMPTS], MATRIX_CASES[2]), ids=str)
def test_products_of_half_floats(case: CacheCase) -> None:
    got, _ = wait(outputs(case, matrix_device(), options=webpte.Options(half_products=True)))
    assert 1e-5 < differs(got, [want for want, *_ in case.expected]) < 2e-3


@pytest.mark.parametrize("shape", some((), "8x8x8", "8x16x16", "16x8x16"))
def test_matrices_in_parts(shape: str) -> None:
    options = webpte.Options(half_products=True)
    device = matrix_device(f"f16 f32 {shape}")
    got, kernels = wait(outputs(PROMPTS, device, options=options))
    assert "attention_matrix" in kernels
    assert 1e-5 < differs(got, [want for want, *_ in PROMPTS.expected]) < 2e-3


@pytest.mark.parametrize("kind", some((), "f16", "int8"))
def test_packed_caches(kind: str) -> None:
    got, kernels = wait(outputs(PROMPTS, matrix_device(), kv_cache=kind))
    assert "attention_matrix" in kernels
    want, _ = wait(outputs(PROMPTS, "numpy", kv_cache=kind))
    assert differs(got, want) < 2e-6
