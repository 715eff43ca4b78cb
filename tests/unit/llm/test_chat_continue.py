"""Continued answers: the same text as if it had been requested at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import webpte
from support.harness import extent
from support.page.chats import Q4, open_chat, open_tokenizer, pieces_of
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
    await webpte.llm.Generator(chat._generator.program).prefill([1, 2, 3])


@pytest.mark.parametrize("between", extent.some([recover, use_by_others], nothing))
def test_parts_are_the_whole(between: Callable[[Chat], Awaitable[None]]) -> None:
    async def script() -> None:
        chat, other = await open_chat(), await open_chat()
        whole = await other.send(QUESTION, WANTED, **CHANCE)
        first = chat.send(QUESTION, 5, **CHANCE)
        await first
        said = list(first.tokens)
        for count in (1, 2, WANTED - 8):  # ends within characters, too
            await between(chat)
            reply = chat.continue_(count)
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
        reply = chat.continue_(WANTED - len(first.tokens))
        assert chat.messages[-1]["content"] == first.text  # nothing new has come yet
        await reply
        assert chat.messages[-1]["content"] == reply.prefix + reply.text == whole
        assert reply.stats.reused_tokens > len(first.tokens)
        assert await chat.regenerate(WANTED) == whole

    asyncio.run(script())


def test_an_answer_that_was_written_goes_on() -> None:
    async def script() -> None:
        chat, tokenizer = await open_chat(), await open_tokenizer()
        await chat.send("Hello", 4)
        chat.edit(1, "Once upon")
        reply = chat.continue_(6)
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
        with pytest.raises(InputError, match="no answer to continue"):
            chat.continue_()
        chat.send("Hello")
        with pytest.raises(InputError, match="no answer to continue"):
            chat.continue_()

    asyncio.run(script())


def test_a_stop_text_in_two_parts_ends_the_answer() -> None:
    """A continued answer ends where it would have ended at once, wherever it was cut."""

    async def script() -> None:
        whole = (await open_chat()).send(QUESTION, WANTED, **CHANCE)
        await whole
        chat, fresh, cut = await open_chat(), await open_chat(), 0
        for start in range(1, len(whole.text) - 3, extent.count(3, 2)):
            stop = [whole.text[start : start + 3]]
            at_once = chat.send(QUESTION, WANTED, stop=stop, **CHANCE)
            wanted, first = await at_once, len(at_once.tokens) - 1
            chat.undo()
            begun = chat.send(QUESTION, first, stop=stop, **CHANCE)
            before = await begun
            if begun.ended == "length":  # a part of a character at the end may be the stop text's
                reply = chat.continue_(WANTED - first)
                await reply
                assert (reply.prefix + reply.text, reply.ended) == (wanted, "stop")
                assert chat.messages[-1]["content"] == wanted
                if len(before) > len(wanted):
                    cut += 1
                    more = await chat.send("And?", 2)
                    fresh.messages = chat.messages[:-1]
                    assert await fresh.regenerate(2) == more
                    chat.undo()
            chat.undo()
        assert cut > 1, "the stop text had begun in the first part"

    asyncio.run(script())


def test_a_stop_text_that_was_there_before_ends_nothing() -> None:
    async def script() -> None:
        chat = await open_chat()
        await chat.send("Hello", 4)
        chat.edit(1, "Once STOP upon STO")
        reply = chat.continue_(6, stop=["STOP", " STO", "far longer than that is"])
        await reply
        assert (reply.prefix, reply.ended) == ("Once STOP upon STO", "length")

    asyncio.run(script())


def test_an_answer_that_filled_the_context_goes_on_without_old_messages() -> None:
    async def script() -> None:
        chat = await open_chat(when_full="slide")
        await chat.send("one two", 10)
        reply = chat.send("hello there you, how are you?", 10_000, temperature=3.0, seed=3)
        await reply
        for seed in range(1, 99):
            if reply.ended == "full":
                break
            reply = chat.continue_(10_000, temperature=3.0, seed=seed)
            await reply
        before = chat.messages
        assert len(before) == 4
        reply = chat.continue_(5)
        assert reply.stats.dropped == 2
        added = await reply
        assert added
        assert chat.messages == [*before[:3], {**before[3], "content": reply.prefix + added}]
        assert (reply.prefix, len(reply.tokens)) == (before[3]["content"], 5)

    asyncio.run(script())


@pytest.mark.parametrize("when_full", ["error", "slide"])
def test_an_answer_that_is_too_long_by_itself_stays(when_full: str) -> None:
    async def script() -> None:
        chat = await open_chat(when_full=when_full)
        await chat.send("Hello", 4)
        chat.edit(1, "far too long for that " * 40)
        before = chat.messages
        advice = "undo" if when_full == "error" else "the last question and its answer alone"
        with pytest.raises(InputError, match=f"over the 128 that .*{advice}"):
            chat.continue_(5)
        assert chat.messages == before

    asyncio.run(script())
