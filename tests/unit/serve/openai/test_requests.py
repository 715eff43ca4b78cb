"""Requests of OpenAI's API: fields that are taken, and fields that are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from webpte_serve.openai import RequestError
from webpte_serve.openai.requests import chat_request, completion_request, embedding_request

ASKED = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def chat(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": ASKED, **more}


def test_a_request_with_everything() -> None:
    request = chat_request(
        chat(
            max_tokens=9,
            max_completion_tokens=7,
            temperature=0.5,
            top_p=1,
            n=2,
            seed=-3,
            stop="END",
            stream=True,
            stream_options={"include_usage": True},
            logprobs=True,
            top_logprobs=4,
            tools=[TOOL],
            tool_choice="required",
            user="someone",
            prediction={"type": "content", "content": "Hello"},
            presence_penalty=0,
        )
    )
    decoding = request.decoding
    assert (decoding.max_new_tokens, decoding.choices, decoding.stop) == (7, 2, ("END",))
    assert decoding.options(0)["seed"] == (1 << 32) - 3
    assert decoding.options(1)["seed"] == (1 << 32) - 2
    assert decoding.options(0)["top_p"] is None
    assert (decoding.stream, decoding.include_usage) == (True, True)
    assert (request.top, request.tool_choice.name) == (4, "")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"messages": ASKED}, "model: must be given"),
        (chat(messages="hi"), 'messages: must be a list, not "hi"'),
        (chat(messages=[]), "messages: must have at least one message"),
        (chat(messages=["hi"]), "messages[0]: must be an object"),
        (chat(messages=[{"role": "user"}]), "messages[0].content: must be"),
        (chat(temperature="hot"), 'temperature: must be a number from 0 to 2, not "hot"'),
        (chat(tools={}), "tools: must be a list, not"),
        (chat(top_logprobs=2), "top_logprobs: needs logprobs to be true"),
    ],
)
def test_errors_say_what_a_parameter_must_be(body: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat_request(body)
    assert str(caught.value).startswith(told)


def test_null_is_as_if_it_were_not_given() -> None:
    names = ("temperature", "n", "stop", "tools", "tool_choice", "response_format", "logit_bias")
    given = chat_request(chat(**dict.fromkeys(names)))
    assert given == chat_request(chat())
    assert given.decoding.sampling["temperature"] == 1


def test_messages_become_what_templates_take() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    request = chat_request(
        chat(
            messages=[
                {"role": "developer", "content": [{"type": "text", "text": "Be "}] * 2},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
            ]
        )
    )
    told = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert request.messages == [
        {"role": "system", "content": "Be Be "},
        {"role": "assistant", "content": "", "tool_calls": [told]},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "nobody", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0]",
        ),
        ({"messages": [{"role": "tool", "content": "1"}]}, "messages[0].tool_call_id"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 99}, "n"),
        ({"n": 1.5}, "n"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream_options": {}}, "stream_options"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": "high"}, "presence_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"yes": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": {str(i): 1 for i in range(2000)}}, "logit_bias"),
        ({"extra_body": {"speed": 2}}, "extra_body"),
        ({"response_format": {"type": "json_object", "schema": "{"}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": [1]}}, "response_format"),
        ({"colour": "red"}, "colour"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"function": {"name": "sub"}}}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "search"}]}, "tools[0]"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat_request(chat(**change))
    assert caught.value.param == param
    assert caught.value.status == 400
    told = caught.value.body["error"]
    assert told["param"] == param
    assert told["message"].startswith(f"{param}: ")


def test_prompts_are_texts_or_tokens() -> None:
    def prompts(prompt: Any) -> Any:
        return completion_request({"model": "tiny", "prompt": prompt}).prompts

    assert prompts("a") == ["a"]
    assert prompts(["a", "b"]) == ["a", "b"]
    assert prompts([1, 2]) == [[1, 2]]
    assert prompts([[1, 2], "a"]) == [[1, 2], "a"]
    refused: list[Any] = [[], [True], [1.5], {}, [["a"]]]
    for wrong in refused:
        with pytest.raises(RequestError):
            prompts(wrong)


@pytest.mark.parametrize("change", [{"input": []}, {"input": [""]}, {"dimensions": 5}])
def test_embeddings_take_texts(change: dict[str, Any]) -> None:
    request = embedding_request({"model": "m", "input": "a", "encoding_format": "base64"})
    assert (request.texts, request.as_base64) == (["a"], True)
    with pytest.raises(RequestError):
        embedding_request({"model": "m", "input": "a", **change})
