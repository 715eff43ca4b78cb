"""Questions about pictures: the answers of transformers' pipeline, token by token."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness import extent
from support.harness.image_text_cases import (
    CASES,
    EXPECTED,
    HIGH,
    SMALL,
    WIDE,
    made,
    models_folder,
    user,
)
from webpte.engine.files.json_reader import Table
from webpte.errors import ChatTemplateError, InputError, SourceError, UnsupportedError
from webpte.tasks.vision.image_text import ImageTextToText
from webpte.tasks.vision.scaling.steps import prepare_on_host
from webpte.tasks.vision.scaling.tiles import pictures_of

FOLDER = models_folder()
ROWS = json.loads(EXPECTED.read_text(encoding="utf-8"))
PICTURE = made(SMALL)


async def opened(model: str = "patches", folder: Path = FOLDER) -> ImageTextToText:
    task = await webpte.tasks.open("image-text-to-text", folder / model, device="numpy")
    assert isinstance(task, ImageTextToText)
    return task


@pytest.mark.parametrize("model", extent.some(["tiles", "grid"], "one-tile", "patches", "windows"))
def test_answers_are_those_of_the_pipeline(model: str) -> None:
    async def run() -> None:
        async with await opened(model) as task:
            image = task.tokenizer.id_of(task._prompts.image)
            vocabulary = task._generator.vocabulary
            for (name, given, options), expected in zip(CASES, ROWS, strict=True):
                if name != model:
                    continue
                (found,) = await task(**made(given), return_full_text=False, **options)
                assert found["generated_text"] == expected["generated_text"]
                # The last token of an answer is part of the context, too.
                context = [min(token, vocabulary) for token in task._generator.context]
                plain = [image if token == vocabulary else token for token in context]
                assert plain == expected["tokens"]

    asyncio.run(run())


def test_results_have_the_forms_of_the_pipeline() -> None:
    async def run() -> None:
        async with await opened() as task:
            chat = [user(PICTURE, "Who?")]
            (found,) = await task(chat, max_new_tokens=3)
            assert found["input_text"] is not chat
            assert found["input_text"] == chat
            *before, answer = found["generated_text"]
            assert before == chat
            assert answer["role"] == "assistant"
            pieces = [piece async for piece in task.stream(chat, max_new_tokens=3)]
            assert "".join(pieces) == answer["content"]

            # A text without the model's token becomes a message with the pictures before it.
            (plain,) = await task(PICTURE, text="Who?", max_new_tokens=3)
            assert plain == {"input_text": "Who?", "generated_text": f"Who?{answer['content']}"}
            both = await task([chat, chat], max_new_tokens=3)
            assert [one[0]["generated_text"][-1] for one in both] == [answer, answer]
            asked = [PICTURE, [PICTURE]]
            both = await task(asked, text=["Who?", "Who?"], max_new_tokens=3)
            assert both == [[plain], [plain]]

            begun = {"role": "assistant", "content": [{"type": "text", "text": "It is"}]}
            (more,) = await task([*chat, begun], max_new_tokens=2)
            assert more["generated_text"][-1]["content"][0]["text"].startswith("It is")
            last = {"role": "assistant", "content": "It is"}
            (again,) = await task([*chat, last], max_new_tokens=2)
            continued = again["generated_text"][-1]["content"]
            assert continued == more["generated_text"][-1]["content"][0]["text"]

    asyncio.run(run())


def test_calls_that_overlap_take_turns() -> None:
    async def run() -> None:
        async with await opened() as task:
            one, two = [user(PICTURE, "Who?")], [user("Why?")]
            first, second = await asyncio.gather(
                task(one, max_new_tokens=3), task(two, max_new_tokens=3)
            )
            assert await task(one, max_new_tokens=3) == first
            assert await task(two, max_new_tokens=3) == second
            async with aclosing(task.stream(one, max_new_tokens=100)) as pieces:
                assert await anext(pieces)
            assert await task(one, max_new_tokens=3) == first

    asyncio.run(run())


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ((PICTURE,), {}, "give a text to the pictures"),
        ((), {"text": "<image> and <image>"}, "has <image> 2 times; .* given: 0"),
        ((PICTURE,), {"text": "<image><image>"}, "has <image> 2 times; .* given: 1"),
        ((PICTURE,), {"text": [user("Who?")]}, "parts of its messages"),
        ((PICTURE,), {"text": ["a", "b"]}, "2 texts need as many pictures"),
        (([{"role": "user", "content": []}],), {}, "message 0 has no content"),
        (([{"role": "user", "content": [{"type": "image"}]}],), {}, "a part is"),
        (([user("<image>")],), {}, "has <image> 1 times; .* given: 0"),
        (([user(PICTURE), {"role": "assistant", "content": ""}],), {}, "cannot be continued"),
        ((np.zeros((4, 4, 3)),), {"text": "Who?"}, "float64"),
        ((PICTURE,), {"text": "a" * 600}, "over the 256 that"),
    ],
)
def test_what_is_wrong_is_said(args: Any, options: Any, said: str) -> None:
    async def run() -> None:
        async with await opened() as task:
            with pytest.raises(InputError, match=said):
                await task(*args, **options)

    asyncio.run(run())


def test_one_answer_streams() -> None:
    async def run() -> None:
        async with await opened() as task:
            with pytest.raises(InputError, match="one question"):
                task.stream([[user("a")], [user("b")]])

    asyncio.run(run())


def test_files_that_do_not_fit_are_told(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "patches", tmp_path / "patches")
    folder = tmp_path / "patches"

    async def run() -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "image_token_index": None}))
        with pytest.raises(InputError, match="names no token for pictures"):
            await opened(folder=tmp_path)
        (folder / "config.json").write_text(json.dumps(config))
        tokens = folder / "tokenizer_config.json"
        kept = json.loads(tokens.read_text())
        tokens.write_text(json.dumps({**kept, "chat_template": None}))
        async with await opened(folder=tmp_path) as task:
            with pytest.raises(ChatTemplateError, match="no chat template"):
                await task([user("Who?")])
            assert await task(PICTURE, text="<image>", max_new_tokens=1)
        (folder / "preprocessor_config.json").unlink()
        with pytest.raises(SourceError, match=r"has no preprocessor_config\.json"):
            await opened(folder=tmp_path)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("picture", "grid"),
    [(WIDE, (2, 3)), (HIGH, (3, 2)), (SMALL, (3, 3)), ({"picture": [1, 90]}, (1, 3))],
)
def test_a_picture_is_cut_into_tiles(picture: Any, grid: tuple[int, int]) -> None:
    content = json.loads((FOLDER / "tiles" / "preprocessor_config.json").read_text())
    tiled = pictures_of(Table(content, "preprocessor_config.json", InputError))
    pixels = made(picture)
    seen = tiled.layout(*pixels.shape[:2])
    assert (seen.rows, seen.columns) == grid
    tiles = prepare_on_host(seen.steps, pixels)
    assert [tile.shape for tile in tiles] == [(3, 16, 16)] * (grid[0] * grid[1] + 1)
    text = tiled.text(seen, "#", 2)
    assert text.count("##") == len(tiles)
    assert f"<row_{grid[0]}_col_{grid[1]}>##\n\n<fake" in text


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"size": {"height": 4}}, UnsupportedError, "longest_edge"),
        ({"max_image_size": None}, UnsupportedError, "max_image_size is None"),
        ({"image_std": [1, 0, 1]}, InputError, "has a 0"),
        ({"image_mean": "grey"}, InputError, "3 numbers"),
    ],
)
def test_settings_of_tiles_are_checked(changes: Any, kind: type[Exception], said: str) -> None:
    content = json.loads((FOLDER / "tiles" / "preprocessor_config.json").read_text())
    with pytest.raises(kind, match=said):
        pictures_of(Table({**content, **changes}, "preprocessor_config.json", InputError))
