"""More of an answer: the same as if it had been asked for at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import webpte
from support.chats import Q4, open_chat, open_tokenizer, pieces_of
from webpte.errors import InputError
from webpte.llm import Chat

WANTED = 14
CHANCE: dict[str, Any] = {"temperature": 0.9, "seed": 3}
QUESTION = "Häßlich 🙂?"


async def nothing(chat: Chat) -> None:
    pass


async def recover(chat: Chat) -> None:
    await chat._generator.program.recover()


async def use_by_others(chat: Chat) -> None:
    await webpte.llm.Generator(chat._generator.program).feed([1, 2, 3])


@pytest.mark.parametrize("between", [nothing, recover, use_by_others])
def test_parts_are_the_whole(between: Callable[[Chat], Awaitable[None]]) -> None:
    async def script() -> None:
        chat, other = await open_chat(), await open_chat()
        whole = await other.send(QUESTION, WANTED, **CHANCE)
        first = chat.send(QUESTION, 5, **CHANCE)
        await first
        said = list(first.tokens)
        for count in (1, 2, WANTED - 8):  # ends within characters, too
            await between(chat)
            reply = chat.go_on(count)
            await reply
            assert len(reply.tokens) == count
            said += reply.tokens
        assert said == other._reply.tokens  # type: ignore[union-attr]
        assert chat.messages == other.messages
        assert chat.messages[-1]["content"] == whole
        again = await chat.send("And then?", 5, **CHANCE)
        assert again == await other.send("And then?", 5, **CHANCE)

    asyncio.run(script())


def test_one_that_was_broken_off_goes_on() -> None:
    async def script() -> None:
        chat, other = await open_chat(), await open_chat()
        whole = await other.send(QUESTION, WANTED, **CHANCE)
        first = chat.send(QUESTION, WANTED, **CHANCE)
        await pieces_of(first, 4)
        reply = chat.go_on(WANTED - len(first.tokens))
        assert chat.messages[-1]["content"] == first.text  # nothing new has come yet
        await reply
        assert chat.messages[-1]["content"] == reply.follows + reply.text == whole
        assert reply.stats.reused_tokens > len(first.tokens)
        assert await chat.regenerate(WANTED) == whole

    asyncio.run(script())


def test_an_answer_that_was_written_goes_on() -> None:
    async def script() -> None:
        chat, tokenizer = await open_chat(), await open_tokenizer()
        await chat.send("Hello", 4)
        chat.edit(1, "Once upon")
        reply = chat.go_on(6)
        await reply
        program = await webpte.load(Q4, device="numpy")
        text = tokenizer.template.render(chat.messages[:1]) + "Once upon"  # type: ignore[union-attr]
        prompt = tokenizer.encode(text, special=False)
        wanted = [token async for token in webpte.llm.generate(program, prompt, 6)]
        assert reply.tokens == wanted
        assert chat.messages[-1]["content"] == "Once upon" + reply.text

    asyncio.run(script())


def test_there_must_be_an_answer() -> None:
    async def script() -> None:
        chat = await open_chat()
        with pytest.raises(InputError, match="no answer to go on with"):
            chat.go_on()
        chat.send("Hello")
        with pytest.raises(InputError, match="no answer to go on with"):
            chat.go_on()

    asyncio.run(script())
