"""Texts that go on, and answers of chats, equal transformers' pipeline."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.harness.task_cases import models_folder
from support.llm.text_generation_cases import CASES, EXPECTED, QUESTION, TALK, said
from webpte.errors import (
    ChatTemplateError,
    InputError,
    OutOfMemoryError,
    SourceError,
    UnsupportedError,
    VocabularyError,
)
from webpte.llm import Scheduler
from webpte.tasks.text_generation import TextGeneration

FOLDER = models_folder()
ROWS = json.loads(EXPECTED.read_text(encoding="utf-8"))


async def opened(source: str | Path = FOLDER / "replies") -> TextGeneration:
    task = await webpte.tasks.open("text-generation", source, device="numpy")
    assert isinstance(task, TextGeneration)
    return task


@pytest.mark.parametrize("model", ["replies", "sequels"])
def test_texts_are_those_of_the_pipeline(model: str) -> None:
    async def run() -> None:
        async with await opened(FOLDER / model) as task:
            rows = [
                (given, options, wanted)
                for (name, given, options), wanted in zip(CASES, ROWS, strict=True)
                if name == model
            ]
            assert rows
            for given, options, wanted in rows:
                assert await task(given, **options) == wanted
            # Another time most of it is in the cache.
            for given, options, wanted in reversed(rows):
                assert await task(given, **options) == wanted

    asyncio.run(run())


def test_pieces_of_a_stream_are_the_answer() -> None:
    async def run() -> None:
        async with await opened() as task:
            for given in ("Once upon a time", TALK):
                (whole,) = await task(given, return_full_text=False, max_new_tokens=8)
                pieces = [piece async for piece in task.stream(given, max_new_tokens=8)]
                assert len(pieces) > 1
                assert "".join(pieces) == whole["generated_text"]
            with pytest.raises(InputError, match="one text, or one chat"):
                task.stream(["a", "b"])
            found = [one async for one in task.each(["Hello!", "The"], max_new_tokens=2)]
            assert found == await task(["Hello!", "The"], max_new_tokens=2)

    asyncio.run(run())


def test_a_chat_gives_the_same_answers() -> None:
    async def run() -> None:
        async with await opened() as task:
            chat = task.chat(TALK[0]["content"])
            answer = await chat.send(QUESTION["content"], 6)
            (found,) = await task(TALK[:2], max_new_tokens=6)
            assert found["generated_text"] == chat.messages
            parts = [said("user", [{"type": "text", "text": QUESTION["content"]}])]
            (again,) = await task([TALK[0], *parts], max_new_tokens=6, return_full_text=False)
            assert again["generated_text"] == answer

    asyncio.run(run())


def test_options_are_those_of_generating() -> None:
    async def run() -> None:
        async with await opened() as task:
            drawn = [
                await task("Once", max_new_tokens=6, temperature=1.5, seed=seed)
                for seed in (1, 1, 2)
            ]
            assert drawn[0] == drawn[1] != drawn[2]
            none = await task("Once", max_new_tokens=0)
            assert none == [{"generated_text": "Once"}]
            only = webpte.llm.OneOf.of_texts(["yes", "no"], task.tokenizer)
            (found,) = await task([QUESTION], constraint=only, return_full_text=False)
            assert found["generated_text"] in ("yes", "no")

    asyncio.run(run())


TEXTS = [*(f"{'The fox and ' * n}Once upon {n}" for n in range(9)), "A", "Who?"]
CHATS = [[said("user", text)] for text in ("Hello!", "Who is it?", "Tell me a story, please.")]
LONG = ["The fox and a dog. " * n for n in (12, 13)]  # the context ends before their answers
DRAWN = {"temperature": 1.1, "top_k": 9, "repetition_penalty": 1.3, "seed": 4}


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The prompts that a scheduler has answered."""
    prompts, submit = list[list[int]](), Scheduler.submit

    def watched(self: Scheduler, prompt: list[int], *given: Any, **options: Any) -> Any:
        prompts.append(prompt)
        return submit(self, prompt, *given, **options)

    monkeypatch.setattr(Scheduler, "submit", watched)
    return prompts


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (TEXTS, {}),
        (TEXTS, DRAWN),
        (LONG, {"max_new_tokens": 300}),
        (CHATS, {}),
        (CHATS, {"max_new_tokens": 0}),
    ],
)
def test_a_list_is_answered_at_once_as_each_of_it_alone(
    given: list[Any], options: dict[str, Any], submitted: list[list[int]]
) -> None:
    """Some end with the context, and eleven texts share eight slots."""
    asked = {"max_new_tokens": 5, **options}

    async def run() -> None:
        async with await opened() as task:
            alone = [await task(one, **asked) for one in given]
            assert not submitted
            assert await task(given, **asked) == alone
            assert len(submitted) == len(given)
            assert await task(given[0], **asked) == alone[0]

    asyncio.run(run())


