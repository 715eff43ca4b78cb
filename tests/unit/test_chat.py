"""Chats: the tokens of a conversation, however its answers ended."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.chats import Q4, conversation, open_chat, open_tokenizer, pieces_of
from support.conversations import failing, greedy
from support.graphs import wait
from webpte import ahead
from webpte.errors import (
    ChatTemplateError,
    ClosedError,
    ContextError,
    DeviceError,
    ExecutionError,
    InputError,
    VocabularyError,
)
from webpte.gpu.device import Device
from webpte.gpu.recording import RecordingDevice
from webpte.llm import Chat, Generator
from webpte.text import ChatTemplate


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many steps a batch has does not depend on the machine."""
    monkeypatch.setattr(ahead, "BATCH_SECONDS", 1e6)


@pytest.fixture(params=["numpy", "recording"])
def device(request: pytest.FixtureRequest) -> str | Device:
    return "numpy" if request.param == "numpy" else RecordingDevice()


LETTERS = "abcdefghijklmnopqrst"


def test_twenty_turns_are_one_prompt(device: str | Device) -> None:
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
            # Only what is new is computed: the last answer, its end, and the question.
            new = min(len(prompt), 6)
            assert reply.stats.reused_tokens >= len(prompt) - new
            exchanges.append((letter, list(reply.tokens)))
        assert len(chat.messages) == 2 * len(LETTERS)
        assert [m["content"] for m in chat.messages[::2]] == list(LETTERS)

    wait(run())


def test_answers_keep_their_tokens(device: str | Device) -> None:
    """The model says tokens in an order that no encoder would give."""

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
    """It was never asked for; the question goes."""
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
    """Somebody else writes to the cache."""
    reply = chat.send("Hello!", 20)
    await pieces_of(reply, 2)
    await chat._generator.program.forward(np.array([[3, 4]]), np.array([0]))
    with pytest.raises(ContextError, match="called"):
        await reply


async def ended_by_cancel(chat: Chat, device: Any) -> None:
    reply = chat.send("Hello!", 20)
    await pieces_of(reply, 2)
    if isinstance(device, RecordingDevice):
        device.pauses = lambda: 5
    task = asyncio.ensure_future(pieces_of(reply))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if isinstance(device, RecordingDevice):
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
            (tokens,) = [chat._all_turns()[-1].said]
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
        device = RecordingDevice()
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
        device = RecordingDevice()
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


# Messages


def test_messages_are_changed_and_answers_follow() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(RecordingDevice())  # where a cache can go back
        first = chat.send("a", 4)
        await first
        second = chat.send("b", 4)
        await second
        saved = chat.messages
        # Another answer to the same question; with the same seed it is the same answer.
        again = chat.regenerate()
        assert (await again, again.tokens) == (second.text, second.tokens)
        assert again.stats.prefill_tokens == 1, "only the last token is computed again"
        assert chat.messages == saved
        # Another question in its place.
        chat.edit(2, "c")
        assert chat.messages == [*saved[:2], {"role": "user", "content": "c"}]
        reply = chat.regenerate(6)
        await reply
        wanted = conversation(tokenizer, [("a", first.tokens)], "c")
        assert reply.tokens == await greedy(Q4, wanted, 6)
        # Another answer in place of the model's: the one before it stays as it was said.
        chat.edit(3, "mine")
        reply = chat.send("d", 4)
        await reply
        exchanges = [("a", first.tokens), ("c", tokenizer.encode("mine", special=False))]
        assert reply.tokens == await greedy(Q4, conversation(tokenizer, exchanges, "d"), 4)
        assert reply.stats.retokenized == 1
        assert chat.undo() == "d"
        assert chat.undo() == "c"
        assert chat.messages == saved[:2]
        assert chat.undo() == "a"
        assert chat.messages == []
        # A conversation from elsewhere: its answers are text, and become the text's tokens.
        chat.messages = saved
        reply = chat.send("d", 4)
        await reply
        texts = [
            (saved[n]["content"], tokenizer.encode(saved[n + 1]["content"], False)) for n in (0, 2)
        ]
        assert reply.tokens == await greedy(Q4, conversation(tokenizer, texts, "d"), 4)
        assert reply.stats.retokenized == 2
        reply = chat.send("e", 4)
        assert reply.stats.retokenized == 0, "what follows an answer that is known is known"

    wait(run())


