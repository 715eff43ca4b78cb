"""JSON schemas by llguidance: answers fit them, and it is used where it can be.

`tests/data/json_schema` has cases of the JSON Schema Test Suite: all keywords that llguidance
takes, without the valid instances that it never writes (closed objects, 1.0 for 1).
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness.texts import BYTES, PIECES, UNIGRAM
from support.llm.schemas import Schemas, fits
from support.page.chats import open_chat, open_tokenizer
from webpte.errors import InputError, TextError
from webpte.llm import Constraint, Grammars, Matching
from webpte.llm.constrain import grammar, guidance
from webpte.llm.constrain.closed_objects import closed
from webpte.llm.constrain.grammar import LazyGrammars
from webpte.llm.constrain.guidance import (
    GrammarConstraint,
    Guide,
    _TokenizerAdapter,
    grammar_of,
    load_guidance,
)
from webpte.llm.constrain.json_answer import JsonAnswer, JsonForm
from webpte.llm.text import Tokenizer
from webpte_host.base.layout import ROOT

CASES = json.loads((ROOT / "tests/data/json_schema/cases.json").read_text(encoding="utf-8"))


@cache
def lazy(kind: str = BYTES) -> tuple[Tokenizer, LazyGrammars]:
    tokenizer = wait(open_tokenizer(kind))
    return tokenizer, LazyGrammars(tokenizer)


def guided(schema: Any, kind: str = BYTES) -> GrammarConstraint:
    made = wait(lazy(kind)[1].json(JsonAnswer((JsonForm(schema),)))())
    assert isinstance(made, GrammarConstraint)
    return made


def allows(constraint: Constraint, tokens: Sequence[int]) -> bool:
    """Tell whether a model can answer with these tokens and end there."""
    for place, token in enumerate(tokens):
        if token not in constraint.after(tokens[:place]).tokens:
            return False
    return constraint.after(tokens).may_end


def draw(constraint: Constraint, pieces: Sequence[bytes | None], seed: int) -> str | None:
    """Answer with random tokens, like a model without training; None if it goes on and on."""
    rng, tokens = np.random.default_rng(seed), list[int]()
    while len(tokens) < 200:
        allowed = constraint.after(tokens)
        if allowed.is_end or (allowed.may_end and rng.random() < 0.2):
            return b"".join(pieces[token] or b"" for token in tokens).decode()
        ends = [t for t in allowed.tokens.tolist() if (pieces[t] or b" ")[:1] in b'"]},']
        pool = ends if ends and rng.random() < 0.4 else allowed.tokens
        tokens.append(int(pool[rng.integers(len(pool))]))
    return None


def parsed(text: str) -> Any:
    """Parse JSON strictly; numbers beyond the range of doubles, which JSON allows, are cut."""
    most = sys.float_info.max
    return json.loads(
        text,
        parse_constant=pytest.fail,
        parse_float=lambda number: min(max(float(number), -most), most),
    )


# Schemas


@pytest.mark.parametrize("keyword", CASES)
def test_cases_of_the_json_schema_test_suite(keyword: str) -> None:
    tokenizer, _ = lazy()
    for case in CASES[keyword]:
        constraint = guided(case["schema"])
        for kind, expected in (("valid", True), ("invalid", False)):
            for value in case[kind]:
                text = json.dumps(value, ensure_ascii=False)
                tokens = tokenizer.encode(text, special=False)
                assert allows(constraint, tokens) is expected, (case["schema"], text)


ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 9_999},
        "price": {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 50},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"', "é"]}, "minItems": 1},
        "size": {"prefixItems": [{"type": "integer"}, {"const": "cm"}], "items": False},
        "note": {"type": "string", "minLength": 1, "maxLength": 4},
        "parts": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["id", "note"],
}


@pytest.mark.parametrize("kind", [BYTES, PIECES])
def test_random_answers_fit_a_schema(kind: str) -> None:
    constraint, pieces = guided(ORDER, kind), lazy(kind)[0].pieces()
    texts = [draw(constraint, pieces, seed) for seed in range(12)]
    whole = [text for text in texts if text is not None]
    assert len(whole) >= 6
    for text in whole:
        assert fits(parsed(text), closed(ORDER), ORDER), text


def test_random_answers_fit_random_schemas() -> None:
    rng = np.random.default_rng(1)
    schemas, pieces, taken, whole = Schemas(rng, 0.0), lazy()[0].pieces(), 0, 0
    for seed in range(60):
        schema = schemas.draw()
        try:
            constraint = guided(schema)
        except (AssertionError, InputError, TextError):  # ours, or of neither
            continue
        taken += 1
        text = draw(constraint, pieces, seed)
        if text is not None:
            whole += 1
            assert fits(parsed(text), schema, schema), (schema, text)
    assert taken > 20
    assert whole > 15


def test_a_model_answers_a_schema_that_contains_itself() -> None:
    tree: dict[str, Any] = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "maxItems": 1}},
    }

    async def run() -> None:
        chat = await open_chat()
        for seed in range(3):
            reply = chat.send("?", 30, schema=tree, temperature=1.0, seed=seed)
            text = await reply
            if reply.ended == "stop":
                assert fits(json.loads(text), tree, tree)
            else:
                assert set(text) <= set("[]")

    wait(run())


def test_a_large_schema_is_no_trouble() -> None:
    names = [f"property_{n}" for n in range(300)]
    inner = {"type": "string", "maxLength": 200, "pattern": "^[a-z ]*$"}
    wide = {"type": "object", "properties": dict.fromkeys(names, inner)}  # all may be left out
    constraint = guided(wide)
    tokens = lazy()[0].encode('{"property_7": "ab"}', special=False)
    assert allows(constraint, tokens)


def test_answers_share_a_constraint() -> None:
    constraint, tokenizer = guided(ORDER), lazy()[0]
    good = tokenizer.encode('{"id": 12, "note": "x"}', special=False)
    other = tokenizer.encode('{"id": 7, "price": 1.25, "note": "y"}', special=False)
    expected = [allows(guided(ORDER), tokens) for tokens in (good, other)]
    assert expected == [True, True]
    for place in range(max(len(good), len(other))):  # one after the other, token by token
        for tokens in (good, other):
            if place < len(tokens):
                assert tokens[place] in constraint.after(tokens[:place]).tokens
    assert constraint.after(good).is_end
    assert not constraint.after([]).may_end
    assert constraint.after(other).is_end
    with pytest.raises(TextError, match="do not fit"):
        constraint.after([*good[:3], *good[:3]])


# Objects have the properties that a schema names


def test_objects_are_closed_where_a_schema_says_nothing() -> None:
    inner = {"properties": {"b": {"type": "null"}}}
    schema = {"properties": {"a": {"items": inner}, "properties": {"const": {"a": 1}}}}
    made = closed(schema)
    assert made["additionalProperties"] is False
    assert made["properties"]["a"]["items"]["additionalProperties"] is False
    assert made["properties"]["properties"] == {"const": {"a": 1}}
    assert "additionalProperties" not in schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {}, "additionalProperties": True},
        {"properties": {"a": True}, "required": ["b"]},
        {"properties": {"a": True}, "patternProperties": {"b": True}},
        {"allOf": [{"properties": {"a": True}}, {"properties": {"b": True}}]},
        {"$ref": "#/$defs/a", "properties": {"b": True}, "$defs": {"a": {"properties": {}}}},
        {"type": "thing", "properties": 5, "items": [1], "anyOf": None},
    ],
    ids=str,
)
def test_other_objects_stay_open(schema: dict[str, Any]) -> None:
    assert closed(schema) == schema


# Where it is used


def test_texts_around_json() -> None:
    forms = [JsonForm({"const": name}, f"<call>\n{name}: ", "\n</call>") for name in ("é", 'q"')]
    constraint = wait(lazy()[1].json(JsonAnswer(tuple(forms), "tools"))())
    tokenizer = lazy()[0]
    for text, right in (
        ('<call>\né: "é"\n</call>', True),
        ('<call>\nq": "q\\""\n</call>', True),
        ('<call>\né: "q\\""\n</call>', False),
    ):
        assert allows(constraint, tokenizer.encode(text, special=False)) is right


def test_what_it_does_not_take_is_ours() -> None:
    ahead = {"type": "string", "pattern": "(?!x)[xy]"}
    made = wait(lazy()[1].json(JsonAnswer((JsonForm(ahead),)))())
    assert isinstance(made, Matching)
    assert allows(made, lazy()[0].encode('"y"', special=False))


def test_words_are_cut_where_the_tokenizer_adds_a_space() -> None:
    """Tokens of a forced text have its bytes and no others."""
    tokenizer, _ = lazy(PIECES)
    pieces = tokenizer.pieces()
    for text in ('{"id": ', "<s>x", "é🙂", ""):
        tokens = _TokenizerAdapter(tokenizer, pieces)(text.encode())
        assert b"".join(pieces[token] or b"" for token in tokens) == text.encode()


def test_a_tokenizer_that_lacks_bytes_is_ours() -> None:
    tokenizer, grammars = lazy(UNIGRAM)
    assert wait(Guide.load(tokenizer)) is None
    for _ in range(2):
        made = wait(grammars.json(JsonAnswer((JsonForm({"enum": [1, 2]}),)))())
        assert isinstance(made, Matching)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True},
        {"type": "thing"},
        {"enum": []},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"const": float("nan")},
        {"const": b"bytes"},
        [],
        5,
        None,
    ],
    ids=str,
)
def test_wrong_schemas_are_an_input_error(schema: Any) -> None:
    with pytest.raises(InputError, match="schema"):
        lazy()[1].json(JsonAnswer((JsonForm(schema),)))


def test_a_limit_that_is_met_while_it_answers_is_an_input_error() -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(2000)}
    grammars = lazy()[1]

    async def run() -> None:
        schema = {"type": "object", "properties": properties}
        constraint = await grammars.json(JsonAnswer((JsonForm(schema),)))()
        with pytest.raises(InputError, match="the schema is too large"):
            constraint.after([int(constraint.after([]).tokens[0])])

    wait(run())


def test_without_it_errors_say_that_it_would_do_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "load_guidance", lambda: None)
    tokenizer = lazy()[0]

    async def run() -> None:
        grammars = await Grammars.load(tokenizer)
        assert isinstance(await grammars.schema({"type": "boolean"}), Matching)
        for schema in (
            {"type": "integer", "multipleOf": 3},
            {"type": "string", "maxLength": 90_000},
        ):
            with pytest.raises(InputError, match=r"llguidance .* `pip install webpte\[constra"):
                await grammars.schema(schema)

    wait(run())


def test_other_tasks_go_on_and_cancel_works() -> None:
    names = [f"p{n}" for n in range(500)]  # over CHECKED_AT_ONCE
    wide = {"type": "object", "properties": {n: {"enum": [n, n + "x", 1]} for n in names}}

    async def run() -> None:
        grammars, turns = LazyGrammars(lazy()[0]), 0
        build = grammars.json(JsonAnswer((JsonForm(wide),)))
        task = asyncio.ensure_future(build())
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 3
        task = asyncio.ensure_future(build())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await build()).after(()).tokens.size

    asyncio.run(run())


def test_a_large_schema_that_is_wrong_is_found_later() -> None:
    names = {f"p{n}": {"enum": ["x" * 90, n]} for n in range(200)}
    wide = {"type": "object", "properties": {**names, "last": {"type": "array"}}, "not": {}}
    build = lazy()[1].json(JsonAnswer((JsonForm(wide),)))
    with pytest.raises(InputError, match=r"the schema: .*not"):
        wait(build())


@pytest.mark.parametrize(("links", "levels"), [(12, 110), (4000, 0)])
def test_definitions_of_any_depth_do_not_end_the_process(links: int, levels: int) -> None:
    def link(number: int) -> Any:
        schema: Any = {"$ref": f"#/$defs/{number + 1}"}
        for _ in range(levels):
            schema = {"items": schema}
        return schema

    inner = {str(number): link(number) for number in range(links)}
    made = guided({"$ref": "#/$defs/0", "$defs": {**inner, str(links): {"type": "string"}}})
    assert made.after(()).tokens.size


def test_who_waits_for_a_schema_is_told_when_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guidance, "MOST_SECONDS", 0.01)
    go_on, given = threading.Event(), {"type": "string"}

    async def run() -> None:
        guide = await Guide.load(lazy()[0])
        assert guide is not None
        monkeypatch.setattr(guide, "_follow", lambda *_: go_on.wait())
        for _ in range(guidance.MOST_UNFINISHED):
            with pytest.raises(InputError, match=r"the schema takes more than .* simpler"):
                await guide.follow("", "the schema")
        with pytest.raises(InputError, match="the schema: others are still being read"):
            await guide.follow("", "the schema")
        go_on.set()
        await asyncio.gather(*map(asyncio.wrap_future, guide._unfinished))
        monkeypatch.undo()
        made = await guide.follow(grammar_of(JsonAnswer((JsonForm(given),))), "the schema")
        assert made.after(()).tokens.size

    asyncio.run(run())


def test_the_library_is_here() -> None:
    assert load_guidance() is not None, "llguidance is among the dependencies of tests"
    assert "json" in grammar_of(JsonAnswer((JsonForm({}),)))
