"""Chats whose messages are changed, and templates that change messages."""

from __future__ import annotations

import pytest

from support.graphs.graphs import wait
from support.page.chats import Q4, conversation, open_chat, open_tokenizer
from support.page.conversations import greedy
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ChatTemplateError, InputError, VocabularyError
from webpte.llm import Chat
from webpte.llm.text import ChatTemplate


def test_messages_are_changed_and_answers_follow() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        chat = await open_chat(SimulatedDevice())  # where a cache can go back
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
        # Another answer in place of the model's: the earlier answer keeps its tokens.
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
        assert chat._all_turns()[2].span is not None
        assert chat._all_turns()[4].span is None

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
    """A template drops the reasoning of an answer, whose tokens are then encoded from its text."""

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
            with pytest.raises(InputError, match="no question yet"):
                act()
        with pytest.raises(InputError, match="0 messages"):
            chat.edit(0, "a")

    wait(run())
