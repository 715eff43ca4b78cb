"""Answers constrained to a regex: automata over bytes, allowed tokens, and chats."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness.texts import BYTES, PIECES, UNIGRAM, WORDS
from support.llm.automata import of_regex
from support.page.chats import open_chat, open_tokenizer
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError, TextError
from webpte.llm import Grammars
from webpte.llm.constrain.automaton import ByteAutomaton


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    async def load() -> Grammars:
        return await Grammars.load(await open_tokenizer())

    return wait(load())


def states(automaton: ByteAutomaton, text: str) -> list[bool]:
    """Return for each byte of a text whether it can be continued, and whether it may end."""
    state, alive = automaton.start, []
    for byte in text.encode():
        state = automaton.after(state, bytes([byte]))
        alive.append(state != automaton.dead)
    return [*alive, bool(automaton.accepts[state])]


PATTERNS = [
    r"[a-z]{2,4}-\d+",
    r"(yes|no|no way)",
    r".*é",
    r"[^ä]*🙂?",
    r"(Häßlich|Hä|[あ-ん]+)!",
    r'"([^"\\]|\\["\\n])*"',
    r"(?i:hello) \w+",
]
WORDS_TO_TRY = [
    *("ab-1", "abc-", "abcde-5", "yes", "no wa", "no way", "né", "éé", "🙂", "a🙂🙂", "öä", "ü"),
    *(
        "Häßlich!",
        "Hä!",
        "かな!",
        "カ!",
        '"a\\n"',
        '"a\\x"',
        "HeLLo you",
        "hello",
        "",
        "\U0010ffff",
    ),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_automaton_over_bytes_is_the_regex(pattern: str) -> None:
    automaton, accepted = of_regex(pattern), 0
    for text in WORDS_TO_TRY:
        matches = re.fullmatch(pattern, text) is not None
        assert states(automaton, text)[-1] is matches, text
        if matches:
            assert all(states(automaton, text)), text
        accepted += matches
    assert accepted


def test_what_leads_nowhere_is_dead_at_once() -> None:
    assert states(of_regex("ab(c|d)"), "abx") == [True, True, False, False]
    assert states(of_regex("x(?=y)z|ab"), "x")[0] is False


@pytest.mark.parametrize("wrong", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\xe0\x80", b"\x80"])
def test_bytes_that_are_no_text_do_not_match(wrong: bytes) -> None:
    automaton = of_regex(".+")
    assert automaton.after(automaton.start, wrong) == automaton.dead


@pytest.mark.parametrize("kind", [BYTES, PIECES])
@pytest.mark.parametrize("pattern", [PATTERNS[0], PATTERNS[3], PATTERNS[4]])
def test_whatever_is_chosen_matches(kind: str, pattern: str) -> None:
    """Random choices of allowed tokens end in a match."""

    async def run() -> None:
        tokenizer = await open_tokenizer(kind)
        grammars, pieces = await Grammars.load(tokenizer), tokenizer.pieces()
        matching = await grammars.regex(pattern)
        rng = np.random.default_rng(len(pattern))
        ended = 0
        for _ in range(8):
            said: list[int] = []
            while (allowed := matching.after(said)).tokens.size and len(said) < 20:
                if allowed.may_end and rng.random() < 0.3:
                    break
                said.append(int(rng.choice(allowed.tokens)))
            if allowed.may_end:
                ended += 1
                text = b"".join(pieces[token] or b"?" for token in said).decode()
                assert re.fullmatch(pattern, text)
                assert tokenizer.decode(said) in (text, text.removeprefix(" "))
        assert ended

    wait(run())


def test_a_token_in_the_middle_of_a_character_is_allowed(grammars: Grammars) -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        matching = await grammars.regex("(🙂|no)")
        smile = tokenizer.encode("🙂", special=False)
        assert len(smile) > 1
        for count, token in enumerate(smile):
            assert token in matching.after(smile[:count]).tokens
        assert matching.after(smile).is_end

    wait(run())


def test_a_way_that_no_tokens_go_is_not_begun() -> None:
    """The tokenizer has no tokens of bytes, and does not know all characters."""

    async def run() -> None:
        tokenizer = await open_tokenizer(UNIGRAM)
        grammars = await Grammars.load(tokenizer)
        for pattern, ways in (
            ("(a😀|b)", {"b"}),
            ("(aaaa😀|ab|aac(😀|d))", {"ab", "aacd"}),
            ("b?(😀a)*", {"", "b"}),
        ):
            matching = await grammars.regex(pattern)
            found: set[str] = set()
            waiting: list[list[int]] = [[]]
            for said in waiting:
                allowed = matching.after(said)
                assert allowed.tokens.size or allowed.may_end, "no way leads nowhere"
                if allowed.may_end:
                    found.add(tokenizer.decode(said).strip())
                waiting += [[*said, token] for token in allowed.tokens.tolist()]
            assert found == ways
        for pattern in ("😀", "a+😀", "(a|b){3}😀|c😀"):
            with pytest.raises(TextError, match="no tokens for any text that matches"):
                await grammars.regex(pattern)

    wait(run())


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "is not a regex: missing \\)"),
        ("[", "is not a regex: unterminated character set"),
        ("a{99999999999}", "is not a regex: the repetition number is too large"),
        ("(?<=a)b", "lookbehind in the regex"),
        (r"(a)\1", "references to groups"),
        ("(a)(?(1)b|c)", "conditions on groups"),
        ("a++b", "possessive repetitions"),
        ("(?>a|ab)c", "atomic groups"),
        (r"\bab", "a word boundary"),
        ("a^b", r"\^ or \$ not at the ends"),
        ("(a(?=b))b", "lookahead in a group that something follows"),
        ("x(?=y)z", "matches nothing"),
        (r"[^\s\S]", "matches nothing"),
        ("(" * 2000 + ")" * 2000, "too many groups in groups"),
    ],
)
def test_what_is_no_regex(pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        of_regex(pattern)


def test_a_regex_is_a_text() -> None:
    for wrong in (5, None, b"a", ["a"]):
        given: Any = wrong
        with pytest.raises(InputError, match="a regex is a text"):
            of_regex(given)


def test_a_tokenizer_that_does_not_tell() -> None:
    async def run() -> None:
        with pytest.raises(TextError, match="WordPiece"):
            await Grammars.load(await open_tokenizer(WORDS))

    wait(run())


# Chats


def test_a_chat_answers_as_it_is_asked_to() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]}

    async def run() -> None:
        said = []
        for device in ("numpy", SimulatedDevice()):
            chat = await open_chat(device)
            first = await chat.send("One?", 20, schema=schema)
            assert isinstance(json.loads(first)["n"], bool)
            reply = chat.send("Two?", 20, regex=r"\d{2}:\d{2}", temperature=2.0, seed=1)
            second = await reply
            assert re.fullmatch(r"\d\d:\d\d", second)
            assert reply.ended == "stop"
            said.append([first, second, await chat.send("Three?", 3)])
            assert [m["content"] for m in chat.messages[1::2]] == said[-1]
        assert said[0] == said[1]

    wait(run())


def test_what_a_chat_refuses_leaves_its_messages() -> None:
    async def run() -> None:
        chat = await open_chat()
        for wrong, message in (
            ({"regex": "a", "choices": ["b"]}, "one of choices, regex"),
            ({"schema": {"type": "thing"}}, "type"),
            ({"choices": "yes"}, "a list of texts"),
            ({"choices": []}, "one or more"),
            ({"regex": "("}, "is not a regex"),
            ({"regex": 5}, "a regex is a text"),
        ):
            asked: dict[str, Any] = wrong
            with pytest.raises(InputError, match=message):
                chat.send("x", 3, **asked)
            assert chat.messages == []
        reply = chat.send("x", 3, regex="(a|b)*a(a|b){14}")
        with pytest.raises(InputError, match="automaton of over 30,000 states"):
            await reply
        assert [m["role"] for m in chat.messages] == ["user"], "the question stays"
        assert await chat.regenerate(3, regex="abc") == "abc"

    wait(run())
