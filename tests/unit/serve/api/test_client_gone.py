"""Clients that go away: generation for them ends, and the model is free."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.page.chats import Q4, open_tokenizer
from webpte_serve.api.app import ApiApp
from webpte_serve.openai import Client, Model, answers

ASKED = [{"role": "user", "content": "Hi"}]
BODY = {"model": "tiny", "messages": ASKED, "max_tokens": 60, "seed": 5}
SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "method": "POST",
    "path": "/v1/chat/completions",
    "query_string": b"",
    "headers": [(b"content-type", b"application/json")],
}


class Connection:
    """A client's side of one request, which goes away when `leave` is set."""

    def __init__(self, body: Any) -> None:
        self.leave = asyncio.Event()
        self.status = 0
        self._body: bytes | None = json.dumps(body).encode()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


@pytest.mark.parametrize(("steps", "stream"), [(0, False), (0, True), (2, False)])
def test_an_answer_ends_when_its_client_has_gone(
    monkeypatch: pytest.MonkeyPatch, steps: int, stream: bool
) -> None:
    """An answer that still waits for its turn, before the first step, ends as well."""

    async def run() -> None:
        gone, later = Connection({**BODY, "stream": stream}), Connection({**BODY, "max_tokens": 2})
        seen, original = list[Any](), answers._steps

        async def counted(reply: Any) -> AsyncIterator[Any]:
            async for piece in original(reply):
                seen.append(piece)
                if len(seen) == steps:
                    gone.leave.set()
                yield piece

        monkeypatch.setattr(answers, "_steps", counted)
        async with await webpte.load(Q4, device="numpy") as program:
            model = Model("tiny", program, await open_tokenizer())
            app = ApiApp(Client([model]))
            async with model.queue.turn():  # both wait
                if steps == 0:
                    gone.leave.set()
                first = asyncio.ensure_future(app.asgi(SCOPE, gone.receive, gone.send))
                await asyncio.sleep(0.01)
                second = asyncio.ensure_future(app.asgi(SCOPE, later.receive, later.send))
                if steps == 0:
                    await first
                    assert not seen
            await asyncio.gather(first, second)
            assert gone.status == 499
            assert len(seen) < 20
            assert later.status == 200
            assert model.queue.waiting == 0
            told = app._metrics.text([model]).decode()
            assert 'webpte_requests_total{path="/v1/chat/completions",status="499"} 1.0' in told

    wait(run())


def test_an_error_is_told_to_a_client_that_stays() -> None:
    async def run() -> None:
        connection = Connection({**BODY, "model": "other"})
        async with await webpte.load(Q4, device="numpy") as program:
            app = ApiApp(Client([Model("tiny", program, await open_tokenizer())]))
            await app.asgi(SCOPE, connection.receive, connection.send)
        assert connection.status == 404

    wait(run())
