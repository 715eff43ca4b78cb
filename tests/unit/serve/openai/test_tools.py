"""Calls of tools: found in an answer however it is cut into pieces, and required of one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from support.graphs.graphs import wait
from webpte.llm.constrain.automaton import ByteAutomaton
from webpte.llm.constrain.expression import Expression
from webpte.llm.constrain.json_schema import ANY_DEPTH as DEPTH
from webpte.llm.constrain.json_schema import any_object
from webpte_serve.openai.gemma_calls import GemmaCallError, as_schema_says, read_call
from webpte_serve.openai.tools import (
    FUNCTION_GEMMA,
    GEMMA,
    HERMES,
    LLAMA,
    TOLD,
    AnswerParser,
    Tool,
    ToolCall,
    ToolFormat,
    format_of,
)

ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
NOW = Tool("now", "", {"type": "object", "properties": {}})
CALL, SECOND = ToolCall("add", '{"a": 1}'), ToolCall("now", "{}")
ONE = '{"name": "add", "arguments": {"a": 1}}'
TWO = '{"name": "now", "arguments": {}}'


def parsed(format: ToolFormat, pieces: Sequence[str]) -> list[str | ToolCall]:
    """Return the calls, and the texts between them."""
    parser, found = AnswerParser(format, [ADD, NOW]), list[str | ToolCall]()
    for one in [*(one for piece in pieces for one in parser.feed(piece)), *parser.finish()]:
        if isinstance(one, str) and found and isinstance(found[-1], str):
            found[-1] += one
        else:
            found.append(one)
    return found


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        (HERMES, "Just text, 1 < 2.", ["Just text, 1 < 2."]),
        (HERMES, f"<tool_call>\n{ONE}\n</tool_call>", [CALL]),
        (HERMES, f"Well:\n<tool_call>{ONE}</tool_call>", ["Well:", CALL]),
        (HERMES, f"<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>", [CALL, SECOND]),
        (HERMES, f"<tool_call>\n{ONE}", [CALL]),  # the end token was its end
        (HERMES, "<tool_call>no JSON</tool_call>", ["<tool_call>no JSON</tool_call>"]),
        (
            HERMES,
            '<tool_call>{"name": "rm"}</tool_call>',
            ['<tool_call>{"name": "rm"}</tool_call>'],
        ),
        (HERMES, f"<tool_call>{ONE}</tool_call>\n", [CALL]),
        (GEMMA, "<|tool_call>call:add{a:1}<tool_call|>", [CALL]),
        (GEMMA, "Well: <|tool_call>call:add{a:1}<tool_call|>", ["Well:", CALL]),
        (GEMMA, "<|tool_call>call:now{}<tool_call|>", [SECOND]),
        (GEMMA, '<|tool_call>call:add{"a": 1}<tool_call|>', [CALL]),
        (GEMMA, "<|tool_call>call:rm{}<tool_call|>", ["<|tool_call>call:rm{}<tool_call|>"]),
        (GEMMA, "<|tool_call>add{a:1}<tool_call|>", ["<|tool_call>add{a:1}<tool_call|>"]),
        (FUNCTION_GEMMA, "<start_function_call>call:add{a:1}<end_function_call>", [CALL]),
        (HERMES, f"<tool_call>{ONE}</tool_call>\nDone", [CALL, "\nDone"]),
        (HERMES, "a <tool_", ["a <tool_"]),
        (HERMES, " a\n ", [" a\n "]),
        (HERMES, "", []),
        (LLAMA, '{"name": "add", "parameters": {"a": 1}}', [CALL]),
        (LLAMA, '\n{"name": "add", "parameters": {"a": 1}}; ' + TWO, [CALL, SECOND]),
        (LLAMA, '{"a": 1}', ['{"a": 1}']),
        (LLAMA, f"It is {ONE}", [f"It is {ONE}"]),
        (TOLD, f"```tool_call\n{ONE}\n```", [CALL]),
        (TOLD, "```python\nx\n```", ["```python\nx\n```"]),
    ],
)
def test_calls_are_found_wherever_the_text_is_cut(
    format: ToolFormat, text: str, expected: list[str | ToolCall]
) -> None:
    assert parsed(format, [text]) == expected
    assert parsed(format, list(text)) == expected
    for at in range(len(text)):
        assert parsed(format, [text[:at], text[at:]]) == expected


def test_text_is_not_held_back_for_longer_than_needed() -> None:
    parser = AnswerParser(HERMES, [ADD])
    assert list(parser.feed("a < b")) == ["a < b"]
    assert list(parser.feed(" <tool")) == []
    assert list(parser.feed("s>")) == [" <tools>"]


def test_the_template_says_how_calls_are_written() -> None:
    assert format_of("{{ tools }} <tool_call>") is HERMES
    assert format_of("{% if tools is not none %}") is LLAMA
    assert format_of("{{ messages }}") is TOLD
    assert "add" in TOLD.instructions([ADD])


def matches(expression: Expression, text: str) -> bool:
    automaton = wait(ByteAutomaton.of(expression, "it"))
    state = automaton.after(automaton.start, text.encode())
    return bool(automaton.accepts[state])


@pytest.mark.parametrize("format", [HERMES, LLAMA, TOLD])
def test_a_required_call_is_one_that_is_found(format: ToolFormat) -> None:
    call = format.call_of([ADD, NOW]).expression()
    good = json.dumps({"name": "add", format.key: {"a": 1}})
    assert matches(call, f"{format.begin}{good}{format.end}")
    assert parsed(format, [f"{format.begin}{good}{format.end}"]) == [CALL]
    for wrong in ({"name": "rm", format.key: {}}, {"name": "add", format.key: {"a": "x"}}):
        assert not matches(call, f"{format.begin}{json.dumps(wrong)}{format.end}")


def nested(depth: int) -> object:
    return {"a": nested(depth - 1)} if depth else 1


def test_any_object() -> None:
    values = [{}, {"a": 1}, {"a": [1, None, {"b": "\n"}], "c": -1.5e3}, nested(DEPTH)]
    for value in values:
        assert matches(any_object(), json.dumps(value))
    for text in ("[1]", '{"a": }', '{"a": 1', '{"a": 1,}', json.dumps(nested(DEPTH + 1))):
        assert not matches(any_object(), text)


QUOTE = '<|"|>'
PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"code": {"type": "string"}}},
    },
}


def test_arguments_of_gemma() -> None:
    q = QUOTE
    text = f"call:go{{city:{q}Rio, {{x}}{q}, days: 3 ,tags:[1,{q}b]{q}],at:{{code:007,x:1.5}}}}"
    name, given = read_call(text, q)
    assert name == "go"
    assert as_schema_says(given, PLACE) == {
        "city": "Rio, {x}",
        "days": 3,
        "tags": ["1", "b]"],
        "at": {"code": "007", "x": 1.5},
    }
    words = read_call("call:go{a:true,b:null,c:1_0,d:nan,e:Rome}", q)[1]
    expected = {"a": True, "b": None, "c": "1_0", "d": "nan", "e": "Rome"}
    assert as_schema_says(words, None) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "call:go", "call:{}", "go{}", "call:go{a:1", "call:go{a}", "call:go{:1}"),
        *("call:go{a:1}}", "call:go{a:1 b:2", "call:go{a:[1,2}", f"call:go{{a:{QUOTE}x}}"),
        "call:go{a:" + "[" * 9000,
    ],
)
def test_what_is_no_call_of_gemma(text: str) -> None:
    with pytest.raises(GemmaCallError):
        read_call(text, QUOTE)


def test_templates_of_gemma() -> None:
    assert format_of("{{ '<|tool_call>call:' + name }}") is GEMMA
    assert format_of("<start_function_call>call:{{ tools }}") is FUNCTION_GEMMA
    (form,) = GEMMA.call_of([ADD]).forms
    assert (form.before, form.after) == ("<|tool_call>call:add", "<tool_call|>")
