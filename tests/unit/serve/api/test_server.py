"""The HTTP server: it waits for no client without end, and stops quietly."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import limits
from support.harness.real_time import until
from support.page.chats import Q4, open_tokenizer
from webpte_serve.api import guards, server
from webpte_serve.api.app import ApiApp
from webpte_serve.api.server import ApiServer
from webpte_serve.openai import Client, Model, answers

SHORT = 0.1  # seconds, in place of the limits
PATH = "/v1/completions"
BODY = {"model": "tiny", "prompt": "a", "max_tokens": 100, "temperature": 0}


@asynccontextmanager
async def running() -> AsyncIterator[tuple[ApiServer, ApiApp, int]]:
    """Serve the tiny model; yields the server, its application and port."""
    async with await webpte.load(Q4, device="numpy") as program:
        app = ApiApp(Client([Model("tiny", program, await open_tokenizer())]))
        made = ApiServer(app, "127.0.0.1", 0)
        serving = asyncio.ensure_future(made.serve())
        while not made.started:
            await asyncio.sleep(0.01)
        try:
            yield made, app, made.servers[0].sockets[0].getsockname()[1]
        finally:
            made.should_exit = True
            await serving


def request(body: Any, length: int | None = None) -> bytes:
    data = json.dumps(body).encode()
    size = len(data) if length is None else length
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + data


async def connect(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def rest(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), limits.SOCKET_SECONDS)


async def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have answers go on until they are ended."""
    original = answers._steps

    async def steps(reply: Any) -> AsyncIterator[Any]:
        async for piece in original(reply):
            while piece.finish is None:
                yield replace(piece, text="a" * 100_000)  # soon more than sockets hold
                await asyncio.sleep(0.001)
            yield piece

    monkeypatch.setattr(answers, "_steps", steps)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/comp", request(BODY, 100_000)])
def test_connections_that_send_no_request_are_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", SHORT)
    monkeypatch.setattr(guards, "BODY_SECONDS", SHORT)
    monkeypatch.setattr(guards, "_SLOWEST", 1 << 30)

    async def run() -> None:
        async with running() as (_, _, port):
            reader, writer = await connect(port, sent)
            told = await rest(reader)
            assert told.startswith(b"HTTP/1.1 408") == sent.endswith(b"}")
            writer.close()

    wait(run())


def test_a_connection_answers_one_request_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with running() as (_, _, port):
            short = {**BODY, "max_tokens": 1}
            reader, writer = await connect(port, request(short) * 3)
            for _ in range(3):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), limits.SOCKET_SECONDS)
                assert head.startswith(b"HTTP/1.1 200")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                assert json.loads(await reader.readexactly(length))["choices"]
            writer.close()

    wait(run())


def test_clients_that_leave_or_do_not_read_count_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", SHORT)

    async def run() -> None:
        await endless(monkeypatch)
        async with running() as (_, app, port):
            stream = request({**BODY, "stream": True})
            reader, writer = await connect(port, stream)
            await reader.readuntil(b"data: ")
            writer.transport.abort()
            counted = f'webpte_requests_total{{path="{PATH}",status="499"}} '
            await until(lambda: f"{counted}1.0" in app._metrics.text([]).decode())
            _, silent = await connect(port, stream)
            silent.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: f"{counted}2.0" in app._metrics.text([]).decode())
            silent.close()

    wait(run())


@pytest.mark.parametrize("twice", [False, True])
def test_a_stop_ends_answers_in_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, twice: bool
) -> None:
    """Also a second one, which does not wait; nothing is logged."""
    monkeypatch.setattr(server, "END_SECONDS", limits.PROCESS_SECONDS if twice else SHORT)

    async def run() -> None:
        await endless(monkeypatch)
        async with running() as (made, app, port):
            told = [await connect(port, request({**BODY, "stream": True}))]
            await told[0][0].readuntil(b"data: ")
            told.append(await connect(port, request({**BODY, "stream": True})))
            await until(lambda: app._client.language_model("tiny").waiting > 0)
            made.should_exit = True
            await asyncio.sleep(0.3)
            made.force_exit = twice
            first, second = [await rest(reader) for reader, _ in told]
            assert b"the server stops" in first
            assert second.startswith(b"HTTP/1.1 503")
            for _, writer in told:
                writer.close()
            text = app._metrics.text([]).decode()
            assert f'webpte_requests_total{{path="{PATH}",status="503"}} 2.0' in text

    with caplog.at_level(logging.WARNING):
        wait(run())
    assert not caplog.records
