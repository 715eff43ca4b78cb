"""Configs of skinny kernels for the rows of many sequences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import Gemm
from webpte.engine.ops.gemm.skinny_config import batch_config

SIZES = [(2048, 2048), (2048, 8192), (8192, 2048), (128256, 2048), (24, 64), (1, 32)]


@pytest.mark.parametrize("shared", [16384, 32768, 49152])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_sums_fit_shared_memory(shared: int, n: int, k: int) -> None:
    weights: Any = SimpleNamespace(steps=k // 32)
    for rows in (17, 32):
        config = batch_config(weights, Gemm(rows, n, k), Target(shared_bytes=shared))
        assert 16 * 8 * config.threads + 256 <= shared
        assert config.threads % config.lanes == 0
        assert config.lanes >= 8
        assert config.columns == 8 * config.lanes
