"""Odd requests: each is told an error in JSON, which is counted."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import webpte
from support.api.asgi_requests import JSON, ask
from support.docs.document_scopes import sentence_encoder
from support.graphs.graphs import wait
from support.harness import limits
from support.page.chats import Q4, open_tokenizer
from webpte.llm.text import ChatTemplate
from webpte_serve.api import guards
from webpte_serve.api.app import ApiApp
from webpte_serve.openai import Client, EmbeddingModel, Model

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SAID = [{"role": "user", "content": "Hi"}]
HUGE = 10**400
TOOLS: list[Any] = [{"type": "function", "function": {"name": "a"}}]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def part(given: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [given]}]}


@asynccontextmanager
async def application(**given: Any) -> AsyncIterator[ApiApp]:
    tokenizer = await open_tokenizer()
    template = await ChatTemplate.load(TEMPLATE)
    async with (
        await webpte.load(Q4, device="numpy") as program,
        await webpte.load(sentence_encoder(), device="numpy") as encoder,
    ):
        model = Model("tiny", program, tokenizer, template=template)
        yield ApiApp(Client([model, EmbeddingModel("words", encoder, tokenizer)]), **given)


def counted(app: ApiApp, path: str, status: int) -> int:
    told = app._metrics.text([]).decode()
    name = f'webpte_requests_total{{path="{path}",status="{status}"}} '
    return sum(
        round(float(line[len(name) :])) for line in told.splitlines() if line.startswith(name)
    )


@pytest.mark.parametrize("stream", [False, True])
def test_each_is_a_400(stream: bool) -> None:
    chats: list[dict[str, Any]] = [
        *({name: HUGE} for name in ("seed", "max_tokens", "top_k", "temperature", "n")),
        {"self": 1},
        {"\ud800": 1},
        {"stop": 5},
        {"extra_body": {"\ud800": 1}},
        {"chat_template_kwargs": {"messages": []}},
        *[part("text"), part({"type": "text", "text": None}), part({"type": ["text"]})],
        *({"tools": TOOLS, "tool_choice": {"function": {"name": n}}} for n in (["a"], {"a": 1})),
        {"tools": [{"type": "function", "function": {"name": "a", "description": {}}}]},
        {"messages": [{"role": {}, "content": "x"}]},
        {"messages": [{"role": "user", "content": "a" * 1_000_000}]},
    ]

    async def run() -> None:
        async with application() as app:
            for number, odd in enumerate(chats, 1):
                body = {"model": "tiny", "messages": SAID, "stream": stream, **odd}
                status, told = await ask(app.asgi, CHAT, body)
                error = json.loads(told)["error"]
                assert (status, error["type"]) == (400, "invalid_request_error"), odd
                assert counted(app, CHAT, 400) == number
                assert len(told) < 5000

    wait(run())


def test_variables_may_have_any_other_name() -> None:
    async def run() -> None:
        async with application() as app:
            named = {"self": 1, "continued": True, "template": 2}
            body = {"model": "tiny", "messages": SAID, "max_tokens": 1}
            status, told = await ask(app.asgi, CHAT, {**body, "chat_template_kwargs": named})
            assert status == 200, told

    wait(run())


def test_lone_surrogates_are_answered() -> None:
    async def run() -> None:
        async with application() as app:
            for stream in (False, True):
                body = {"model": "tiny", "prompt": "a\ud800", "max_tokens": 1, "echo": True}
                status, told = await ask(app.asgi, TEXT, {**body, "stream": stream})
                assert status == 200
                assert "a\ufffd" in told.decode()
                assert not stream or told.endswith(b"data: [DONE]\n\n")

    wait(run())


def test_an_error_that_nobody_expected_is_told_logged_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("a secret")

    async def run() -> None:
        async with application() as app:
            model = app._client.language_model("tiny")
            monkeypatch.setattr(model, "answer", fail)
            monkeypatch.setattr(app._client.models, "retrieve", fail)
            body = {"model": "tiny", "messages": SAID}
            for number, stream in enumerate((False, True), 1):
                status, told = await ask(app.asgi, CHAT, {**body, "stream": stream})
                assert status == 500
                assert json.loads(told)["error"]["type"] == "server_error"
                assert b"secret" not in told
                assert counted(app, CHAT, 500) == number
                assert model.queue.waiting == 0

    with caplog.at_level(logging.ERROR):
        wait(run())
    assert "a secret" in caplog.text


def test_pages_of_other_sites_cannot_post() -> None:
    async def run() -> None:
        async with application(origins=["https://good.example"]) as app:
            body = {"model": "tiny", "messages": SAID, "max_tokens": 1}
            for headers, status in (
                ({**JSON, "origin": "https://good.example"}, 200),
                ({"content-type": "application/json; charset=utf-8"}, 200),
                ({**JSON, "origin": "https://evil.example"}, 403),
                ({**JSON, "origin": "null"}, 403),
                ({"content-type": "text/plain"}, 415),
                ({"content-type": "multipart/form-data; boundary=a"}, 415),
                ({}, 415),
            ):
                found, told = await ask(app.asgi, CHAT, body, headers)
                assert found == status, headers
                assert status == 200 or "error" in json.loads(told)
            assert counted(app, CHAT, 403) == 2
            assert counted(app, CHAT, 415) == 3

    wait(run())


def test_addresses_that_are_not_there_are_counted_together() -> None:
    async def run() -> None:
        async with application() as app:
            assert (await ask(app.asgi, "/v1/nothing", {}))[0] == 404
            assert (await ask(app.asgi, "/v1/nothing", b"", {}, "GET"))[0] == 404
            assert (await ask(app.asgi, CHAT, b"", {}, "GET"))[0] == 405
            assert (await ask(app.asgi, "/v1/models/none", b"", {}, "GET"))[0] == 404
            assert counted(app, "other", 404) == 3
            assert counted(app, CHAT, 405) == 1

    wait(run())


def test_a_body_that_does_not_come_is_a_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.05)

    async def run() -> None:
        async with application() as app:
            assert (await ask(app.asgi, CHAT, None))[0] == 408
            assert counted(app, CHAT, 408) == 1

    wait(run())


def test_lists_have_a_limit() -> None:
    async def run() -> None:
        async with application() as app:
            many = ["a"] * 2049
            ranked = {"model": "words", "query": "a", "documents": many}
            for path, body in (
                (EMBED, {"model": "words", "input": many}),
                ("/v1/rerank", ranked),
                ("/v1/rerank", {**ranked, "documents": ["a", ""]}),
            ):
                assert (await ask(app.asgi, path, body))[0] == 400
            status, told = await ask(app.asgi, EMBED, {"model": "words", "input": many[1:]})
            assert (status, len(json.loads(told)["data"])) == (200, 2048)

    wait(run())


def test_others_are_answered_while_a_text_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoding waits for a thing that happens in the event loop, which it must not hold."""

    async def run() -> None:
        async with application() as app:
            answered, model = asyncio.Event(), app._client.language_model("tiny")
            loop, original = asyncio.get_running_loop(), model.tokenizer.encode

            def encode(text: str, special: bool = True) -> list[int]:
                waiting = asyncio.run_coroutine_threadsafe(answered.wait(), loop)
                assert waiting.result(limits.SOCKET_SECONDS)
                return original(text, special)

            monkeypatch.setattr(model.tokenizer, "encode", encode)
            body = {"model": "tiny", "max_tokens": 1}
            asked = [
                asyncio.ensure_future(ask(app.asgi, path, {**body, **more}))
                for path, more in ((CHAT, {"messages": SAID}), (TEXT, {"prompt": "a"}))
            ]
            assert (await ask(app.asgi, "/health", b"", {}, "GET"))[0] == 200
            answered.set()
            assert [status for status, _ in await asyncio.gather(*asked)] == [200, 200]

    wait(run())


def test_a_text_that_cannot_fit_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with application() as app:
            tokenizer = app._client.language_model("tiny").tokenizer

            def encode(text: str, special: bool = True) -> list[int]:
                raise AssertionError("it was encoded")

            monkeypatch.setattr(tokenizer, "encode", encode)
            text = "word " * 100_000
            said = [{"role": "user", "content": text}]
            for path, more in ((CHAT, {"messages": said}), (TEXT, {"prompt": text})):
                status, told = await ask(app.asgi, path, {"model": "tiny", **more})
                error = json.loads(told)["error"]
                assert (status, error["code"]) == (400, "context_length_exceeded")

    wait(run())
