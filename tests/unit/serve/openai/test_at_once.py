"""Requests that share the steps of a model: each gets the answer that it gets alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.harness.real_time import until
from support.harness.virtual_time import run_virtually
from support.page.chats import Q4, open_tokenizer
from webpte.llm import Scheduler
from webpte_serve.openai import Client, Model, RequestError


def body(n: int, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "Hi" * n}
    asked = {"temperature": 0.9, "seed": n, "max_tokens": 3 + n}
    return {"model": "tiny", "messages": [message], **asked, **more}


async def text_of(client: Client, given: dict[str, Any]) -> str:
    if not given.get("stream"):
        answer = await client.chat.completions.create(**given)
        return str(answer["choices"][0]["message"]["content"])
    chunks, text = await client.chat.completions.create(**given), ""
    async for chunk in chunks:
        text += "".join(c["delta"].get("content") or "" for c in chunk["choices"])
    return text


def test_answers_are_those_of_one_request_after_the_other() -> None:
    """Also streams, and one with log-probabilities, which is answered alone beside them."""

    async def run() -> None:
        given = [body(1), body(2, stream=True), body(3, logprobs=True), body(4, stop=["e"])]
        async with await webpte.load(Q4, device="numpy") as program:
            tokenizer = await open_tokenizer()
            one_by_one = Client([Model("tiny", program, tokenizer)])
            wanted = [await text_of(one_by_one, one) for one in given]
            model = Model("tiny", program, tokenizer, slots=2)
            await model.prepare()
            assert model.one_by_one is None
            client = Client([model])
            assert await asyncio.gather(*(text_of(client, one) for one in given)) == wanted
            assert model.running == model.waiting == 0

    wait(run())


def test_too_many_requests_are_refused() -> None:
    async def run() -> None:
        async with await webpte.load(Q4, device="numpy") as program:
            model = Model("tiny", program, await open_tokenizer(), slots=2, waiting=1)
            client = Client([model])
            asked = [asyncio.ensure_future(text_of(client, body(n))) for n in range(1, 6)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            refused = [one for one in found if isinstance(one, RequestError)]
            assert len(refused) == 2  # two are answered, and one waits
            assert {error.status for error in refused} == {429}

    run_virtually(run())  # threads, in which requests are read, would let them come one by one


def test_a_stream_that_is_closed_frees_its_slot() -> None:
    async def run() -> None:
        async with await webpte.load(Q4, device="numpy") as program:
            model = Model("tiny", program, await open_tokenizer(), slots=2)
            chunks = await Client([model]).chat.completions.create(
                **body(1, stream=True, max_tokens=60)
            )
            await anext(chunks)
            assert model.running == 1
            await chunks.aclose()
            await until(lambda: model.running == 0)

    wait(run())


def test_a_program_that_cannot_is_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: Scheduler) -> None:
        async with await webpte.load(small_llm(mask=True), device="numpy") as other:
            await original(Scheduler(other))

    original = Scheduler.prepare
    monkeypatch.setattr(Scheduler, "prepare", refuse)

    async def run() -> None:
        async with await webpte.load(Q4, device="numpy") as program:
            model = Model("tiny", program, await open_tokenizer(), slots=2)
            await model.prepare()
            assert model.one_by_one is not None
            assert "its mask says" in model.one_by_one
            assert await text_of(Client([model]), body(1))

    wait(run())
