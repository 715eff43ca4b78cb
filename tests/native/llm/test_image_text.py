"""Answers about pictures on the native device: tokens, rows on the GPU, and steps ahead."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.harness.image_text_cases import CASES, EXPECTED, made, models_folder
from support.llm import seeing_layouts
from webpte.hub.layouts import choose
from webpte.llm import Generator
from webpte.tasks.vision.image_text import ImageTextToText

ROWS = json.loads(EXPECTED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize("model", ["tiles", "patches", "grid", "windows"])
def test_answers_are_those_of_the_pipeline(model: str) -> None:
    async def run() -> None:
        folder = models_folder() / model
        task = await webpte.tasks.open("image-text-to-text", folder, device="native", strict=True)
        assert isinstance(task, ImageTextToText)
        async with task:
            for (name, given, options), expected in zip(CASES, ROWS, strict=True):
                if name == model:
                    (found,) = await task(**made(given), return_full_text=False, **options)
                    assert found["generated_text"] == expected["generated_text"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("model", "shape", "grid"),
    [("patches", (1, 3, 16, 16), None), ("grid", (6, 4, 48), (2, 3))],
)
def test_steps_run_ahead_and_survive_a_recovery(
    model: str, shape: tuple[int, ...], grid: tuple[int, int] | None
) -> None:
    async def run() -> None:
        program = await webpte.load(models_folder() / model / "model.pte", device="native")
        async with program:
            generator = Generator(program)
            pixels = np.random.default_rng(1).normal(size=shape).astype(np.float32)
            picture = generator.picture(pixels, grid)
            prompt = [2, 20, *picture.tokens, 30]

            async def answer(given: list[int], **options: Any) -> tuple[list[int], str | None]:
                found = generator.generate(given, 16, **options)
                tokens = [token async for token in found]
                return tokens, found.stats.step_by_step

            tokens, reason = await answer(prompt)
            assert reason is None  # they run ahead
            assert (await answer(prompt, steps_ahead=1))[0] == tokens
            left = generator.generate(prompt, 16)
            assert await anext(left) == tokens[0]  # others are under way
            assert (await answer([*prompt, *tokens[:3]]))[0][:8] == tokens[3:11]
            assert (await answer(prompt[:-1]))[1] == "the prompt ends with a picture"
            await program.recover()
            assert (await answer(prompt))[0] == tokens

    asyncio.run(run())


def test_passed_caches_stay_on_the_gpu(tmp_path: Path) -> None:
    for path, data in seeing_layouts.repositories()[seeing_layouts.PASSED].items():
        (tmp_path / path).write_bytes(data)
    pixels = np.random.default_rng(1).random((1, 3, 16, 16), np.float32)

    async def run() -> None:
        async with await webpte.load(await choose(tmp_path), device="native") as program:
            generator = Generator(program)
            picture = generator.picture(pixels)
            conversation, buffers = [7, 8, *picture.tokens, 9, 10, 11], list[int]()
            for _ in range(3):
                found = [token async for token in generator.generate(conversation, 4)]
                wanted = await seeing_layouts.expected_tokens(program, pixels, conversation, 4)
                assert found == wanted
                conversation += [*found, 12, 13]
                buffers.append(program.stats.buffers)
            assert buffers[1] == buffers[2]

    asyncio.run(run())
