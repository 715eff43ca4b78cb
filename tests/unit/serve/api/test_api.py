"""The server of OpenAI's API, as the official client meets it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.harness import limits
from support.harness.api_models import copy_tiny_model
from webpte import Options
from webpte.errors import InputError
from webpte_host.base.layout import PYSRC, ROOT
from webpte_host.commands import api
from webpte_host.setup import environment
from webpte_serve.api.guards import MAX_BODY
from webpte_serve.api.load_models import model_files

if TYPE_CHECKING:  # a second to import, in each process that collects this file
    import openai

KEY = "a key"
ASKED: Any = [{"role": "user", "content": "Hi"}]
COLOUR = {"type": "object", "properties": {"c": {"enum": ["red", "blue"]}}, "required": ["c"]}


@dataclass(frozen=True)
class Served:
    """A server in a separate process."""

    url: str
    process: subprocess.Popen[str]

    @property
    def client(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(base_url=self.url, api_key=KEY, max_retries=0)

    def status(self, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Return the status and the body that a plain request gets."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=limits.SOCKET_SECONDS) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@contextmanager
def serving(model: Path, *more: str) -> Iterator[Served]:
    command = [sys.executable, str(ROOT / "serve.py"), "api", str(model), "--device", "numpy"]
    with subprocess.Popen(
        [*command, "--port", "0", *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PYSRC)},
    ) as process:
        assert process.stdout is not None
        told = next((line for line in process.stdout if line.startswith("serving ")), None)
        assert told is not None, "the server ended"
        try:
            yield Served(told.removeprefix("serving ").strip(), process)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with serving(model, "--key", KEY, "--origin", "https://pages.example") as served:
        yield served


def test_chats(served: Served) -> None:
    create = served.client.chat.completions.create
    answer = create(model="tiny", messages=ASKED, max_tokens=6, temperature=0, logprobs=True)
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "length"
    assert choice.logprobs is not None
    assert len(choice.logprobs.content or ()) == 6
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    chunks = list(
        create(
            model="tiny",
            messages=ASKED,
            max_tokens=6,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == choice.message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == answer.usage.total_tokens


def test_an_answer_in_json(served: Served) -> None:
    answer = served.client.chat.completions.create(
        model="tiny",
        messages=ASKED,
        seed=1,
        response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": COLOUR}},
    )
    assert json.loads(answer.choices[0].message.content or "")["c"] in ("red", "blue")


def test_completions_and_models(served: Served) -> None:
    answer = served.client.completions.create(model="tiny", prompt="ab", max_tokens=3, echo=True)
    assert answer.choices[0].text.startswith("ab")
    assert [model.id for model in served.client.models.list()] == ["tiny"]
    assert served.client.models.retrieve("tiny").id == "tiny"


def test_what_the_client_sees_of_errors(served: Served) -> None:
    import openai

    client = served.client
    with pytest.raises(openai.NotFoundError, match="there is no model 'large'"):
        client.chat.completions.create(model="large", messages=ASKED)
    with pytest.raises(openai.BadRequestError, match="frequency_penalty") as caught:
        client.chat.completions.create(model="tiny", messages=ASKED, frequency_penalty=3)
    assert caught.value.param == "frequency_penalty"
    long: Any = [{"role": "user", "content": "word " * 40000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="context"):
            client.chat.completions.create(model="tiny", messages=long, stream=stream)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=served.url, api_key="other").models.list()


def test_requests_of_any_shape_have_a_status(served: Served) -> None:
    chat, key = "/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}
    assert served.status("/health")[0] == 200
    assert served.status(chat, {})[0] == 401
    for body in (b"", b"{", b"[]", b"\xff", b"[" * 500, b'{"model": 1e999}'):
        status, told = served.status(chat, body, **key)
        assert status == 400
        assert json.loads(told)["error"]["type"] == "invalid_request_error"
    assert served.status(chat, b"x" * (MAX_BODY + 1), **key)[0] == 413
    assert served.status("/v1/nothing", **key)[0] == 404
    assert served.status(chat, **key)[0] == 405
    for host in ("evil.example", "evil.example:8001", "localhost.evil.example", "[::2]:8001"):
        status, text = served.status("/v1/models", **key, Host=host)
        assert (status, json.loads(text)["error"]["code"]) == (400, "unknown_host")
    for host in ("localhost", "LOCALHOST:8001", "127.0.0.1:8001", "[::1]:8001"):
        assert served.status("/v1/models", **key, Host=host)[0] == 200
    metrics = served.status("/metrics")[1].decode()
    assert 'webpte_requests_total{path="/v1/chat/completions",status="413"} 1.0' in metrics


def test_somebody_who_leaves_makes_room_for_others(served: Served) -> None:
    """A stream whose reader has gone ends, and the next request is answered."""
    port = int(served.url.rpartition(":")[2].partition("/")[0])
    body = {"model": "tiny", "messages": ASKED, "max_tokens": 100, "stream": True}
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + data)
        assert b"200" in connection.recv(100)
    answer = served.client.chat.completions.create(
        model="tiny", messages=ASKED, max_tokens=2, temperature=0
    )
    assert answer.choices[0].finish_reason == "length"


def test_pages_of_other_sites_are_answered_if_they_are_named(served: Served) -> None:
    for origin, allowed in (("https://pages.example", True), ("https://other.example", False)):
        request = urllib.request.Request(served.url.removesuffix("/v1") + "/health")
        request.add_header("Origin", origin)
        with urllib.request.urlopen(request, timeout=limits.SOCKET_SECONDS) as reply:
            assert (reply.headers.get("Access-Control-Allow-Origin") == origin) == allowed


def test_where_models_are_found(model: Path, tmp_path: Path) -> None:
    program = model / "llama_tiny_q4.pte"
    assert model_files(str(model)) == ("tiny", program, model / "tokenizer.json")
    assert model_files(f"mine={program}")[0] == "mine"
    (tmp_path / "a.pte").touch()
    with pytest.raises(InputError, match="no tokenizer"):
        model_files(str(tmp_path))
    (tmp_path / "b.pte").touch()
    with pytest.raises(InputError, match=r"2 \.pte files"):
        model_files(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        model_files(str(tmp_path / "c.pte"))


def test_it_ends_when_it_is_asked_to(served: Served) -> None:
    """The last test of this file, after which nobody needs the server."""
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(limits.PROCESS_SECONDS) in (0, 130)


@pytest.mark.parametrize("flags", [[], ["--int8-products"]])
def test_prompts_in_integers(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[dict[str, Any]]()

    async def refuse(*_: object, **loading: Any) -> None:
        found.append(loading)
        raise InputError("enough")

    monkeypatch.setattr(environment, "inside", lambda: True)
    monkeypatch.setattr("webpte_serve.api.load_models.open_model", refuse)
    with pytest.raises(InputError, match="enough"):
        api.main(["model.pte", *flags])
    assert found == [{"options": Options(int8_products=True)} if flags else {}]