def test_a_list_is_answered_one_by_one_where_steps_cannot_be_shared(
    submitted: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with await opened() as task:
            wanted = [await task(text, max_new_tokens=3) for text in TEXTS[:2]]
            for alone in ({"steps_ahead": 1}, {"speculate": "lookup"}, {"logprobs": True}):
                assert await task(TEXTS[:2], max_new_tokens=3, **alone) == wanted
            only = webpte.llm.OneOf.of_texts(["yes", "no"], task.tokenizer)
            for (found,) in await task(CHATS, constraint=only, return_full_text=False):
                assert found["generated_text"] in ("yes", "no")
            assert await task(TEXTS[:1], max_new_tokens=3) == wanted[:1]

            tried = []

            async def refuse(self: Scheduler) -> None:
                tried.append(self)
                raise errors[len(tried) - 1]

            errors = [OutOfMemoryError("8 slots"), UnsupportedError("a state of another kind")]
            monkeypatch.setattr(Scheduler, "prepare", refuse)
            for _ in range(4):  # what cannot be is tried once
                assert await task(TEXTS[:2], max_new_tokens=3) == wanted
            assert len(tried) == 2
            assert not submitted

    asyncio.run(run())


def test_a_list_that_fails_or_is_cancelled_leaves_the_task_as_it_was() -> None:
    async def run() -> None:
        async with await opened() as task:
            wanted = [await task(text, max_new_tokens=4) for text in TEXTS[:3]]
            long, said_alone = "The fox " * 300, ""
            try:
                await task(long)
            except InputError as error:
                said_alone = str(error)
            with pytest.raises(InputError) as caught:
                await task([*TEXTS[:2], long])
            assert str(caught.value) == said_alone
            with pytest.raises(InputError, match="temperature"):
                await task(TEXTS[:3], temperature=-1)
            for delay in (0, 0.005, 0.05):
                under_way = asyncio.ensure_future(task(TEXTS, max_new_tokens=90))
                await asyncio.sleep(delay)
                under_way.cancel()
                assert isinstance(
                    (await asyncio.gather(under_way, return_exceptions=True))[0],
                    asyncio.CancelledError,
                )
            both = await asyncio.gather(
                task(TEXTS[:3], max_new_tokens=4), task("A", max_new_tokens=4)
            )
            assert both[0] == wanted
            async for _ in task.stream("Once", max_new_tokens=100):
                with pytest.raises(InputError, match="that the same code reads"):
                    await task(TEXTS[:3])
                break

    asyncio.run(run())


def test_calls_that_overlap_take_turns() -> None:
    async def run() -> None:
        async with await opened() as task:
            both = await asyncio.gather(
                task("Once upon", max_new_tokens=5), task([QUESTION], max_new_tokens=5)
            )
            assert await task("Once upon", max_new_tokens=5) == both[0]
            async with aclosing(task.stream("Once", max_new_tokens=100)) as pieces:
                assert await anext(pieces)
            assert await task([QUESTION], max_new_tokens=5) == both[1]
            under_way = asyncio.ensure_future(task("Once upon", max_new_tokens=60))
            await asyncio.sleep(0.01)
            under_way.cancel()
            await asyncio.gather(under_way, return_exceptions=True)
            assert await task("Once upon", max_new_tokens=5) == both[0]

    asyncio.run(run())


def test_a_call_within_its_own_stream_is_an_error_and_after_it_is_not() -> None:
    async def run() -> None:
        async with await opened() as task:
            wanted = await task("Once upon", max_new_tokens=5)
            async for _ in task.stream("Once", max_new_tokens=100):
                with pytest.raises(InputError, match="that the same code reads"):
                    await task("Once upon", max_new_tokens=5)
                with pytest.raises(InputError, match="that the same code reads"):
                    await anext(task.stream("Once upon"))
                waits = asyncio.ensure_future(task("Once upon", max_new_tokens=5))
                await asyncio.sleep(0.01)
                assert not waits.done()
                break
            assert await task("Once upon", max_new_tokens=5) == wanted
            assert await waits == wanted

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        (3, InputError, "a text is a str, not a int"),
        (["a", 3], InputError, "a text is a str, not a int"),
        ("a " * 200, InputError, "over the 128 that"),
        ([said("user", None)], InputError, "message 0: its content is a text"),
        ([said("user", [{"type": "image", "image": 1}])], InputError, "image-text-to-text"),
        ([QUESTION, {"content": "a"}], InputError, "message 1 is not a table with role"),
        ([said("nobody", "a")], ChatTemplateError, "no such role"),
        ([QUESTION, said("assistant", "")], InputError, "cannot be continued"),
    ],
)
def test_what_is_wrong_is_said(given: Any, kind: type[Exception], told: str) -> None:
    async def run() -> None:
        async with await opened() as task:
            with pytest.raises(kind, match=told):
                await task(given)

    asyncio.run(run())


