"""Answers in Firefox: several decode steps in one submission, compared with the references."""

from __future__ import annotations

import pytest

from support.harness import limits
from support.page.page import python
from webpte_host.harness.browser import Harness

SAMPLED = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 3}

CODE = """
import js
from webpte import llm
from webpte.engine.call.options import DeveloperOptions
from webpte.llm import decode_loop as decode

decode.BATCH_SECONDS = 1e6  # batches are as long here as they are on a fast GPU
data = (await (await js.fetch(url)).arrayBuffer()).to_bytes()
prompt, turn = [5, 9, 33, 7], [81, 402]

async def conversation(program, steps):
    generator = llm.Generator(program)
    answer = generator.continue_(prompt, 60, steps_ahead=steps, **asked)
    first = [await anext(answer) for _ in range(taken)]
    second = generator.continue_(turn, 8, steps_ahead=steps, **asked)
    return [first, [token async for token in second], second.stats.step_by_step]

async with await webpte.load(data, device="numpy") as reference:
    wanted = await conversation(reference, 1)
options = DeveloperOptions(plain=plain)
async with await webpte.load(data, options=options, strict=True) as program:
    return wanted, [await conversation(program, steps) for steps in (1, 16)]
"""


@pytest.mark.thorough  # test_page.py has a chat
@pytest.mark.parametrize("asked", [SAMPLED, {}], ids=str)
@pytest.mark.parametrize(
    ("name", "plain"),
    [("llama_tiny_q4", False), ("llama_tiny_q4", True), ("llama_tiny_fp32", False)],
)
def test_steps_ahead_say_the_same(
    harness: Harness, name: str, plain: bool, asked: dict[str, float]
) -> None:
    given = {"url": f"/data/llm/{name}.pte", "plain": plain, "asked": asked, "taken": 9}
    wanted, (one, ahead) = python(harness, CODE, timeout=limits.CALL_SECONDS, **given)
    assert one[:2] == wanted[:2]
    assert ahead[:2] == wanted[:2]
    assert (one[2], ahead[2]) == ("steps_ahead is 1", None)
