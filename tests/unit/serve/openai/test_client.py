"""The client: it gets the answers of a Chat, whole and in chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import webpte
from support.docs.document_scopes import sentence_encoder
from support.graphs.graphs import wait
from support.harness import extent
from support.harness.real_time import until
from support.page.chats import Q4, open_chat, open_tokenizer
from webpte.llm.text import ChatTemplate
from webpte_serve.openai import Client, EmbeddingModel, Model, RequestError
from webpte_serve.openai.models import MOST_SCHEMA

ASKED = [{"role": "user", "content": "Hi"}]
# A template that takes tools, in few tokens: the tiny model's context holds 128.
TOOLS = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}<tool_call>{% endif %}"
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}, "b": {"enum": ["x", "y"]}},
            "required": ["a", "b"],
        },
    },
}


@asynccontextmanager
async def client(**given: Any) -> AsyncIterator[Client]:
    async with await webpte.load(Q4, device="numpy") as program:
        yield Client([Model("tiny", program, await open_tokenizer(), **given)])


async def joined(chunks: AsyncIterator[Any]) -> tuple[str, str | None, list[Any]]:
    """Return the text of a stream, why it ended, and its chunks."""
    text, finish, all_chunks = "", None, []
    async for chunk in chunks:
        all_chunks.append(chunk)
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    return text, finish, all_chunks


def test_an_answer_is_that_of_a_chat() -> None:
    async def check() -> None:
        chat = await open_chat()
        expected = await chat.send("Hi", 8, temperature=0.9, seed=5)
        async with client() as found:
            create = found.chat.completions.create
            given = {"model": "tiny", "messages": ASKED, "max_tokens": 8}
            answer = await create(**given, temperature=0.9, seed=5)
            (choice,) = answer["choices"]
            assert choice["message"]["content"] == expected
            assert choice["finish_reason"] == "length"
            assert answer["usage"]["completion_tokens"] == 8
            chunks = await create(**given, temperature=0.9, seed=5, stream=True)
            text, finish, told = await joined(chunks)
            assert (text, finish) == (expected, "length")
            assert told[0]["choices"][0]["delta"]["role"] == "assistant"
            assert len({chunk["id"] for chunk in told}) == 1
            # The prompt was in the cache, but for its last token.
            chunks = await create(**given, stream=True, stream_options={"include_usage": True})
            usage = (await joined(chunks))[2][-1]["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1

    wait(check())


def test_several_choices_have_seeds_of_their_own() -> None:
    async def check() -> None:
        async with client() as found:
            given = {"model": "tiny", "messages": ASKED, "max_tokens": 6}
            three = await found.chat.completions.create(**given, n=3, seed=7)
            texts = [choice["message"]["content"] for choice in three["choices"]]
            assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
            assert len(set(texts)) == 3
            alone = await found.chat.completions.create(**given, seed=8)
            assert alone["choices"][0]["message"]["content"] == texts[1]

    wait(check())


def test_stop_texts_and_logprobs() -> None:
    async def check() -> None:
        async with client() as found:
            given = {"model": "tiny", "messages": ASKED, "temperature": 0, "max_tokens": 8}
            create = found.chat.completions.create
            whole = await create(**given, logprobs=True, top_logprobs=2)
            (choice,) = whole["choices"]
            rows = choice["logprobs"]["content"]
            assert len(rows) == 8
            assert all(len(row["top_logprobs"]) == 2 for row in rows)
            assert all(row["top_logprobs"][0]["logprob"] == row["logprob"] for row in rows)
            told = bytes(byte for row in rows for byte in row["bytes"])
            assert told.decode(errors="replace") == choice["message"]["content"]
            streamed = (await joined(await create(**given, logprobs=True, stream=True)))[2]
            pieces = [chunk["choices"][0]["logprobs"] for chunk in streamed]
            found_rows = [row for piece in pieces if piece for row in piece["content"]]
            assert [row["token"] for row in found_rows] == [row["token"] for row in rows]
            text = choice["message"]["content"]
            cut = await create(**given, stop=[text[-2:]])
            assert cut["choices"][0]["message"]["content"] == text[:-2]
            assert cut["choices"][0]["finish_reason"] == "stop"

    wait(check())


@pytest.mark.parametrize(
    "choice", extent.some([{"type": "function", "function": {"name": "add"}}], "required")
)
def test_a_required_tool_is_called(choice: Any) -> None:
    async def check() -> None:
        async with client(template=await ChatTemplate.load(TOOLS)) as found:
            create = found.chat.completions.create
            given = {"model": "tiny", "messages": ASKED, "tools": [ADD], "tool_choice": choice}
            answer = await create(**given, seed=1)
            (made,) = answer["choices"]
            assert made["finish_reason"] == "tool_calls"
            assert made["message"]["content"] is None
            (call,) = made["message"]["tool_calls"]
            assert call["function"]["name"] == "add"
            arguments = json.loads(call["function"]["arguments"])
            assert arguments["a"] in (1, 2)
            assert arguments["b"] in ("x", "y")
            text, finish, chunks = await joined(await create(**given, seed=1, stream=True))
            assert (text, finish) == ("", "tool_calls")
            deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
            (call,) = [one for delta in deltas for one in delta.get("tool_calls", ())]
            assert (call["index"], json.loads(call["function"]["arguments"])) == (0, arguments)

    wait(check())


def test_an_answer_in_json() -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"]}

    async def check() -> None:
        async with client() as found:
            form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
            answer = await found.chat.completions.create(
                model="tiny", messages=ASKED, response_format=form, seed=3
            )
            assert json.loads(answer["choices"][0]["message"]["content"])["n"] in (1, 22)
            form["json_schema"] = {"schema": {"type": "array", "uniqueItems": True}}
            with pytest.raises(RequestError, match="uniqueItems"):
                await found.chat.completions.create(
                    model="tiny", messages=ASKED, response_format=form
                )

    wait(check())


def test_schemas_are_measured_before_they_are_read() -> None:
    names = [f"name {number}" for number in range(MOST_SCHEMA // 8)]
    table = {"type": "object", "properties": {"a": {"enum": names}}}
    call = {"type": "function", "function": {"name": "rate", "parameters": table}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": table}}

    async def check() -> None:
        async with client(template=await ChatTemplate.load(TOOLS)) as found:
            create = partial(found.chat.completions.create, model="tiny", messages=ASKED)
            with pytest.raises(RequestError, match="schema has more than 131,072 char") as error:
                await create(response_format=form)
            assert error.value.param == "response_format"
            with pytest.raises(RequestError, match="has more than 131,072 characters") as error:
                await create(tools=[call], tool_choice="required")
            assert error.value.param == "tools"

    wait(check())


def test_json_that_no_automaton_can_follow() -> None:
    score = {"type": "integer", "minimum": 1, "maximum": 5}
    more = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
    simple = {"type": "object", "properties": {"score": score}, "required": ["score"]}
    nested = {**simple, "properties": {"score": score, "more": more}}
    rate = {"type": "function", "function": {"name": "rate", "parameters": simple}}

    async def check() -> None:
        async with client(template=await ChatTemplate.load(TOOLS)) as found:
            create = found.chat.completions.create
            given = {"model": "tiny", "messages": ASKED, "seed": 3}
            form = {"type": "json_schema", "json_schema": {"name": "n", "schema": nested}}
            (choice,) = (await create(**given, response_format=form))["choices"]
            assert choice["finish_reason"] in ("stop", "length")  # it may nest until it is full
            if choice["finish_reason"] == "stop":
                assert json.loads(choice["message"]["content"])["score"] in range(1, 6)
            answer = await create(**given, tools=[rate], tool_choice="required")
            (call,) = answer["choices"][0]["message"]["tool_calls"]
            assert json.loads(call["function"]["arguments"])["score"] in range(1, 6)

    wait(check())


def test_embeddings_encode_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        tokenizer, encoded = await open_tokenizer(), list[str]()
        encode = tokenizer.encode

        def counted(text: str, special: bool = True) -> list[int]:
            encoded.append(text)
            return encode(text, special)

        monkeypatch.setattr(tokenizer, "encode", counted)
        async with await webpte.load(sentence_encoder(), device="numpy") as program:
            found = Client([EmbeddingModel("small", program, tokenizer)])
            texts = ["one", "and two", "three of them"]
            answer = await found.embeddings.create(model="small", input=texts)
        assert sorted(encoded) == sorted(texts)
        assert answer["usage"]["prompt_tokens"] == sum(len(encode(text)) for text in texts)
        assert [len(row["embedding"]) for row in answer["data"]] == [8, 8, 8]

    wait(check())


def test_completions_continue_texts() -> None:
    async def check() -> None:
        async with client() as found:
            given = {"model": "tiny", "prompt": ["ab", "cd"], "max_tokens": 4, "seed": 2}
            answer = await found.completions.create(**given, n=2, logprobs=1)
            assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
            assert all(len(one["logprobs"]["tokens"]) == 4 for one in answer["choices"])
            echoed = await found.completions.create(**given, echo=True)
            assert [choice["text"][:2] for choice in echoed["choices"]] == ["ab", "cd"]
            chunks = await found.completions.create(**given, stream=True)
            text = "".join([chunk["choices"][0]["text"] async for chunk in chunks])
            assert text == "".join(choice["text"][2:] for choice in echoed["choices"])

    wait(check())


def test_requests_wait_for_their_turn() -> None:
    async def check() -> None:
        async with client(waiting=1) as found:
            create, model = found.chat.completions.create, found.language_model("tiny")
            given = {"model": "tiny", "messages": ASKED, "max_tokens": 5, "temperature": 0}
            alone = (await create(**given))["choices"]
            stream = await create(**given, stream=True)
            await anext(stream)
            second = asyncio.ensure_future(create(**given))
            await until(lambda: model.waiting == 1)  # requests are read in a thread first
            with pytest.raises(RequestError) as caught:
                await create(**given)
            assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
            assert not second.done()
            second.cancel()
            await asyncio.wait({second})
            third = asyncio.ensure_future(create(**given))  # in the place of the second
            await until(lambda: model.waiting == 1)
            await stream.aclose()  # somebody has gone in the middle
            assert (await third)["choices"] == alone
            assert (await create(**given))["choices"] == alone

    wait(check())


def test_models_and_what_they_cannot() -> None:
    async def check() -> None:
        async with client() as found:
            assert [row["id"] for row in (await found.models.list())["data"]] == ["tiny"]
            assert (await found.models.retrieve("tiny"))["object"] == "model"
            long = [{"role": "user", "content": "word " * 400}]
            for body, code, status in (
                ({"model": "large", "messages": ASKED}, "model_not_found", 404),
                ({"model": "tiny", "messages": long}, "context_length_exceeded", 400),
            ):
                with pytest.raises(RequestError) as caught:
                    await found.chat.completions.create(**body)
                assert (caught.value.code, caught.value.status) == (code, status)
            with pytest.raises(RequestError, match="embeds none"):
                await found.embeddings.create(model="tiny", input="a")

    wait(check())