def test_files_may_have_the_name_of_the_program(tmp_path: Path) -> None:
    for file in (FOLDER / "replies").iterdir():
        target = "chat.pte" if file.suffix == ".pte" else f"chat.{file.name}"
        shutil.copy(file, tmp_path / target)

    async def run() -> None:
        async with await opened() as one, await opened(tmp_path / "chat.pte") as other:
            assert await one(TALK, max_new_tokens=6) == await other(TALK, max_new_tokens=6)

    asyncio.run(run())


def test_an_export_is_opened_by_what_was_written(tmp_path: Path) -> None:
    """`serve.py export FOLDER out/chat` writes out/chat.pte, with the tokenizer beside it."""
    shutil.copytree(FOLDER / "replies", tmp_path / "out")
    program = (tmp_path / "out" / "model.pte").rename(tmp_path / "out" / "chat.pte")
    (tmp_path / "out" / "model.manifest.json").unlink()

    async def run() -> None:
        for source in (tmp_path / "out" / "chat", str(program), tmp_path / "out"):
            async with await opened(source) as task:
                assert await task(CASES[0][1], **CASES[0][2]) == ROWS[0]
        with pytest.raises(SourceError, match=r"no .*none\.pte.*--task text-generation"):
            await opened(tmp_path / "none")
        (tmp_path / "out" / "tokenizer_config.json").unlink()
        async with await opened(program) as task:
            assert await task(CASES[0][1], **CASES[0][2]) == ROWS[0]
            with pytest.raises(ChatTemplateError, match="no chat template"):
                await task([QUESTION])
        shutil.copy(FOLDER / "sequels" / "tokenizer.json", tmp_path / "out")
        with pytest.raises(VocabularyError):
            await opened(program)
        (tmp_path / "out" / "tokenizer.json").unlink()
        with pytest.raises(SourceError, match=r"has no tokenizer\.json"):
            await opened(program)

    asyncio.run(run())
