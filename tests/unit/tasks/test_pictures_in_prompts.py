"""Programs of token_embedding and text_decoder, with pictures between tokens or without."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.image_text_cases import models_folder
from support.page.chats import Q4
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ContextError, InputError, UnsupportedError
from webpte.llm import Chat, Generator, Sampling, Scheduler
from webpte.llm.decode.sampling import SamplerSettings
from webpte.llm.text import load_tokenizer
from webpte.program import Program

FOLDER = models_folder() / "patches"
BEFORE, AFTER = [2, 20, 30], [40, 50]
NEW = 6


@asynccontextmanager
async def loaded(device: Any = "numpy") -> AsyncIterator[Program]:
    async with await webpte.load(FOLDER / "model.pte", device=device) as program:
        yield program


def pixels(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(1, 3, 16, 16)).astype(np.float32)


async def by_hand(program: Program, seeds: list[int]) -> list[int]:
    """Return the likeliest tokens after a prompt, computed method by method in one piece."""

    async def embedded(tokens: list[int]) -> Any:
        (rows,) = await program.run("token_embedding", np.array([tokens]))
        return rows

    parts = [await embedded(BEFORE)]
    for seed in seeds:
        (rows,) = await program.run("vision_encoder", pixels(seed))
        parts.append(rows)
    given, place = np.concatenate([*parts, await embedded(AFTER)], axis=1), 0
    found: list[int] = []
    while len(found) < NEW:
        (logits,) = await program.run("text_decoder", given, np.array([place]))
        found.append(int(logits[0].argmax()))
        place += given.shape[1]
        given = await embedded(found[-1:])
    return found


@pytest.mark.parametrize("device", ["numpy", SimulatedDevice])
def test_rows_of_pictures_go_between_tokens(device: Any) -> None:
    async def run() -> None:
        async with loaded(device if isinstance(device, str) else device()) as program:
            one, both = await by_hand(program, [1]), await by_hand(program, [1, 2])
            none = await by_hand(program, [])
            generator = Generator(program)
            first, second = generator.picture(pixels(1)), generator.picture(pixels(2))
            assert [len(first.tokens), set(first.tokens) & set(second.tokens)] == [4, set()]

            async def answer(*middle: int) -> tuple[list[int], int]:
                found = generator.generate([*BEFORE, *middle, *AFTER], NEW)
                return [token async for token in found], found.stats.reused_tokens

            assert await answer(*first.tokens) == (one, 0)
            assert await answer(*first.tokens, *second.tokens) == (both, 7)
            assert await answer() == (none, 3)
            generator._session.max_chunk = 3  # rows of one picture in two calls
            assert await answer(*first.tokens, *second.tokens) == (both, 3)

    asyncio.run(run())


def test_the_same_pixels_are_the_same_picture() -> None:
    async def run() -> None:
        async with loaded() as program:
            generator = Generator(program)
            picture = generator.picture(pixels(1))
            assert generator.picture(pixels(1)) is picture
            async for _ in generator.generate([*BEFORE, *picture.tokens, *AFTER], NEW):
                pass
            numbers = picture.tokens
            del picture
            gc.collect()
            assert generator.picture(pixels(1)).tokens == numbers  # the context holds it
            generator.reset()
            async for _ in generator.generate(BEFORE, 1):
                pass
            gc.collect()
            with pytest.raises(InputError, match="a picture of the conversation is gone"):
                await anext(generator.generate([*BEFORE, *numbers], NEW))
            assert generator.picture(pixels(1)).tokens != numbers

    asyncio.run(run())


def test_options_of_answers_work() -> None:
    async def run() -> None:
        async with loaded() as program:
            generator = Generator(program)
            prompt = [*BEFORE, *generator.picture(pixels(1)).tokens, *AFTER]
            sampled: Any = {"temperature": 0.9, "seed": 3, "repetition_penalty": 1.3, "top": 2}
            first = generator.generate(prompt, NEW, logprobs=True, **sampled)
            tokens = [token async for token in first]
            assert len(first.logprobs) == NEW
            again = generator.generate(prompt, NEW, logprobs=True, **sampled)
            assert [token async for token in again] == tokens
            found = generator.generate(prompt, NEW, speculate="lookup")
            assert [token async for token in found] == await by_hand(program, [1])

    asyncio.run(run())


def test_a_check_of_guessed_tokens_that_cannot_be_leaves_the_cache() -> None:
    """Nothing was called: the answer goes on, step by step, from the tokens in the cache."""

    async def run() -> None:
        async with loaded() as program:
            generator = Generator(program)
            await generator.prefill(BEFORE)
            generator._session.append(AFTER[:1])
            reason = await generator._session.verify([50], SamplerSettings.of(Sampling(), None))
            assert "embeddings" in str(reason)
            found = generator.generate([*BEFORE, *AFTER], NEW)
            assert [token async for token in found] == await by_hand(program, [])
            assert found.stats.reused_tokens == len(BEFORE) + 1

    asyncio.run(run())


def test_text_alone_chats_as_other_models() -> None:
    async def run() -> None:
        config = json.loads((FOLDER / "tokenizer_config.json").read_text())
        tokenizer = await load_tokenizer(FOLDER / "tokenizer.json", config=config)
        async with loaded() as program:
            chat = Chat(program, tokenizer)  # its template takes contents in parts
            first = await chat.send("What is it?", 4)
            saved = await chat.save()
            rest = await chat.send("And?", 4)
            context = tokenizer.decode(chat._generator.context, special=True)
            asked = "<|im_start|>User: What is it?<end_of_utterance>\nAssistant:"
            assert context.startswith(asked)
            assert "User: And?<end_of_utterance>" in context
            other = Chat(program, tokenizer)
            await other.restore(saved)
            assert other.messages[-1]["content"] == first
            assert await other.send("And?", 4) == rest

    asyncio.run(run())


def test_what_cannot_be_is_said() -> None:
    async def run() -> None:
        async with loaded() as program:
            generator = Generator(program)
            with pytest.raises(InputError, match=r"sees pictures of .*\[1, 3, 16, 16\], not"):
                generator.picture(np.zeros((3, 16, 16), np.float32))
            with pytest.raises(InputError, match="is not a token"):
                generator.generate([*BEFORE, 100_000], NEW)
            picture = generator.picture(pixels(1))
            await generator.prefill([*BEFORE, *picture.tokens])
            with pytest.raises(UnsupportedError, match="pictures cannot be saved"):
                await generator.save()
            await program.run("vision_encoder", pixels(1))
            await generator.prefill(AFTER)  # the encoder keeps nothing
            await program.run("text_decoder", np.zeros((1, 1, 32), np.float32), np.array([0]))
            with pytest.raises(ContextError, match="'text_decoder' was called"):
                await generator.prefill(AFTER)
            with pytest.raises(UnsupportedError, match="takes embeddings"):
                await Scheduler(program, 2).prepare()
        async with await webpte.load(Q4, device="numpy") as program:
            with pytest.raises(InputError, match="sees no pictures"):
                Generator(program).picture(pixels(1))

    asyncio.run(run())
