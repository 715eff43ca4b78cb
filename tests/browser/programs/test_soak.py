"""Thousands of calls in one page: memory, objects and buffers stay as many as after the first."""

from __future__ import annotations

from typing import Any

import pytest

from support.devices.recorded import add_graph
from support.harness import extent, limits
from support.page.page import encode_bytes, python
from support.write.pte_writer import write_pte
from webpte_host.harness.browser import Harness

# A leak is at least one object to a call.
OBJECTS_PER_CALL = 0.25
SPARE = 10  # caches that fill once

MEASURES = """
import gc
import pyodide_js
device = await shared_device()

async def settled():
    await device.native.queue.onSubmittedWorkDone()
    await asyncio.sleep(0.05)
    for _ in range(3):
        gc.collect()
    counts = device.counts()
    return {
        "heap": pyodide_js._module.HEAPU8.length,
        "objects": len(gc.get_objects()),
        "proxies": pyodide_js._module._hiwire_num_refs(),
        "buffers": counts["buffers"],
        "plans": counts["plans"],
    }

async def soak(once, calls):
    for number in range(min(calls, 20)):
        await once(number)
    found = [await settled()]
    for part in range(2):
        for number in range(calls // 2):
            await once(part * calls + number)
        found.append(await settled())
    return found
"""

FORWARD = """
async with await webpte.load(base64.b64decode(data)) as program:
    x, y = np.full((3, 5), 2, np.float32), np.full((3, 5), 3, np.float32)
    async def once(number):
        (total,) = await program.forward(x, y)
        assert total[0, 0] == 5
    return await soak(once, calls)
"""

GENERATE = """
async with await webpte.load("/data/llm/llama_tiny_q4.pte") as program:
    async def once(number):
        options = {"temperature": 0.8, "top_k": 40, "repetition_penalty": 1.1, "seed": number}
        told = [t async for t in webpte.llm.generate(program, [5, 9, 33, 7], tokens, **options)]
        assert len(told) == tokens
    return await soak(once, calls)
"""


def check_flat(found: list[dict[str, int]], calls: int) -> None:
    """Check that nothing grows between checkpoints with half of the calls between each."""
    first, middle, last = found
    for name in ("buffers", "plans"):
        assert first[name] == middle[name] == last[name], (name, found)
    assert last["heap"] <= 2 * first["heap"], found  # it grows in steps, and never shrinks
    for name in ("objects", "proxies"):
        grown = last[name] - middle[name]
        assert grown <= OBJECTS_PER_CALL * (calls // 2) + SPARE, (name, found)


def soak(harness: Harness, code: str, calls: int, **given: Any) -> list[dict[str, int]]:
    found: list[dict[str, int]] = python(
        harness, MEASURES + code, timeout=limits.CALL_SECONDS * 6, calls=calls, **given
    )
    return found


def test_forward(harness: Harness) -> None:
    calls = extent.count(500, 10_000)
    data = encode_bytes(write_pte(add_graph((3, 5))))
    check_flat(soak(harness, FORWARD, calls, data=data), calls)


@pytest.mark.thorough
def test_generated_tokens(harness: Harness) -> None:
    calls = extent.count(20, 200)
    check_flat(soak(harness, GENERATE, calls, tokens=12), calls)
