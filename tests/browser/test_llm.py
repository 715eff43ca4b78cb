"""Llama exports on WebGPU: greedy decoding equals the NumPy references, token by token."""

from __future__ import annotations

import pytest

from support import limits
from support.page import python
from webpte_host.browser import Harness

CODE = """
import js
from webpte import llm

async def generated(program, prompt):
    return [token async for token in llm.generate(program, prompt, count)]

reply = await js.fetch(url)
data = (await reply.arrayBuffer()).to_bytes()
results = []
reference = await webpte.load(data, device="numpy")
async with await webpte.load(data, strict=True) as program:
    for length in lengths:
        prompt = np.random.default_rng(length).integers(0, 512, length).tolist()
        results.append([await generated(p, prompt) for p in (program, reference)])
return results
"""


@pytest.mark.parametrize("name", ["llama_tiny_fp32", "llama_tiny_q4"])
def test_forty_tokens_are_those_of_the_references(harness: Harness, name: str) -> None:
    """80 is longer than the 63 tokens that the program takes at once."""
    lengths = [1, 7, 63, 80]
    url = f"/data/llm/{name}.pte"
    results = python(harness, CODE, timeout=limits.CALL_SECONDS, url=url, lengths=lengths, count=40)
    for length, (found, expected) in zip(lengths, results, strict=True):
        assert len(found) == 40
        assert found == expected, f"prompt of {length}"
