"""Answers held to a regex or a JSON schema: automata over bytes, schemas, and chats."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from support.chats import open_chat, open_tokenizer
from support.graphs import wait
from support.texts import BYTES, PIECES, WORDS
from webpte.errors import InputError, TextError
from webpte.gpu.recording import RecordingDevice
from webpte.llm import Grammars
from webpte.llm.automaton import ByteAutomaton
from webpte.llm.json_schema import regex_of


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    async def load() -> Grammars:
        return await Grammars.load(await open_tokenizer())

    return wait(load())


def states(automaton: ByteAutomaton, text: str) -> list[bool]:
    """For each byte of a text: whether it can go on there; and whether it may end."""
    state, alive = automaton.start, []
    for byte in text.encode():
        state = int(automaton.table[state, byte])
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
def test_an_automaton_over_bytes_is_the_regex(grammars: Grammars, pattern: str) -> None:
    automaton, accepted = grammars.regex(pattern)._automaton, 0
    for text in WORDS_TO_TRY:
        matches = re.fullmatch(pattern, text) is not None
        assert states(automaton, text)[-1] is matches, text
        if matches:
            assert all(states(automaton, text)), text
        accepted += matches
    assert accepted


def test_what_leads_nowhere_is_dead_at_once(grammars: Grammars) -> None:
    assert states(grammars.regex("ab(c|d)")._automaton, "abx") == [True, True, False, False]
    assert states(grammars.regex("x(?=y)z|ab")._automaton, "x")[0] is False


@pytest.mark.parametrize("wrong", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\xe0\x80", b"\x80"])
def test_bytes_that_are_no_text_do_not_match(grammars: Grammars, wrong: bytes) -> None:
    automaton = grammars.regex(".+")._automaton
    state = automaton.start
    for byte in wrong:
        state = int(automaton.table[state, byte])
    assert state == automaton.dead


@pytest.mark.parametrize("kind", [BYTES, PIECES])
@pytest.mark.parametrize("pattern", [PATTERNS[0], PATTERNS[3], PATTERNS[4]])
def test_whatever_is_chosen_matches(kind: str, pattern: str) -> None:
    """Any token that is allowed, and its end when it may be, is a match after all."""

    async def run() -> None:
        tokenizer = await open_tokenizer(kind)
        matching, pieces = (await Grammars.load(tokenizer)).regex(pattern), tokenizer.pieces()
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
        matching = grammars.regex("(🙂|no)")
        smile = tokenizer.encode("🙂", special=False)
        assert len(smile) > 1
        for count, token in enumerate(smile):
            assert token in matching.after(smile[:count]).tokens
        assert matching.after(smile).is_end

    wait(run())


def test_what_is_no_regex(grammars: Grammars) -> None:
    for pattern in ("(a", "(?<=a)b", r"(a)\1", "["):
        with pytest.raises(InputError, match="interegular does not take the regex"):
            grammars.regex(pattern)
    with pytest.raises(InputError, match="matches nothing"):
        grammars.regex("x(?=y)z")


def test_a_tokenizer_that_does_not_tell() -> None:
    async def run() -> None:
        with pytest.raises(TextError, match="WordPiece"):
            await Grammars.load(await open_tokenizer(WORDS))

    wait(run())


# Schemas

PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "description": "in years"},
        "tags": {"type": "array", "items": {"enum": ["a", "b.c", 1, None]}, "maxItems": 2},
        "at": {"$ref": "#/$defs/place"},
    },
    "required": ["age", "at"],
    "$defs": {"place": {"anyOf": [{"type": ["number", "null"]}, {"const": {"x": [1]}}]}},
}


@pytest.mark.parametrize(
    "value",
    [
        {"age": 3, "at": None},
        {"name": 'a"é\n🙂', "age": -30, "tags": [], "at": 1.5e-7},
        {"age": 0, "tags": ["b.c", 1], "at": {"x": [1]}},
        {"age": 12, "tags": [None], "at": -12},
    ],
)
def test_json_of_a_schema(value: Any) -> None:
    for ensure_ascii in (False, True):
        assert re.fullmatch(regex_of(PERSON), json.dumps(value, ensure_ascii=ensure_ascii))


@pytest.mark.parametrize(
    "text",
    [
        '{"at": null, "age": 3}',
        '{"age": 3}',
        '{"age": 3, "at": null, "more": 1}',
        '{"name": "1234567", "age": 3, "at": null}',
        '{"age": 03, "at": null}',
        '{"age": 3, "tags": ["b_c"], "at": null}',
        '{"age": 3, "tags": [1, 1, 1], "at": null}',
        '{"age": 3,"at": null}',
        '{"name": "a\nb", "age": 3, "at": null}',
    ],
)
def test_what_is_no_json_of_a_schema(text: str) -> None:
    assert not re.fullmatch(regex_of(PERSON), text)


OPTIONAL = {"type": "object", "properties": {n: {"type": "null"} for n in "abc"}}


def test_what_is_not_required_may_be_left_out() -> None:
    pattern = regex_of(OPTIONAL)
    for names in ("", "a", "b", "c", "ab", "ac", "bc", "abc"):
        assert re.fullmatch(pattern, json.dumps(dict.fromkeys(names)))
    for wrong in ('{, "a": null}', '{"a": null, }', '{"b": null, "a": null}'):
        assert not re.fullmatch(pattern, wrong)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "format": "date"}, "schema: format cannot be kept to"),
        ({"type": "thing"}, "one of array, boolean"),
        ({}, "a type is needed"),
        ({"type": "array"}, "`items` must say"),
        ({"type": "array", "items": {"type": "integer", "minimum": 3}}, r"schema\.items: minimum"),
        ({"type": "object", "required": ["a"]}, r"does not say what \['a'\] are"),
        ({"type": "object", "additionalProperties": True}, "additionalProperties"),
        ({"$ref": "#/$defs/x"}, "'#/\\$defs/x' is not in the schema"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}, "contains itself"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength is 3, but maxLength is 2"),
        ({"enum": []}, "a list with something in it"),
        ({"type": "string", "pattern": 'a"'}, "characters that JSON escapes"),
    ],
)
def test_what_is_not_known_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        regex_of(schema)


# Chats


def test_a_chat_answers_as_it_is_asked_to() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]}

    async def run() -> None:
        said = []
        for device in ("numpy", RecordingDevice()):
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
            ({"schema": {"type": "thing"}}, "a type is needed"),
            ({"choices": "yes"}, "a list of texts"),
            ({"choices": []}, "one or more"),
        ):
            asked: dict[str, Any] = wrong
            with pytest.raises(InputError, match=message):
                chat.send("x", 3, **asked)
            assert chat.messages == []
        reply = chat.send("x", 3, regex="(")
        with pytest.raises(InputError, match="does not take the regex"):
            await reply
        assert [m["role"] for m in chat.messages] == ["user"], "the question stays"
        assert await chat.regenerate(3, regex="abc") == "abc"

    wait(run())
