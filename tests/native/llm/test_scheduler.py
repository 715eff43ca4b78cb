"""Several answers at once on the native device have the tokens of each alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.devices.plain_matrices import matrix_device, plain_matrices
from support.harness import extent
from support.harness.task_cases import models_folder
from support.llm.small_decoders import program_of
from webpte.engine.gpu.native.device import NativeDevice
from webpte.llm import BatchedGeneration, Generator, Scheduler
from webpte_host.base.layout import ROOT

LLAMA = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
GREEDY: list[dict[str, Any]] = [{}]
ASKED = [
    *GREEDY,
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.3, "seed": 3},
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


Job = tuple[list[int], int, dict[str, Any]]
# A step of 20 rows, and some of two.
TWENTY_ROWS: list[Job] = [([n, 7, 9, 1, 3, 2, 8, 30, 5, 4], 3, {}) for n in (1, 2)]


def jobs(count: int, most: int, asked: list[dict[str, Any]]) -> list[Job]:
    """Make prompts of several lengths, the numbers of tokens wanted, and options."""
    random = np.random.default_rng(5)
    return [
        (
            random.integers(0, 90, int(random.integers(1, most))).tolist(),
            int(random.integers(2, 9)),
            asked[n % len(asked)],
        )
        for n in range(count)
    ]


async def check(
    program: webpte.Program,
    given: list[Job],
    slots: int,
    chunk: int = 16,
    alone: webpte.Program | None = None,
) -> None:
    """Compare answers of a scheduler with answers of the program alone, or of a reference alone."""
    generator, wanted = Generator(alone or program), []
    for prompt, length, asked in given:
        answer = generator.generate(prompt, length, **asked)
        wanted.append([token async for token in answer])

    async def taken(answer: BatchedGeneration) -> list[int]:
        return [token async for token in answer]

    async with Scheduler(program, slots=slots, chunk=chunk) as scheduler:
        answers = [scheduler.submit(p, n, **asked) for p, n, asked in given]
        assert await asyncio.gather(*map(taken, answers)) == wanted


@pytest.mark.parametrize("kv_cache", extent.some(["int8"], None, "f16"))
def test_seven_answers_in_three_slots(kv_cache: Any) -> None:
    async def run() -> None:
        async with await webpte.llm.load(LLAMA, device="native", kv_cache=kv_cache) as program:
            await check(program, jobs(7, 40, ASKED), 3)

    asyncio.run(run())


def test_with_the_kernels_of_a_gpu() -> None:
    """NumPy answers each alone: with a GPU, other numbers of rows have other kernels."""

    async def run() -> None:
        device = await NativeDevice.create()
        device.info = replace(device.info, software=False)
        async with (
            await webpte.load(LLAMA, device="numpy") as reference,
            await webpte.load(LLAMA, device=device) as program,
        ):
            await check(program, TWENTY_ROWS, 2, 32, reference)

    asyncio.run(run())


@pytest.mark.thorough  # tests/native/test_joined_matrices.py has these kernels
def test_with_subgroup_matrices() -> None:
    """Queries, keys and values of 20 rows are one GEMM."""

    async def run(device: NativeDevice) -> None:
        async with await webpte.load(LLAMA, device=device) as program:
            await check(program, TWENTY_ROWS, 2, chunk=32)

    with plain_matrices():
        asyncio.run(run(matrix_device()))


@pytest.mark.parametrize("family", extent.some(["gemma3", "gpt2"], "phi", "cohere"))
def test_families(family: str) -> None:
    async def run() -> None:
        async with await webpte.load(program_of(family), device="native") as program:
            await check(program, jobs(2, 12, GREEDY), 2)

    asyncio.run(run())


def test_a_list_of_texts_is_answered_as_each_alone() -> None:
    async def run() -> None:
        folder = models_folder() / "replies"
        async with await webpte.tasks.open("text-generation", folder, device="native") as task:
            texts = ["Once upon a time", "The fox", "Who are you, and what do you want?"]
            for asked in ASKED:
                alone = [await task(text, max_new_tokens=8, **asked) for text in texts]
                assert await task(texts, max_new_tokens=8, **asked) == alone

    asyncio.run(run())
