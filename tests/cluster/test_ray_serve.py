"""The API on Ray Serve, as the official client meets it: two replicas, one of them killed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
import ray
from ray import serve

from support.devices.native import need_native
from support.harness.api_models import copy_tiny_model
from support.harness.limits import SOCKET_SECONDS
from webpte_serve.api.ray_serve import deploy

KEY = "a key"
SECONDS = 60  # until a killed replica has a successor
ASKED: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def client(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    need_native()
    model = copy_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    port = free_port()
    serve.start(http_options={"port": port, "location": "HeadOnly"})
    serve.run(deploy({"models": str(model), "replicas": "2", "gpus": "0", "keys": KEY}))
    yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, timeout=SOCKET_SECONDS)
    serve.shutdown()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def answer(client: openai.OpenAI, tokens: int = 6) -> str:
    found = client.chat.completions.create(
        model="tiny", messages=ASKED, max_tokens=tokens, temperature=0
    )
    return found.choices[0].message.content or ""


def test_answers_are_the_same_in_streams_and_of_all_replicas(client: openai.OpenAI) -> None:
    text = answer(client)
    chunks = client.chat.completions.create(
        model="tiny", messages=ASKED, max_tokens=6, temperature=0, stream=True
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: answer(client), range(8))) == {text}
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_errors_are_those_of_the_api(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'large'"):
        client.chat.completions.create(model="large", messages=ASKED)
    with pytest.raises(openai.AuthenticationError):
        answer(client.with_options(api_key="another"))


def replicas() -> set[str]:
    actors = ray.util.list_named_actors(all_namespaces=True)
    return {one["name"] for one in actors if one["name"].startswith("SERVE_REPLICA")}


def test_a_killed_replica_is_replaced(client: openai.OpenAI) -> None:
    text, before = answer(client), replicas()
    assert len(before) == 2
    ray.kill(ray.get_actor(min(before), namespace="serve"))
    assert [answer(client) for _ in range(4)] == [text] * 4  # the client asks again if it must
    deadline = time.monotonic() + SECONDS
    while len(replicas() - {min(before)}) < 2:
        assert time.monotonic() < deadline, f"{replicas()}, after {SECONDS} s"
        time.sleep(0.5)
