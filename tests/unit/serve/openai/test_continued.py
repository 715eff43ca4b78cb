"""Answers that have begun, match a regex, or follow messages that templates do not take."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness.image_text_cases import models_folder
from support.page.chats import Q4, open_tokenizer
from webpte import load
from webpte.errors import InputError
from webpte.llm.text import ChatTemplate
from webpte_serve.openai import Client, Model, RequestError, open_model
from webpte_serve.openai.messages import in_turns, without_system
from webpte_serve.openai.models import _with_fixed_spaces
from webpte_serve.openai.requests import chat_request

# Takes no system message, and user and assistant in turn only.
STRICT = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) or m.role == "
    "'system' %}{{ raise_exception('in turn, please') }}{% endif %}<{{ m.role[0] }}>{{ m.content }}"
    "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be brief."}


def begun(text: str) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", "content": text}]


async def tiny(source: str = STRICT) -> Client:
    program = await load(Q4, device="numpy")
    template = await ChatTemplate.load(source)
    return Client([Model("tiny", program, await open_tokenizer(), template=template)])


def test_an_answer_goes_on_where_the_last_message_ends() -> None:
    async def check() -> None:
        client = await tiny()
        given: dict[str, Any] = {"model": "tiny", "messages": begun("A cow")}
        model = client.language_model("tiny")
        request = chat_request({**given, "continue_final_message": True})
        prompt = await model.chat_prompt(request)
        assert model.tokenizer.decode(prompt.tokens, special=True).endswith("<u>Hi<a>A cow")
        told = await client.tokenize(**given, continue_final_message=True)
        assert told["count"] == len(prompt.tokens)
        answer = await client.chat.completions.create(
            **given, continue_final_message=True, max_tokens=4
        )
        assert answer["usage"]["prompt_tokens"] == told["count"]

    wait(check())


def test_a_regex_holds_for_the_whole_answer() -> None:
    async def check() -> None:
        client = await tiny()
        create = client.chat.completions.create
        given: dict[str, Any] = {
            "model": "tiny",
            "seed": 3,
            "structured_outputs": {"regex": "ab+c"},
        }
        found = await create(**given, messages=[USER])
        assert re.fullmatch("ab+c", found["choices"][0]["message"]["content"])
        continued = await create(**given, messages=begun("ab"), continue_final_message=True)
        assert re.fullmatch("b*c", continued["choices"][0]["message"]["content"])
        with pytest.raises(RequestError, match="beginning of the answer does not fit"):
            await create(**given, messages=begun("x"), continue_final_message=True)
        with pytest.raises(RequestError, match="structured_outputs"):
            await create(model="tiny", messages=[USER], structured_outputs={"regex": "("})

    wait(check())


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"structured_outputs": {"grammar": "x"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs"),
        (
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            "structured_outputs",
        ),
        ({"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat_request({"model": "tiny", "messages": [USER], **changed})
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ('{ "Rating": ', '{"Rating": '),
        ('{ "Rating":', '{"Rating":'),
        ('{"a" :[1 ,2,\n', '{"a": [1, 2, '),
        ('{"a b,c": "x:y', '{"a b,c": "x:y'),
        ('{"a\\" , :b": 1, "c', '{"a\\" , :b": 1, "c'),
        (" 12", "12"),
    ],
)
def test_a_beginning_of_json_gets_the_spaces_of_answers(given: str, written: str) -> None:
    assert _with_fixed_spaces(given) == written


def test_json_goes_on_after_other_spaces() -> None:
    async def check() -> None:
        client = await tiny()
        schema = {"type": "object", "properties": {"a": {"enum": [1, 22]}}, "required": ["a"]}
        format = {"type": "json_schema", "json_schema": {"schema": schema}}
        answer = await client.chat.completions.create(
            model="tiny",
            messages=begun('{ "a":  '),
            continue_final_message=True,
            response_format=format,
        )
        said = answer["choices"][0]["message"]["content"]
        assert json.loads('{ "a":  ' + said)["a"] in (1, 22)

    wait(check())


def test_templates_get_messages_in_turns() -> None:
    async def check() -> None:
        client = await tiny()
        model = client.language_model("tiny")

        async def text(*messages: Any) -> str:
            request = chat_request({"model": "tiny", "messages": list(messages)})
            prompt = await model.chat_prompt(request)
            return model.tokenizer.decode(prompt.tokens, special=True)

        plain = await text({"role": "user", "content": "Be brief.\n\nHi"})
        assert await text(SYSTEM, USER) == plain
        twice = await text({"role": "user", "content": "Hi\n\nHi"})
        assert await text(USER, USER) == twice
        with pytest.raises(RequestError, match="in turn, please"):
            await text({"role": "assistant", "content": "Hello"})

    wait(check())


def test_messages_are_joined_but_for_calls() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{}]}
    part = {"type": "text", "text": "x"}
    assert without_system([SYSTEM]) == [{"role": "user", "content": "Be brief."}]
    listed = {"role": "user", "content": [part]}
    (joined,) = without_system([SYSTEM, listed])
    assert joined["content"] == [{"type": "text", "text": "Be brief."}, part]
    assert in_turns([USER, call, call]) == [USER, call, call]
    assert in_turns([USER, USER, call]) == [{"role": "user", "content": "Hi\n\nHi"}, call]


def test_tokens_are_counted_however_many_there_are() -> None:
    async def check() -> None:
        client = await tiny()
        context = client.language_model("tiny").max_context
        told = await client.tokenize(model="tiny", messages=[USER])
        bare = await client.tokenize(model="tiny", messages=[USER], add_generation_prompt=False)
        assert told["max_model_len"] == context
        assert bare["count"] < told["count"]
        usage = await client.chat.completions.create(model="tiny", messages=[USER], max_tokens=1)
        assert usage["usage"]["prompt_tokens"] == told["count"]
        long = {"role": "user", "content": "Hi " * 9000}
        assert (await client.tokenize(model="tiny", messages=[long]))["count"] > 9000
        # A template that wants a question gets one.
        alone = {"role": "assistant", "content": "Hello"}
        with pytest.raises(RequestError):
            await client.tokenize(model="tiny", messages=[alone])

    wait(check())


def test_a_picture_is_read_once_for_several_requests() -> None:
    async def check() -> None:
        model = await open_model(models_folder() / "patches", name="sees", device="numpy")
        client = Client([model])
        pixels = np.arange(23 * 61 * 3).reshape(23, 61, 3).astype(np.uint8)
        seen = await client.picture("sees", pixels)
        assert (seen.height, seen.width) == (23, 61)
        parts = [{"type": "image_url", "image_url": {"url": seen}}, {"type": "text", "text": "?"}]
        given: dict[str, Any] = {"model": "sees", "max_tokens": 3, "temperature": 0}
        messages: list[Any] = [{"role": "user", "content": parts}]
        first = await client.chat.completions.create(**given, messages=messages)
        cached = first["usage"]["prompt_tokens_details"]["cached_tokens"]
        again = await client.chat.completions.create(**given, messages=messages)
        assert again["choices"][0]["message"] == first["choices"][0]["message"]
        usage = again["usage"]
        assert (
            usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1 > cached
        )
        assert (await client.tokenize(model="sees", messages=messages))["count"] == usage[
            "prompt_tokens"
        ]
        seen.close()
        seen.close()
        with pytest.raises(InputError, match="picture was closed"):
            await client.chat.completions.create(**given, messages=messages)
        tiny_client = await tiny()
        with pytest.raises(RequestError, match="sees no pictures"):
            await tiny_client.picture("tiny", pixels)
        model.program.close()

    wait(check())
