"""Chats about pictures: turns, edits and the KV cache, as in chats of text."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.image_text_cases import SMALL, WIDE, made, models_folder
from support.page.chats import Q4, open_tokenizer
from webpte.errors import InputError, UnsupportedError
from webpte.llm import Chat
from webpte.llm.text import ChatTemplate
from webpte.tasks.vision.image_text import ImageTextToText

FIRST, SECOND = made(SMALL), made(WIDE)


async def opened(model: str = "patches") -> ImageTextToText:
    folder = models_folder() / model
    task = await webpte.tasks.open("image-text-to-text", folder, device="numpy")
    assert isinstance(task, ImageTextToText)
    return task


def message(role: str, text: str, *pictures: Any) -> dict[str, Any]:
    """Return a message as the task takes it."""
    parts = [{"type": "image", "image": picture} for picture in pictures]
    return {"role": role, "content": [*parts, {"type": "text", "text": text}]}


def test_a_chat_answers_as_the_task() -> None:
    async def run() -> None:
        async with await opened() as task:
            chat = task.chat()
            who = await chat.send("Who?", 4, pictures=[FIRST])
            reply = chat.send("And here?", 4, pictures=[SECOND, FIRST])
            both = await reply
            assert reply.stats.reused_tokens > 15  # the first picture and its answer
            asked = message("user", "Who?", FIRST)
            (found,) = await task([asked], max_new_tokens=4, return_full_text=False)
            assert found["generated_text"] == who
            # The task has used the cache: the chat computes its conversation again.
            again = chat.regenerate()
            assert await again == both
            assert again.stats.reused_tokens < 15
            shown = chat.messages
            assert [len(one.get("pictures", ())) for one in shown] == [1, 0, 2, 0]
            assert np.array_equal(shown[2]["pictures"][0], SECOND)

    asyncio.run(run())


def test_messages_with_other_pictures_are_other_messages() -> None:
    async def run() -> None:
        async with await opened() as task:
            chat = task.chat()
            first = await chat.send("Who?", 4, pictures=[FIRST])
            messages = chat.messages
            chat.messages = messages
            same = chat.send("And?", 3)
            answer = await same
            assert same.stats.retokenized == 0
            chat.messages = [{**messages[0], "pictures": [SECOND]}, messages[1]]
            other = chat.send("And?", 3)
            assert await other != answer
            assert other.stats.retokenized == 1  # the answer was to another picture
            chat.edit(0, "Why?")
            assert [one.get("pictures") is not None for one in chat.messages] == [True]
            chat.messages = []
            assert await chat.send("Who?", 4, pictures=[FIRST]) == first
            assert chat.undo() == "Who?"

    asyncio.run(run())


def test_what_a_chat_cannot_do_is_said() -> None:
    async def run() -> None:
        async with await opened("tiles") as task:
            chat = task.chat()
            with pytest.raises(InputError, match="float64"):
                chat.send("Who?", pictures=[np.zeros((4, 4, 3))])
            with pytest.raises(InputError, match=r"has <image> 2 times; .* 1\. Leave it out"):
                chat.send("Who is <image>?", pictures=[FIRST])
            assert chat.messages == []
            await chat.send("Who?", 1, pictures=[FIRST])
            with pytest.raises(UnsupportedError, match="cannot be saved"):
                await chat.save()
        template = await ChatTemplate.load("{% for m in messages %}{{ m.content }}{% endfor %}")
        async with await webpte.load(Q4, device="numpy") as program:
            plain = Chat(program, await open_tokenizer(), template=template)
            with pytest.raises(InputError, match="takes no pictures"):
                plain.send("Who?", pictures=[FIRST])

    asyncio.run(run())
