"""Thousands of calls on this machine's GPU: the memory of the process does not grow.

Mesa's lavapipe kept a compiled kernel per dispatch of some kernels, see gpu/native/lavapipe.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.devices.recorded import add_graph
from support.harness import extent
from support.write.pte_writer import write_pte

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

WARM_UP = 10
# Lavapipe kept twenty times as much.
BYTES_PER_TOKEN = 30_000
SPARE = 4 << 20

Once = Callable[[], Awaitable[object]]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def resident() -> int:
    """Return the bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def growth(once: Once, calls: int) -> int:
    for _ in range(WARM_UP):
        await once()
    before = resident()
    for _ in range(calls):
        await once()
    return resident() - before


@pytest.mark.parametrize(
    "asked",
    [{}, {"top_k": 40}, {"top_p": 0.9}, {"repetition_penalty": 1.2}],
    ids=["plain", "top_k", "top_p", "penalty"],
)
def test_sampled_tokens(root: Path, asked: dict[str, Any]) -> None:
    """Tokens that are drawn: 0.6 to 3 MB of each were kept."""
    answers, length = 25, 6

    async def measured() -> int:
        path = root / "web" / "samples" / "stories.pte"
        options = {"temperature": 0.8, "seed": 3, **asked}
        async with await webpte.load(path, device="native") as program:

            async def answer() -> None:
                tokens = webpte.llm.generate(program, [1, 5, 9, 3], length, **options)
                assert len([token async for token in tokens]) == length

            return await growth(answer, answers)

    assert asyncio.run(measured()) < answers * length * BYTES_PER_TOKEN + SPARE


def test_forward() -> None:
    calls = extent.count(1_000, 10_000)

    async def measured() -> int:
        x = np.ones((3, 5), np.float32)
        async with await webpte.load(write_pte(add_graph((3, 5))), device="native") as program:
            return await growth(lambda: program.forward(x, x), calls)

    assert asyncio.run(measured()) < calls * 500 + SPARE
