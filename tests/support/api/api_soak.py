"""Mixed requests to a server of the API, many at once: answers, streams, errors, lost clients.

    python -m support.api.api_soak [ROUNDS]

sends every kind of request so many times, twice, and prints the server's memory at the start, in
the middle and at the end.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.harness import image_text_cases, limits
from support.harness.api_models import copy_tiny_model
from webpte_host.base.layout import PYSRC, ROOT

AT_ONCE = 8
GONE = 499  # the status of a client that leaves, here, too
_CHAT, _TEXT = "/v1/chat/completions", "/v1/completions"
_SAID = [{"role": "user", "content": "Hi"}]
_SCHEMA = {"type": "object", "properties": {"c": {"enum": ["red", "blue"]}}, "required": ["c"]}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "c", "schema": _SCHEMA}}


@dataclass(frozen=True)
class Kind:
    """A kind of request, and the statuses that it may have.

    leaves   the bytes of the answer after which its client goes away; None: it stays
    """

    path: str
    body: Mapping[str, Any] | bytes
    statuses: frozenset[int] = frozenset({200})
    leaves: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _chat(*statuses: int, leaves: int | None = None, **more: Any) -> Kind:
    body = {"model": "tiny", "messages": _SAID, "max_tokens": 2, **more}
    return Kind(_CHAT, body, frozenset(statuses or (200,)), leaves)


def _picture(side: int, *statuses: int) -> Kind:
    data = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), 7, np.uint8)).save(data, "PNG")
    url = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Who?"}]
    return _chat(*statuses, model="sees", messages=[{"role": "user", "content": parts}])


@cache
def kinds() -> list[Kind]:
    """Return all kinds of requests."""
    words = {"model": "words", "input": ["a cow", "the sea"]}
    ranked = {"model": "words", "query": "cow", "documents": ["a cow", "the sea"]}
    evil = {"Origin": "https://evil.example"}
    return [
        *[_chat(), _chat(stream=True), _chat(stream=True, n=3), _chat(logprobs=True)],
        *[_chat(response_format=_FORMAT, max_tokens=30), _chat(seed=5, stop=["e"])],
        Kind(_TEXT, {"model": "tiny", "prompt": "ab\ud800", "max_tokens": 2, "echo": True}),
        Kind("/v1/embeddings", words),
        Kind("/v1/rerank", ranked),
        *[_picture(20), _picture(60), _picture(6000, 400)],
        *[_chat(404, model="other"), _chat(400, seed=10**400), _chat(400, self=1)],
        _chat(400, messages=[{"role": "user", "content": "word " * 40000}]),
        Kind(_CHAT, b"{", frozenset({400})),
        Kind(_CHAT, {}, frozenset({403}), headers=evil),
        *[_chat(200, max_tokens=60, leaves=0), _chat(200, stream=True, max_tokens=60, leaves=1)],
        _chat(200, stream=True, max_tokens=60, leaves=600),
    ]


@dataclass(frozen=True)
class Soaked:
    """A server in a separate process."""

    port: int
    process: subprocess.Popen[str]

    def memory(self) -> float:
        """Return the process's memory in MiB."""
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(told.stdout) / 1024

    async def send(self, kind: Kind) -> int:
        """Send one request; return its status."""
        data = kind.body if isinstance(kind.body, bytes) else json.dumps(kind.body).encode()
        lines = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"}
        lines |= {"Content-Length": str(len(data)), **kind.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"POST {kind.path} HTTP/1.1\r\n{head}\r\n".encode() + data)
            await writer.drain()
            if kind.leaves is not None:
                await reader.read(kind.leaves)
                return 200
            answer = await reader.read()
        finally:
            writer.transport.abort()
        status = int(answer.split(maxsplit=2)[1])
        if b"text/event-stream" in answer and status == 200:
            assert b"data: [DONE]" in answer, answer[-300:]
        return status

    async def soak(self, rounds: int, seed: int) -> Counter[tuple[int, int]]:
        """Send all kinds of requests in random orders; return how often each had each status."""
        chosen, known = random.Random(seed), kinds()
        numbers = [chosen.sample(range(len(known)), len(known)) for _ in range(rounds)]
        order = iter([number for each in numbers for number in each])
        found = Counter[tuple[int, int]]()

        async def client() -> None:
            for number in order:
                status = await self.send(known[number])
                found[number, status] += 1
                assert status in known[number].statuses, (known[number].body, status)

        await asyncio.wait_for(
            asyncio.gather(*(client() for _ in range(AT_ONCE))), limits.SLOWDOWN * (60 + 2 * rounds)
        )
        return found


@contextmanager
def soaked(folder: Path) -> Iterator[Soaked]:
    """Start a server with a language model, a model that sees, and a sentence encoder."""
    tiny = copy_tiny_model(folder / "tiny")
    sees = image_text_cases.models_folder() / "patches"
    models = [str(tiny), f"sees={sees}", str(ROOT / "web/samples/words.pte")]
    command = [sys.executable, str(ROOT / "serve.py"), "api", *models, "--device", "numpy"]
    environment = {**os.environ, "PYTHONPATH": str(PYSRC)}
    with subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        told = next((line for line in process.stdout if line.startswith("serving ")), None)
        assert told is not None, "the server ended"
        try:
            yield Soaked(int(told.rpartition(":")[2].partition("/")[0]), process)
        finally:
            process.terminate()


def run(folder: Path, rounds: int) -> list[float]:
    """Return the server's memory in MiB at the start, in the middle and at the end.

    The start is after each kind was answered a few times, so that all is loaded.
    """
    with soaked(folder) as server:
        asyncio.run(server.soak(3, 0))
        found = [server.memory()]
        for half in (1, 2):
            asyncio.run(server.soak(rounds, half))
            found.append(server.memory())
            requests = rounds * half * len(kinds())
            print(f"{requests} requests: {found[-1]:.1f} MiB", flush=True)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        told = run(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else 250)
    print("MiB at the start, in the middle, at the end:", *(f"{one:.1f}" for one in told))