def test_an_assignment_keeps_what_it_does_not_change() -> None:
    async def run() -> None:
        chat = await open_chat(system="Be brief.")
        await chat.send("a", 5, temperature=1.0, seed=1)
        await chat.send("b", 5, temperature=1.0, seed=1)
        turns = chat._all_turns()
        chat.messages = [*chat.messages[:4], {"role": "assistant", "content": "mine"}]
        assert chat._all_turns()[:4] == turns[:4]
        assert chat._all_turns()[2].said is not None
        assert chat._all_turns()[4].said is None

    wait(run())


def test_the_system_message_changes_alone() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(system="Be brief.")
        first = chat.send("a", 4)
        await first
        chat.edit(0, "Be quick.")
        assert [m["content"] for m in chat.messages] == ["Be quick.", "a", first.text]
        reply = chat.send("b", 4)
        await reply
        said = tokenizer.encode(first.text, special=False)
        wanted = conversation(tokenizer, [("a", said)], "b", "Be quick.")
        assert reply.tokens == await greedy(Q4, wanted, 4)
        assert reply.stats.retokenized == 1

    wait(run())


def test_seeds() -> None:
    async def run() -> None:
        chat = await open_chat()
        texts = [await chat.send("a", 8, temperature=2.0, seed=1)]
        texts.append(await chat.regenerate())
        texts.append(await chat.regenerate(seed=2))
        assert texts[0] == texts[1] != texts[2]
        assert len(chat.messages) == 2

    wait(run())


# Templates


def test_a_template_that_changes_answers() -> None:
    """As those do that leave out what was thought: the tokens are the text's then."""

    async def run() -> None:
        tokenizer = await open_tokenizer()
        source = (
            "{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content[1:] if "
            "m.role == 'assistant' else m.content) + '<|end|>' }}{% endfor %}<|assistant|>"
        )
        template = await ChatTemplate.load(source)
        chat = await open_chat(template=template)
        first = chat.send("a", 6)
        await first
        assert len(first.text) > 1
        reply = chat.send("b", 5)
        await reply
        text = f"<|user|>a<|end|><|assistant|>{first.text[1:]}<|end|><|user|>b<|end|><|assistant|>"
        wanted = tokenizer.encode(text, special=False)
        assert reply.tokens == await greedy(Q4, wanted, 5)
        assert reply.stats.retokenized == 1

    wait(run())


def test_a_template_that_strips_answers() -> None:
    async def run() -> None:
        source = (
            "{% for m in messages %}{{ '<|' + m.role + '|>' + (' ' if m.role == 'assistant' else "
            "'') + m.content | trim + '<|end|>' }}{% endfor %}<|assistant|>"
        )
        chat = await open_chat(template=await ChatTemplate.load(source))
        first = chat.send("a", 6)
        await first
        reply = chat.send("b", 5)
        assert reply.stats.retokenized == 0
        await reply
        assert reply.stats.reused_tokens == 4 + len(first.tokens)

    wait(run())


def test_variables_reach_the_template() -> None:
    async def run() -> None:
        template = await ChatTemplate.load("{{ tools }}{{ messages[-1].content }}")
        chat = await open_chat(template=template, variables={"tools": "T"})
        await chat.send("a", 1)
        assert chat._prompt.text == "Ta"

    wait(run())


def test_a_refused_message_changes_nothing() -> None:
    async def run() -> None:
        chat = await open_chat()
        await chat.send("a", 3)
        before = chat.messages
        chat.messages = [*before, {"role": "tool", "content": "no"}]
        with pytest.raises(ChatTemplateError, match="no such role: tool"):
            chat.send("b")
        assert len(chat.messages) == 3
        chat.messages = before
        for wrong in ({"temperature": -1}, {"stop": "abc"}, {"stop": [""]}, {"steps_ahead": 0}):
            with pytest.raises(InputError):
                chat.send("b", 3, **wrong)
        assert chat.messages == before

    wait(run())


# What a Chat is made of


def test_what_does_not_make_a_chat() -> None:
    async def run() -> None:
        program = (await open_chat())._generator.program
        tokenizer = await open_tokenizer()
        with pytest.raises(VocabularyError, match="knows only 512"):
            Chat(program, await open_tokenizer("pieces"), template=tokenizer.template)
        with pytest.raises(ChatTemplateError, match=r"no chat template.*tokenizer_config\.json"):
            Chat(program, await open_tokenizer("words"))
        with pytest.raises(InputError, match="when_full is one of error, slide"):
            Chat(program, tokenizer, when_full="forget")
        chat = Chat(program, tokenizer)
        for act in (chat.undo, chat.regenerate):
            with pytest.raises(InputError, match="nothing has been asked"):
                act()
        with pytest.raises(InputError, match="0 messages"):
            chat.edit(0, "a")

    wait(run())
