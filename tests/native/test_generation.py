"""Answers on the native device equal NumPy's, with any number of steps ahead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import webpte
from support.devices.native import need_native
from support.harness import extent
from webpte.llm import Generator, OneOf
from webpte.llm.speculation_times import SpeculationTimes
from webpte_host.base.layout import ROOT

FOLDER = ROOT / "tests" / "data" / "llm"
PROMPT, TURN = [5, 9, 33, 7], [81, 402]

ASKED: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "seed": 3},
    {"temperature": 1.1, "min_p": 0.05, "repetition_penalty": 1.3, "seed": 4},
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


async def conversation(program: webpte.Program, steps: int, asked: dict[str, Any]) -> list[Any]:
    """Two turns, the first of which is broken off in the middle of a batch."""
    generator = Generator(program)
    answer = generator.continue_(PROMPT, 60, steps_ahead=steps, **asked)
    first = [await anext(answer) for _ in range(21)]
    second = generator.continue_(TURN, 30, steps_ahead=steps, **asked)
    return [first, [token async for token in second]]


@pytest.mark.parametrize("asked", extent.some([ASKED[2]], *ASKED), ids=str)
@pytest.mark.parametrize("name", extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def test_answers(name: str, asked: dict[str, Any]) -> None:
    async def run() -> None:
        path = FOLDER / f"{name}.pte"
        async with await webpte.load(path, device="numpy") as reference:
            wanted = await conversation(reference, 1, asked)
        async with await webpte.load(path, device="native") as program:
            for steps in extent.some([1, 16], 4):
                assert await conversation(program, steps, asked) == wanted, f"{steps} steps"

    asyncio.run(run())


@pytest.mark.parametrize("asked", extent.some([{"logprobs": True, "top": 2}], *ASKED), ids=str)
def test_guesses_change_no_token(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that mostly guesses right, and a lookup that mostly does not."""
    monkeypatch.setattr(SpeculationTimes, "loss", None)  # rounds go on, however long they take here

    async def run() -> None:
        big, small = FOLDER / "llama_tiny_fp32.pte", FOLDER / "llama_tiny_q4.pte"
        async with (
            await webpte.load(big, device="numpy") as reference,
            await webpte.load(big, device="native") as program,
            await webpte.load(small, device="native") as draft,
        ):
            wanted = await conversation(reference, 1, asked)
            for speculate in (draft, "lookup"):
                given = {**asked, "speculate": speculate}
                assert await conversation(program, 16, given) == wanted
            answer = Generator(program).generate(PROMPT, 40, speculate=draft, **asked)
            assert len([token async for token in answer]) == 40
            assert 0 < answer.stats.accepted_tokens < answer.stats.proposed_tokens

    asyncio.run(run())


def test_what_is_told_and_what_is_allowed() -> None:
    """Probabilities with steps ahead, and answers that must be one of several."""
    answers = OneOf([[5, 9, 33], [5, 9, 402], [81], [300, 2]])

    async def told(program: webpte.Program, steps: int) -> tuple[list[int], list[float]]:
        generator = Generator(program)
        answer = generator.generate(PROMPT, 21, logprobs=True, top=3, steps_ahead=steps)
        tokens = [token async for token in answer]
        numbers = [one.logprob for one in answer.logprobs]
        for one in answer.logprobs:
            tokens += [other.token for other in one.top]
            numbers += [other.logprob for other in one.top]
        for asked in ASKED:
            chosen = generator.continue_(TURN, 9, constraint=answers, **asked)
            tokens += [token async for token in chosen]
            assert chosen.is_complete
        return tokens, numbers

    async def run() -> None:
        path = FOLDER / "llama_tiny_q4.pte"
        async with await webpte.load(path, device="numpy") as reference:
            tokens, numbers = await told(reference, 1)
        async with await webpte.load(path, device="native") as program:
            for steps in (1, 16):
                found, found_numbers = await told(program, steps)
                assert found == tokens
                assert found_numbers == pytest.approx(numbers, abs=1e-4)

    asyncio.run(run())
