"""The bench of perplexity on a GPU's kernels: integer prompts are a little worse than floats."""

from __future__ import annotations

import asyncio

import numpy as np

from bench import perplexity
from support.devices.native import need_native
from support.page.chats import Q4

CHUNK = 63


def test_integer_prompts() -> None:
    need_native()
    tokens = np.random.default_rng(0).integers(0, 512, 2 * CHUNK + 1).tolist()
    found = asyncio.run(
        perplexity.measure(
            Q4,
            tokens,
            ["int8_products"],
            window=2 * CHUNK,
            rows=CHUNK,
            device="native",
            gpu_kernels=True,
        )
    )
    row = found["int8_products"]
    assert 1e-6 < row["divergence"] < 1e-2
    assert abs(row["more_percent"]) < 3
    assert row["equal_percent"] > 90
    assert found["floats"]["divergence"] == 0
