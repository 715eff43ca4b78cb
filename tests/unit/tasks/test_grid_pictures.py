"""Models that see a grid of patches: each step to an answer has transformers' results."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import webpte
from support.harness.image_text_cases import (
    HIGH,
    SMALL,
    STEP_PICTURES,
    STEP_SPLIT,
    STEP_TEXT,
    STEPS,
    WIDE,
    made,
    models_folder,
    user,
)
from webpte.engine.files.json_reader import Table
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError, UnsupportedError
from webpte.llm import Generator
from webpte.llm.picture_session import patch_places, rotary_positions
from webpte.tasks.vision.image_text import ImageTextToText
from webpte.tasks.vision.scaling.steps import prepare_on_host
from webpte.tasks.vision.scaling.tiles import GridPictures, pictures_of

MODELS = ["grid", "windows"]
SEEN = "<|vision_start|><|image_pad|><|vision_end|>"


def stored(name: str) -> np.ndarray:
    with np.load(STEPS) as steps:
        found: np.ndarray = steps[name]
        return found


def step(model: str, name: str) -> np.ndarray:
    return stored(f"{model}.{name}")


def pictures(model: str = "grid", **changes: Any) -> GridPictures:
    content = json.loads((models_folder() / model / "preprocessor_config.json").read_text())
    made = pictures_of(Table({**content, **changes}, "preprocessor_config.json", InputError))
    assert isinstance(made, GridPictures)
    return made


class Seen(NamedTuple):
    """A picture as a model sees it."""

    tiles: list[np.ndarray]
    grid: tuple[int, int] | None


def seen_by(prepared: GridPictures, pixels: np.ndarray) -> Seen:
    layout = prepared.layout(*pixels.shape[:2])
    return Seen(prepare_on_host(layout.steps, pixels), layout.grid)


async def opened(model: str, device: Any = "numpy") -> ImageTextToText:
    task = await webpte.tasks.open("image-text-to-text", models_folder() / model, device=device)
    assert isinstance(task, ImageTextToText)
    return task


def grids_of(tokens: np.ndarray, sides: np.ndarray) -> list[tuple[int, int, int]]:
    """Return where pictures begin in a prompt, with their rows and columns."""
    found, place = [], 0
    for _, height, width in sides // 2:
        place += int(np.argmax(tokens[place:] == 4))  # <|image_pad|>
        found.append((place, int(height), int(width)))
        place += int(height * width)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_patches_and_positions_are_those_of_the_processor(model: str) -> None:
    prepared, at = pictures(model), 0
    pixels = stored("pixels")
    for given, (_, height, width) in zip(STEP_PICTURES, step(model, "grids"), strict=True):
        seen = seen_by(prepared, made(given))
        assert seen.grid == (height // 2, width // 2)
        (patches,) = seen.tiles
        wanted = pixels[at : at + height * width]
        np.testing.assert_allclose(patches.reshape(-1, 3, 16), wanted, atol=1e-6)
        at += height * width
    assert at == len(pixels)
    tokens = step(model, "tokens")
    grids = grids_of(tokens, step(model, "grids"))
    found = rotary_positions(grids, len(tokens) + 7)
    np.testing.assert_array_equal(found[:, : len(tokens)], step(model, "positions"))
    later = found[:, len(tokens) :]
    np.testing.assert_array_equal(
        later, np.tile(found[0, len(tokens) - 1] + 1 + np.arange(7), (3, 1))
    )
    assert later[0, 0] < len(tokens)  # positions are not places in the cache


@pytest.mark.parametrize("model", MODELS)
def test_rows_and_logits_are_those_of_the_model(model: str) -> None:
    async def run() -> None:
        async with await opened(model) as task:
            program, tokens = task.program, step(model, "tokens")
            grids = grids_of(tokens, step(model, "grids"))
            (given,) = await program.run("token_embedding", tokens[None].astype(np.int64))
            at = 0
            for given_picture, (place, rows, columns) in zip(STEP_PICTURES, grids, strict=True):
                patches = seen_by(pictures(model), made(given_picture)).tiles[0]
                places = patch_places(rows, columns, 2)
                (found,) = await program.run("vision_encoder", patches, places)
                seen = step(model, "rows")[at : at + rows * columns]
                np.testing.assert_allclose(found[0], seen, atol=2e-4, rtol=2e-4)
                given[:, place : place + rows * columns] = found
                at += rows * columns
            tables = await program.run("rotary_tables", rotary_positions(grids, 256))
            ends = [(STEP_SPLIT, len(tokens)), (len(tokens),)]  # in two parts, and at once
            wanted = dict(zip(ends[0], step(model, "logits"), strict=True))
            for end in ends:
                first = 0
                for last in end:
                    part = "text_decoder", given[:, first:last], np.array([first])
                    (logits,) = await program.run(*part, *tables)
                    np.testing.assert_allclose(logits[0], wanted[last], atol=1e-3, rtol=1e-3)
                    first = last
            prompt = await task._prompts.prompt(STEP_TEXT, [made(one) for one in STEP_PICTURES])
            vocabulary = task._generator.vocabulary
            assert [4 if one >= vocabulary else one for one in prompt.tokens] == tokens.tolist()

    asyncio.run(run())


def test_a_conversation_goes_on_with_other_pictures() -> None:
    """Answers by the cache equal the answers to the same conversation as one prompt."""

    async def run() -> None:
        first, second = made(WIDE), made(SMALL)
        async with await opened("grid", SimulatedDevice()) as task, await opened("grid") as other:
            chat = task.chat()
            answers = [await chat.send("What?", 3, pictures=[first])]
            answers.append(await chat.send("And this?", 3, pictures=[second]))
            last = chat.send("Both?", 3)
            answers.append(await last)
            assert last.stats.reused_tokens > 30
            assert last.stats.step_by_step is None  # steps have the positions, too
            messages: list[Any] = []
            asked = [user(first, "What?"), user(second, "And this?"), user("Both?")]
            for question, answer in zip(asked, answers, strict=True):
                messages.append(question)
                (found,) = await other(messages, max_new_tokens=3, return_full_text=False)
                assert found["generated_text"] == answer
                messages.append({"role": "assistant", "content": answer})
            # Another conversation of the same program has its positions to itself.
            plain = [user("No picture at all?")]
            assert await task(plain, max_new_tokens=3) == await other(plain, max_new_tokens=3)
            again = task.chat()
            assert await again.send("What?", 3, pictures=[first]) == answers[0]

    asyncio.run(run())


def test_pictures_that_cannot_be_seen_are_told() -> None:
    async def run() -> None:
        async with await opened("grid") as task:
            generator = Generator(task.program)
            patches = seen_by(pictures(), made(SMALL)).tiles[0]
            with pytest.raises(InputError, match=r"give its rows and columns .* got None"):
                generator.picture(patches)
            with pytest.raises(InputError, match=r"first dim of the pixels, \[4, .*; got"):
                generator.picture(patches, (3, 2))
            with pytest.raises(InputError, match=r"5 by 5 rows: .* takes up to 24"):
                generator.picture(np.zeros((25, 4, 48), np.float32), (5, 5))
            with pytest.raises(InputError, match=r"sees pictures of .*, not float64"):
                generator.picture(patches.astype(np.float64), (2, 2))
            picture = generator.picture(patches, (2, 2))
            assert generator.picture(patches, (1, 4)).tokens != picture.tokens
            for cut in (picture.tokens[1:], picture.tokens[:3], picture.tokens[::-1]):
                with pytest.raises(InputError, match=r"is not whole \(place 1\)"):
                    await generator.prefill([3, *cut, 5])
            await generator.prefill([3, *picture.tokens[:2]])  # the rest is on its way
            await generator.prefill([*picture.tokens[2:], 5])
            with pytest.raises(UnsupportedError, match="cannot be saved"):
                await generator.save()
            with pytest.raises(InputError, match="too long"):
                await task(np.zeros((1, 201, 3), np.uint8), text="What?")
            with pytest.raises(InputError, match=r"by .* rows: .* takes up to 24"):
                await task(np.zeros((2, 300, 3), np.uint8), text="What?")
        path = models_folder() / "patches" / "model.pte"
        async with await webpte.load(path, device="numpy") as program:
            pixels = np.zeros((1, 3, 16, 16), np.float32)
            with pytest.raises(InputError, match="have no grid"):
                Generator(program).picture(pixels, (2, 2))

    asyncio.run(run())


def test_sizes_are_those_of_the_processor() -> None:
    prepared, rows = pictures(), stored("sizes").tolist()
    assert len(rows) > 100
    for height, width, *found in rows:
        assert prepared.size_of(height, width) == tuple(found), (height, width)


def test_settings_of_grids_are_checked() -> None:
    for settings in ({"size": {"longest_edge": "large"}}, {"min_pixels": 0}):
        with pytest.raises(UnsupportedError, match="a number of pixels"):
            pictures(**settings)
    with pytest.raises(InputError, match="patch_size must be from 1"):
        pictures(patch_size=0)
    with pytest.raises(InputError, match="no whole squares of 8 pixels"):
        seen_by(pictures(do_resize=False), made(HIGH))
    older = pictures(size=None, min_pixels=256, max_pixels=1536)  # as earlier files have them
    for picture in (WIDE, HIGH, SMALL):
        new, old = (seen_by(one, made(picture)) for one in (pictures(), older))
        np.testing.assert_array_equal(new.tiles[0], old.tiles[0])
