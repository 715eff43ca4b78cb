"""Chats: the tokens of a conversation, however its answers ended."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.page.chats import Q4, conversation, open_chat, open_tokenizer, pieces_of
from support.page.conversations import failing, greedy
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import (
    ClosedError,
    ContextError,
    DeviceError,
    ExecutionError,
)
from webpte.llm import Chat, Generator
from webpte.llm import decode_loop as decode


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sizes of batches independent of the machine."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)


# Where tokens are computed is nothing to a chat: with everything, on NumPy as well.
@pytest.fixture(params=extent.some(["recording"], "numpy"))
def device(request: pytest.FixtureRequest) -> str | Device:
    return "numpy" if request.param == "numpy" else SimulatedDevice()


LETTERS = "abcdefghijklmnopqrst"[: extent.count(10, 20)]


def test_many_turns_are_one_prompt(device: str | Device) -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(device)
        exchanges: list[tuple[str, list[int]]] = []
        for letter in LETTERS:
            prompt = conversation(tokenizer, exchanges, letter)
            reply = chat.send(letter, 1)
            text = await reply
            assert reply.tokens == await greedy(Q4, prompt, 1)
            assert text == tokenizer.decode(reply.tokens)
            assert reply.stats.retokenized == reply.stats.dropped == 0
            # Only new tokens are computed: the last answer, its end, and the question.
            new = min(len(prompt), 6)
            assert reply.stats.reused_tokens >= len(prompt) - new
            exchanges.append((letter, list(reply.tokens)))
        assert len(chat.messages) == 2 * len(LETTERS)
        assert [m["content"] for m in chat.messages[::2]] == list(LETTERS)

    wait(run())


def test_answers_keep_their_tokens(device: str | Device) -> None:
    """The model generates tokens that no encoder would return for their text."""

    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(device, "Be brief.")
        exchanges: list[tuple[str, list[int]]] = []
        others = 0
        for question in ("Hello!", "How are you?", "Why?", "And then?"):
            reply = chat.send(question, 9, temperature=1.5, seed=4)
            text = await reply
            prompt = conversation(tokenizer, exchanges, question, "Be brief.")
            program = chat._generator.program
            alone = Generator(program).generate(prompt, 9, temperature=1.5, seed=4, stop=[507])
            assert reply.tokens == [token async for token in alone]
            assert text == tokenizer.decode(reply.tokens)
            others += tokenizer.encode(text, special=False) != reply.tokens
            exchanges.append((question, list(reply.tokens)))
        assert others >= 2

    wait(run())


# Ways to end an answer


async def ended_by_break(chat: Chat, device: Any) -> None:
    assert len(await pieces_of(chat.send("Hello!", 20), 3)) == 3


async def ended_by_nobody(chat: Chat, device: Any) -> None:
    """Never iterate an answer, and undo its question."""
    chat.send("Hello!", 20)
    assert chat.undo() == "Hello!"


async def ended_by_failure(chat: Chat, device: Any) -> None:
    reply = chat.send("Hello!", 20, steps_ahead=1)
    await pieces_of(reply, 2)
    with failing(chat._generator.program), pytest.raises(ExecutionError, match="no device"):
        await reply


async def ended_by_recover(chat: Chat, device: Any) -> None:
    reply = chat.send("Hello!", 20)
    await pieces_of(reply, 2)
    await chat._generator.program.recover()
    with pytest.raises(ContextError, match="recover"):
        await reply


async def ended_by_others(chat: Chat, device: Any) -> None:
    """Overwrite the cache by a direct call."""
    reply = chat.send("Hello!", 20)
    await pieces_of(reply, 2)
    await chat._generator.program.forward(np.array([[3, 4]]), np.array([0]))
    with pytest.raises(ContextError, match="called"):
        await reply


async def ended_by_cancel(chat: Chat, device: Any) -> None:
    reply = chat.send("Hello!", 20)
    await pieces_of(reply, 2)
    if isinstance(device, SimulatedDevice):
        device.pauses = lambda: 5
    task = asyncio.ensure_future(pieces_of(reply))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if isinstance(device, SimulatedDevice):
        device.pauses = lambda: 1


ENDINGS = [
    ended_by_break,
    ended_by_nobody,
    ended_by_failure,
    ended_by_recover,
    ended_by_others,
    ended_by_cancel,
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_next_answer_follows_what_was_handed_out(device: str | Device, ending: Any) -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(device)
        await ending(chat, device)
        exchanges = []
        for asked, said in zip(chat.messages[::2], chat.messages[1::2], strict=True):
            (tokens,) = [chat._all_turns()[-1].span]
            assert tokens is not None
            kept = list(tokens.tokens[len(conversation(tokenizer, [], asked["content"])) :])
            assert tokenizer.decode(kept) == said["content"]
            exchanges.append((asked["content"], kept))
        reply = chat.send("And?", 6)
        await reply
        assert reply.tokens == await greedy(Q4, conversation(tokenizer, exchanges, "And?"), 6)

    wait(run())


def test_a_failed_answer_goes_on_when_it_is_asked_again() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        chat, whole = await open_chat(device), await open_chat()
        wanted = await whole.send("Hello!", 12)
        reply = chat.send("Hello!", 12)
        device.inject(DeviceError, method="run")
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await reply
        assert chat.messages == [{"role": "user", "content": "Hello!"}]
        await pieces_of(reply, 2)
        device.inject(DeviceError, method="run", at_result=True)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await reply
        assert chat.messages[-1]["content"] == reply.text
        assert wanted.startswith(reply.text)
        assert await reply == wanted
        assert chat.messages == whole.messages

    wait(run())


def test_a_closed_program_says_so() -> None:
    async def run() -> None:
        chat = await open_chat()
        await chat.send("Hello!", 3)
        before = chat.messages
        chat._generator.program.close()
        with pytest.raises(ClosedError):
            await chat.send("More", 3)
        chat.undo()
        assert chat.messages == before

    wait(run())


def test_an_answer_ends_when_another_begins_or_messages_change() -> None:
    async def run() -> None:
        chat = await open_chat()
        for change in (
            lambda: chat.send("b", 3),
            chat.undo,
            chat.regenerate,
            lambda: chat.edit(0, "c"),
            lambda: setattr(chat, "messages", []),
        ):
            reply = chat.send("a", 9)
            (first,) = await pieces_of(reply, 1)
            change()
            with pytest.raises(ContextError, match="this answer ended"):
                await reply
            assert reply.text == first
            chat.messages = []

    wait(run())


def test_messages_that_change_during_a_step_end_the_answer() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        chat = await open_chat(device)
        reply = chat.send("a", 9)
        (first,) = await pieces_of(reply, 1)
        device.pauses = lambda: 5
        for change in (lambda: chat.edit(0, "b"), lambda: chat.messages):
            task = asyncio.ensure_future(pieces_of(reply, 1))
            await asyncio.sleep(0)
            change()
            with pytest.raises(ContextError, match="this answer ended"):
                await task
            assert reply.text == first
            assert chat.messages == [{"role": "user", "content": "b"}]

    wait(run())
