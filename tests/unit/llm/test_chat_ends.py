"""Ends of answers: stop texts, stop tokens, the length, and a full context."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.harness.reading import run_apart
from support.harness.texts import BYTES, PIECES
from support.page.chats import END, Q4, conversation, open_chat, open_tokenizer, pieces_of
from support.page.conversations import greedy
from webpte.errors import InputError
from webpte.llm import Chat, GenerationStats, Reply, ReplyStats
from webpte.llm.reply import StopStrings, kept_tokens
from webpte.llm.text import Tokenizer

QUESTION = "Hello!"
SAMPLED = {"temperature": 1.0, "top_p": 0.9, "seed": 11}


@cache
def free_answer() -> tuple[str, list[int], list[str]]:
    """Give the answer that nothing stops, as text, tokens and pieces: the same every time."""
    return run_apart(_ask_freely())


async def _ask_freely() -> tuple[str, list[int], list[str]]:
    reply = (await open_chat()).send(QUESTION, 24, **SAMPLED)  # type: ignore[arg-type]
    pieces = await pieces_of(reply)
    assert reply.ended == "length"
    assert "".join(pieces) == reply.text
    return reply.text, reply.tokens, pieces


def test_a_stop_text_anywhere_in_an_answer() -> None:
    """Stop texts may span tokens; the conversation continues from exactly the emitted text."""

    async def run() -> None:
        tokenizer = await open_tokenizer()
        text, _, pieces = free_answer()
        borders = {len("".join(pieces[:n])) for n in range(len(pieces))}
        within = across = 0
        for start in range(0, len(text) - 3, extent.count(10, 5)):
            stop = text[start : start + 3]
            at = text.find(stop)
            chat = await open_chat()
            reply = chat.send(QUESTION, 24, stop=["never said", stop], **SAMPLED)  # type: ignore[arg-type]
            assert "".join(await pieces_of(reply)) == reply.text == text[:at]
            assert reply.ended == "stop"
            assert chat.messages[-1] == {"role": "assistant", "content": text[:at]}
            within += at not in borders
            across += any(at < border < at + 3 for border in borders)
            said = chat._all_turns()[-1].span
            if said is not None:
                before = conversation(tokenizer, [], QUESTION)
                assert list(said.tokens[: len(before)]) == before
                assert tokenizer.decode(said.tokens[len(before) :]) == text[:at]
        assert within
        assert across

    wait(run())


def test_a_conversation_goes_on_after_a_stop_text() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        text, tokens, pieces = free_answer()
        # One that begins within a token: its other half is not said.
        index = next(n for n, piece in enumerate(pieces) if n > 2 and len(piece) > 1)
        at = len("".join(pieces[:index])) + 1
        chat = await open_chat()
        await chat.send(QUESTION, 24, stop=[text[at : at + 4]], **SAMPLED)  # type: ignore[arg-type]
        assert chat.messages[-1]["content"] == text[:at]
        said = chat._all_turns()[-1].span
        assert said is not None
        kept = list(said.tokens[len(conversation(tokenizer, [], QUESTION)) :])
        assert kept[:-1] == tokens[: len(kept) - 1]
        assert kept[-1:] == tokenizer.encode(text[at - 1 : at], special=False)
        reply = chat.send("And?", 5)
        await reply
        assert reply.tokens == await greedy(
            Q4, conversation(tokenizer, [(QUESTION, kept)], "And?"), 5
        )

    wait(run())


def test_what_may_begin_a_stop_text_waits() -> None:
    async def run() -> None:
        text, _, pieces = free_answer()
        at = len("".join(pieces[:4]))
        chat = await open_chat(stop=[text[at : at + 12] + "\0never"])
        reply = chat.send(QUESTION, 24, **SAMPLED)  # type: ignore[arg-type]
        handed_out = []
        async for piece in reply:
            handed_out.append(piece)
            assert not (at < len(reply.text) < at + 12), "a part of what may be the stop text"
        assert reply.text == text, "in the end it was none"
        assert handed_out != pieces

    wait(run())


def test_an_answer_that_ends_within_a_stop_text_has_it() -> None:
    async def run() -> None:
        text, _, _ = free_answer()
        reply = (await open_chat()).send(QUESTION, 24, stop=[text[-3:] + "!!"], **SAMPLED)  # type: ignore[arg-type]
        assert await reply == text

    wait(run())


def test_a_break_leaves_out_what_waits() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        text, _, pieces = free_answer()
        for count in range(1, len(pieces) - 2, extent.count(6, 3)):
            at = len("".join(pieces[:count]))
            chat = await open_chat(stop=[text[at : at + 3] + "\0never"])
            reply = chat.send(QUESTION, 24, **SAMPLED)  # type: ignore[arg-type]
            while len(reply.text) < at:
                await anext(reply)
            content = chat.messages[-1]["content"]
            assert content == reply.text
            said = chat._all_turns()[-1].span
            if said is not None:
                before = len(conversation(tokenizer, [], QUESTION))
                assert tokenizer.decode(said.tokens[before:]) == content

    wait(run())


def test_stop_tokens_are_the_templates_and_ones_own() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        _, tokens, _ = free_answer()
        chat = await open_chat()
        assert END in chat._stop_tokens
        assert chat._prompts.turn_end() == END
        stop = tokens[5]
        reply = chat.send(QUESTION, 24, stop_tokens=[stop], **SAMPLED)  # type: ignore[arg-type]
        await reply
        assert reply.ended == "stop"
        assert reply.tokens == tokens[: tokens.index(stop)]
        assert reply.text == tokenizer.decode(reply.tokens)
        # The next question follows the answer's end, as the template has it, not the stop token.
        again = chat.send("And?", 4)
        await again
        wanted = conversation(tokenizer, [(QUESTION, reply.tokens)], "And?")
        assert again.tokens == await greedy(Q4, wanted, 4)

    wait(run())


def test_no_tokens_are_an_answer_too() -> None:
    async def run() -> None:
        chat = await open_chat()
        reply = chat.send(QUESTION, 0)
        assert await reply == ""
        assert reply.ended == "length"
        assert chat.messages[-1] == {"role": "assistant", "content": ""}

    wait(run())


@pytest.mark.parametrize("stops", [["ab", "b"], ["aab"], ["xyz", "ba"], ["a"], []])
def test_stop_strings_alone(stops: list[str]) -> None:
    """Text that is certain never has a part of a stop text, however the text is split."""
    strings = StopStrings(stops)
    for text in ("aabab", "xyxyz", "bbba", "", "aaa"):
        found = [text.find(stop) for stop in stops if stop in text]
        assert strings.find(text, 0) == min(found, default=None)
        for end in range(len(text) + 1):
            if strings.find(text[:end], 0) is None:
                certain = strings.certain(text[:end], 0)
                later = strings.find(text, 0)
                assert later is None or certain <= later
                waits = text[certain:end]
                assert not waits or any(stop.startswith(waits) for stop in stops)


@pytest.mark.parametrize(
    ("text", "start", "known", "found"),
    [
        ("ab", 0, 2, None),  # ends where the known text does
        ("ab", 0, 1, 0),
        ("abab", 0, 2, 2),
        ("xxwxyz", 0, 5, 2),
        ("xxwxyz", 3, 5, None),
        ("abwxyz", 0, 2, 2),
        ("wxyzab", 0, 2, 0),
    ],
)
def test_a_stop_text_ends_behind_what_is_known(
    text: str, start: int, known: int, found: int | None
) -> None:
    assert StopStrings(["ab", "wxyz"]).find(text, start, known) == found


class Script:
    """A Generation that yields given tokens."""

    why_ended = "length"

    def __init__(self, given: list[int]) -> None:
        self.tokens: list[int] = []
        self.stats = GenerationStats()
        self._given = given

    async def __anext__(self) -> int:
        if len(self.tokens) == len(self._given):
            raise StopAsyncIteration
        self.tokens.append(self._given[len(self.tokens)])
        return self.tokens[-1]


def scripted(
    tokenizer: Tokenizer,
    said: list[int],
    *stop: str,
    continued: tuple[str, Sequence[int]] = ("", ()),
) -> Reply:
    script: Any = Script(said)
    strings, stats = StopStrings(stop), ReplyStats()
    return Reply(script, tokenizer, strings, stats, continued=continued)


@pytest.mark.parametrize("kind", [BYTES, PIECES])
def test_parts_of_an_answer_that_are_parts_of_a_character(kind: str) -> None:
    """Both parts together are the text, wherever the first one ends; spaces, too."""

    async def script() -> None:
        tokenizer = await open_tokenizer(kind)
        whole = tokenizer.encode("so 🙂 häßlich is it", special=False)
        for count in range(1, len(whole)):
            first = scripted(tokenizer, whole[:count])
            await first
            rest = scripted(tokenizer, whole[count:], continued=(first.text, first.tokens))
            await rest
            assert rest.prefix + rest.text == tokenizer.decode(whole)

    wait(script())


@pytest.mark.parametrize("kind", [BYTES, PIECES])
def test_the_tokens_of_what_was_handed_out(kind: str) -> None:
    """An answer that is broken off has no part of a character or of a possible stop text."""

    async def run() -> None:
        tokenizer = await open_tokenizer(kind)
        said = tokenizer.encode("the fox 🙂 is here", special=False)
        texts = [tokenizer.decode(said[:n]) for n in range(len(said) + 1)]
        reply = scripted(tokenizer, said)
        while reply.ended is None:
            await anext(reply, "")
            count = len(reply.tokens)
            assert reply.text == texts[count]
            assert kept_tokens(reply) == said[:count]
            assert "\ufffd" not in reply.text
        # An error in the middle of a character: its first bytes are there, but not out.
        reply = scripted(tokenizer, said)
        while reply.text != "the fox ":
            await anext(reply)
        whole = len(reply.tokens)
        for _ in range(2):
            assert reply._append(await anext(reply._generation)) == ""
        assert kept_tokens(reply) == said[:whole]
        # Broken off after "the fox": the next tokens are there, but not out.
        reply = scripted(tokenizer, said, " 🙂 never")
        while reply.text != "the fox":
            await anext(reply)
        for _ in range(3):
            reply._append(await anext(reply._generation))
        kept = kept_tokens(reply)
        assert kept is not None
        assert kept == said[: len(kept)]
        assert tokenizer.decode(kept) == "the fox"

    wait(run())


def test_a_text_that_no_tokens_are() -> None:
    """Tokens begin with a space, so the end of a word alone has no tokens."""

    async def run() -> None:
        tokenizer = await open_tokenizer(PIECES)
        said = tokenizer.encode("the fox", special=False)
        assert tokenizer.decode(said[:1]).startswith("the")
        reply = scripted(tokenizer, said, "ox")
        assert await reply == "the f"
        assert kept_tokens(reply) is None
        reply = scripted(tokenizer, said, "he")
        assert await reply == "t"
        assert kept_tokens(reply) == tokenizer.encode("t", special=False)

    wait(run())


# A full context


async def fill(chat: Chat) -> None:
    for index in range(20):
        await chat.send(f"question {index}, and it is not a short one", 2)


def test_a_full_context_is_told_and_changes_nothing() -> None:
    async def run() -> None:
        chat = await open_chat()
        with pytest.raises(InputError, match=r"over the 128 .*when_full=\"slide\""):
            await fill(chat)
        before = chat.messages
        with pytest.raises(InputError, match="over the 128"):
            chat.send("a long question that does not fit any more " * 3)
        assert chat.messages == before
        chat.undo()
        assert len(chat.messages) == len(before) - 2

    wait(run())


def test_an_answer_ends_where_the_context_is_full() -> None:
    async def run() -> None:
        chat = await open_chat()
        reply = chat.send("Hello! " * 20, 500)
        await reply
        assert reply.ended == "full"
        assert len(chat._generator.context) == 129  # the last token needs no room

    wait(run())


@pytest.mark.parametrize("system", extent.some(["Be brief."], None))
def test_a_full_context_slides(system: str | None) -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        assert tokenizer.template is not None
        chat = await open_chat(system=system, when_full="slide")
        first, dropped, anew = 0 if system is None else 1, 0, 0
        for index in range(10):
            reply = chat.send(f"question {index}, and it is not a short one", 3)
            await reply
            assert reply.ended != "full"
            if reply.stats.dropped > dropped:  # rarely: the others go on from the cache
                assert reply.stats.reused_tokens <= 20, "the beginning of a question at most"
                assert len(chat._prompt.tokens) <= 128 - 128 // 4
                assert reply.tokens == await greedy(Q4, list(chat._prompt.tokens), 3)
                anew += 1
            elif index:
                assert reply.stats.reused_tokens > 20
            dropped = reply.stats.dropped
            assert dropped % 2 == 0, "whole exchanges"
            kept = chat.messages[:first] + chat.messages[first + dropped : -1]
            assert chat._prompt.text == tokenizer.template.render(kept)
        assert 2 <= anew <= 4
        assert len(chat.messages) == first + 20, "they are remembered all the same"
        with pytest.raises(InputError, match="the last question alone is too long"):
            chat.send("far too long for that " * 40)
        # Less to remember: all of it fits again.
        chat.messages = chat.messages[: first + 2]
        assert chat.send("b", 3).stats.dropped == 0

    wait(run())


def test_a_question_without_much_room_is_answered_all_the_same() -> None:
    async def run() -> None:
        chat = await open_chat(when_full="slide")
        await chat.send("a", 3)
        reply = chat.send("x\0" * 60, 40)
        assert reply.stats.dropped == 2
        await reply
        assert reply.ended in ("full", "stop")

    wait(run())
