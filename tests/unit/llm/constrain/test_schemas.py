"""JSON schemas: the JSON that their automata accept, and the schemas that are refused."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any

import pytest

from support.graphs.graphs import wait
from support.llm.automata import accepts, of_schema
from webpte.errors import InputError
from webpte.llm.constrain import nfa
from webpte.llm.constrain.automaton import ByteAutomaton
from webpte.llm.constrain.json_schema import json_of

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
        assert accepts(of_schema(PERSON), json.dumps(value, ensure_ascii=ensure_ascii))


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
    assert not accepts(of_schema(PERSON), text)


OPTIONAL = {"type": "object", "properties": {n: {"type": "null"} for n in "abc"}}


def test_what_is_not_required_may_be_left_out() -> None:
    automaton = of_schema(OPTIONAL)
    for names in ("", "a", "b", "c", "ab", "ac", "bc", "abc"):
        assert accepts(automaton, json.dumps(dict.fromkeys(names)))
    for wrong in ('{, "a": null}', '{"a": null, }', '{"b": null, "a": null}'):
        assert not accepts(automaton, wrong)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "format": "date"}, "schema: format is not supported"),
        ({"type": "thing"}, "one of array, boolean"),
        ({}, "a type is needed"),
        ({"type": "array", "maxItems": 2}, "`items` must describe"),
        ({"type": "array", "items": {"type": "integer", "multipleOf": 3}}, r"items: multipleOf"),
        ({"type": "integer", "minimum": "3"}, "a bound is a number"),
        ({"type": "number", "maximum": 1e30}, "over 19 digits before the point"),
        ({"type": "number", "minimum": 3, "exclusiveMaximum": 3}, "matches nothing"),
        ({"type": "object", "required": ["a"]}, r"does not describe \['a'\]"),
        ({"type": "object", "additionalProperties": True}, "additionalProperties"),
        ({"$ref": "#/$defs/x"}, "'#/\\$defs/x' is not in the schema"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}, "contains itself"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength is 3, but maxLength is 2"),
        ({"enum": []}, "a list that is not empty"),
    ],
)
def test_what_is_not_known_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        of_schema(schema)


# Answers are JSON, and of the schema


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "pattern": "^.+@.+$"}, '"a"@b"'),
        ({"type": "string", "pattern": "[^0-9]+"}, '"\\"'),
        ({"type": "string", "pattern": "^[ -~]*$"}, '"a"b"'),
        ({"type": "string", "pattern": ".*"}, '"a\tb"'),
        ({"type": "string", "minLength": 2}, '"\\ud83d\\ude00"'),
        ({"type": "string", "maxLength": 2}, '"\\ud83d"'),
        ({"type": "string", "enum": ["a", 1]}, "1"),
        ({"type": "string", "anyOf": [{"type": "string"}, {"type": "null"}]}, "null"),
        (
            {
                "type": "null",
                "$ref": "#/$defs/a",
                "$defs": {"a": {"type": ["null", "array"], "items": {"type": "null"}}},
            },
            "[]",
        ),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "1e280"),
        ({"type": "string", "pattern": "a*", "maxLength": 2}, '"aaa"'),
        ({"type": "string", "pattern": "a*", "minLength": 2}, '"a"'),
        ({"type": "string", "pattern": "a*", "minLength": 2}, '"bb"'),
        ({"type": "string", "pattern": "[^\\s]+"}, '"\u00a0"'),
        ({"type": "string", "pattern": "[^\\s]+"}, '"\ufeff"'),
        ({"type": "string", "pattern": "\\D"}, '"٣"'),
        ({"type": "string", "pattern": "\\d"}, '"٣"'),
        ({"type": "string", "pattern": "."}, '"\u2028"'),
    ],
    ids=str,
)
def test_what_is_no_json_or_not_of_the_schema_is_not_accepted(schema: Any, text: str) -> None:
    assert not accepts(of_schema(schema), text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "pattern": "^.+@.+$"}, '"\\"a\\\\\\u0001\\t\\"@é🙂"'),
        ({"type": "string", "pattern": "^\\d+\\$"}, '"12$"'),
        ({"type": "string", "pattern": 'a"|b$'}, '"a\\""'),
        ({"type": "string", "pattern": "(?!x).*[xy]", "minLength": 2, "maxLength": 3}, '"axy"'),
        ({"type": "string", "minLength": 1, "maxLength": 1}, '"\\ud83d\\uDe00"'),
        ({"type": "number", "enum": [1, "a", 2.0]}, "2.0"),
        ({"type": "integer", "anyOf": [{"type": "number"}, {"type": "null"}]}, "3"),
        (
            {"type": ["integer", "null"], "$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}},
            "-7",
        ),
        ({"type": "number"}, "-1.25e-300"),
        ({"type": "number"}, "1e+279"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, "null"),
        ({"$ref": "#/$defs/a%25~0", "$defs": {"a%~": {"type": "null"}}}, "null"),
        (
            {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"$ref": "#/anyOf/0"}}]},
            "[true]",
        ),
        ({"const": {"a": [1, "\u2028\x7f"], "b": None}}, '{"a": [1, "\u2028\x7f"], "b": null}'),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3},
            "[null, null]",
        ),
    ],
    ids=str,
)
def test_what_is_of_the_schema_is_accepted(schema: Any, text: str) -> None:
    json.loads(text)
    assert accepts(of_schema(schema), text)


@pytest.mark.parametrize(
    "schemas",
    [
        [{"type": "integer"}, {"type": "number"}],
        [{"type": "integer"}, {"const": 1.0}],
        [{"enum": [1, "a"]}, {"const": "a"}],
        [{"type": "string"}, {"type": ["null", "string"]}],
        [{"type": "object", "properties": {"a": {"type": "null"}}}, {"type": "object"}],
        [{"type": "object", "properties": {n: {"const": n}}} for n in "ab"],
        [{"$ref": "#/$defs/a"}, {"type": "null"}],
    ],
    ids=str,
)
def test_one_of_refuses_what_may_fit_twice(schemas: list[Any]) -> None:
    with pytest.raises(InputError, match=r"schema\.oneOf: a value may fit both 0 and 1"):
        of_schema({"oneOf": schemas, "$defs": {"a": {"anyOf": [{"type": "null"}]}}})


def test_one_of_takes_what_excludes_each_other() -> None:
    kinds = [
        {"type": "object", "properties": {"kind": {"const": k}}, "required": ["kind"]} for k in "ab"
    ]
    closed = {"type": "object", "additionalProperties": False}
    named = {**closed, "properties": {"n": {"type": "null"}}, "required": ["n"]}
    for schemas, text in (
        ([{"type": "integer"}, {"type": "string"}], "1"),
        ([{"enum": [1, "a"]}, {"const": True}, {"type": "array", "items": {"const": 1}}], "true"),
        ([*kinds, {"type": "null"}], '{"kind": "b"}'),
        ([closed, named], '{"n": null}'),
    ):
        assert accepts(of_schema({"oneOf": schemas}), text)


def nested(count: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(count):
        schema = {"type": "array", "items": schema}
    return schema


def lists(count: int) -> Any:
    value: Any = []
    for _ in range(count):
        value = [value]
    return value


def test_values_too_deep_for_a_version_of_python_are_told() -> None:
    for depth in (100, 700, 1500, 5000):
        try:
            of_schema({"oneOf": [{"const": lists(n)} for n in (depth, depth + 1)]})
        except InputError as error:
            assert re.search("is not a value|go too deep", str(error))  # noqa: PT017
            assert depth > 100
        else:
            assert depth < 5000


def test_alternatives_of_other_types_cost_no_more_with_each_level() -> None:
    schema: Any = {"type": "null"}
    for _ in range(38):
        schema = {"type": "string", "anyOf": [schema, schema]}
    with pytest.raises(InputError, match="no type is left"):
        of_schema(schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "5 is not a schema"),
        ({"type": 5}, "a type is needed, .*, not 5"),
        ({"type": [["a"]]}, "a type is needed"),
        ({"type": []}, "a type is needed"),
        ({"$ref": 5}, "5 is not in the schema"),
        ({"$ref": "other.json#/a"}, "is not in the schema"),
        ({"$ref": "#"}, "contains itself"),
        ({"type": "object", "properties": [1]}, "properties are schemas by name"),
        ({"type": "object", "properties": None}, "properties are schemas by name"),
        ({"type": "object", "properties": {1: {"type": "null"}}}, "properties are schemas by name"),
        ({"type": "object", "required": 5}, "required is a list of names"),
        ({"type": "object", "required": "ab"}, "required is a list of names"),
        (
            {"type": "object", "properties": {"a": True}},
            r"schema\.properties\.a: True is not a schema",
        ),
        ({"type": "array", "items": [{"type": "null"}]}, r"schema\.items: \[.*is not a schema"),
        ({"type": "string", "minLength": True}, "minLength and maxLength are counts, not True"),
        ({"type": "string", "maxLength": None}, "minLength and maxLength are counts"),
        ({"type": "string", "maxLength": -1}, "minLength and maxLength are counts"),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 2.5}, "are counts"),
        ({"type": "string", "pattern": 5}, r"schema\.pattern: a regex is a text"),
        ({"type": "string", "pattern": "["}, r"schema\.pattern: .* is not a regex"),
        ({"type": "string", "pattern": "[]a]"}, "Python and ECMAScript read differently"),
        ({"type": "string", "pattern": "a{,3}"}, "Python and ECMAScript read differently"),
        ({"type": "string", "pattern": "(?i)a"}, "Python and ECMAScript read differently"),
        ({"type": "string", "pattern": "a", "minLength": 2}, "the schema matches nothing"),
        ({"type": "string", "enum": [1, None]}, "none of these is string"),
        (
            {"type": "string", "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}},
            "no type is left",
        ),
        ({"enum": "abc"}, "a list that is not empty"),
        ({"anyOf": {"a": 1}}, "a list that is not empty"),
        ({"const": b"x"}, "is not a value of JSON"),
        ({"const": {1: 2}}, "the key 1 is not a text"),
        ({"const": float("nan")}, "numbers must be finite"),
        ({"const": [float("inf")]}, "numbers must be finite"),
        ({"const": "\ud800"}, "half a surrogate pair"),
        ({"type": "object", "properties": {"\ud800": {"type": "null"}}}, "half a surrogate pair"),
        (nested(600), "more than 40 deep: nest them less"),
        (lists(5_000), "is not a schema"),
        ({"const": lists(5_000)}, "is not a value of JSON"),
        ({"type": "string", "oneOf": [{"type": ["string", "object"], "properties": 5}]}, "by name"),
        (
            {"type": "null", "anyOf": [{"type": "array", "items": 5}, {"type": "null"}]},
            "not a schema",
        ),
    ],
)
def test_wrong_kinds_are_told(schema: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        of_schema(schema)


# Limits

STRING = {"type": "string"}


def optional(count: int, schema: Any) -> Any:
    return {"type": "object", "properties": {f"p{n}": schema for n in range(count)}}


@pytest.mark.parametrize(
    ("schema", "states"),
    [
        ({"type": "string", "maxLength": 500}, 10_100),
        (optional(10, STRING), 400),
        (optional(5, optional(5, STRING)), 1_000),
        (optional(3, optional(3, optional(3, optional(3, {"type": "null"})))), 2_500),
        (nested(40 - 1), 200),
    ],
)
def test_everyday_schemas_have_few_states(schema: Any, states: int) -> None:
    assert len(of_schema(schema).table) < states


def doubled(count: int) -> Any:
    """Each definition has two of the next."""
    definitions: Any = {f"d{count}": {"type": "null"}}
    for n in range(count):
        two = {"$ref": f"#/$defs/d{n + 1}"}
        definitions[f"d{n}"] = {
            "type": "object",
            "properties": {"a": two, "b": two},
            "required": ["a", "b"],
        }
    return {"$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "maxLength": 10**12}, "more than 120,000 parts: fewer or smaller"),
        (
            {"type": "string", "maxLength": 2_000},
            "automaton of over 30,000 states: fewer or smaller",
        ),
        ({"type": "array", "items": STRING, "minItems": 10**9}, "more than 120,000 parts"),
        ({"type": "string", "pattern": "(a|b)*a(a|b){14}"}, "automaton of over 30,000 states"),
        ({"type": "string", "pattern": "(a?){2000}"}, "more than 1,000,000 steps"),
        (doubled(18), "more than 120,000 parts"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_too_large_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"the schema: .*{message}"):
        of_schema(schema)


def test_definitions_that_nest_without_an_end_in_sight_are_refused() -> None:
    """Definitions whose references are known when they are read: only the whole is deep."""
    definitions: Any = {"d0": {"type": "null"}}
    for n in range(300):
        definitions[f"d{n + 1}"] = {"type": "array", "items": {"$ref": f"#/$defs/d{n}"}}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in definitions}
    with pytest.raises(InputError, match="more than 250 deep: make it flatter"):
        of_schema({"type": "object", "properties": properties, "$defs": definitions})


def test_the_event_loop_runs_while_an_automaton_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, nfa.SLICE / 100)  # a hundred steps in a slice, on every machine
    monkeypatch.setattr(nfa, "perf_counter", lambda: next(clock))

    async def run() -> int:
        task = asyncio.create_task(
            ByteAutomaton.of(json_of({"type": "string", "maxLength": 300}), "it")
        )
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        await task
        return turns

    assert wait(run()) >= 20
