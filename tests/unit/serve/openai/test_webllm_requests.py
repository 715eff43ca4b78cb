"""Requests as WebLLM's examples write them: biases, penalties, schemas as texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.page.chats import Q4, open_tokenizer
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.llm import Generator
from webpte.llm.logits_rule import TokenBiases, change_logits
from webpte_serve.openai import Client, Model, RequestError

ASKED = [{"role": "user", "content": "List three US states."}]
SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": [1, 2]}, "fast": {"type": "boolean"}},
    "required": ["size", "fast"],
}


async def answered(**given: Any) -> Mapping[str, Any]:
    async with await webpte.load(Q4, device="numpy") as program:
        model = Model("tiny", program, await open_tokenizer())
        request = {"model": "tiny", "messages": ASKED, "max_tokens": 6, **given}
        answer: Mapping[str, Any] = await Client([model]).chat.completions.create(**request)
        return answer


def tokens_of(answer: Mapping[str, Any], choice: int = 0) -> list[str]:
    return [one["token"] for one in answer["choices"][choice]["logprobs"]["content"]]


def test_tokens_are_favoured_and_forbidden() -> None:
    async def check() -> None:
        own: dict[str, Any] = {"temperature": 0, "logprobs": True, "top_logprobs": 2}
        plain = await answered(**own)
        tokenizer = await open_tokenizer()
        first = int(tokenizer.encode(tokens_of(plain)[0], special=False)[-1])
        forbidden = await answered(**own, logit_bias={str(first): -100})
        assert tokens_of(forbidden)[0] != tokens_of(plain)[0]
        wished = await answered(**own, logit_bias={"65": 100}, n=3)
        expected = tokenizer.decode([65])
        assert [tokens_of(wished, choice) for choice in range(3)] == [[expected] * 6] * 3

    wait(check())


def test_a_bias_of_a_token_that_there_is_not() -> None:
    with pytest.raises(RequestError, match="logit_bias: there is no token 99999") as caught:
        wait(answered(logit_bias={"5": 1, "99999": 1}))
    assert (caught.value.param, caught.value.status) == ("logit_bias", 400)


def test_a_token_becomes_rarer() -> None:
    async def check() -> None:
        tokenizer = await open_tokenizer()
        own: dict[str, Any] = {
            "temperature": 0,
            "logprobs": True,
            "logit_bias": {"65": 40, "66": 38.5},
        }
        a, b = (tokenizer.decode([token]) for token in (65, 66))
        assert tokens_of(await answered(**own)) == [a] * 6
        assert tokens_of(await answered(**own, presence_penalty=2)) == [a, b, a, a, a, a]
        assert tokens_of(await answered(**own, frequency_penalty=1)) == [a, a, b, a, b, a]

    wait(check())


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA)])
def test_a_schema_in_json_mode(schema: Any) -> None:
    form = {"type": "json_object", "schema": schema}
    answer = wait(answered(response_format=form, max_tokens=40, seed=5, extra_body={}))
    found = json.loads(answer["choices"][0]["message"]["content"])
    assert found["size"] in (1, 2)
    assert found["fast"] in (True, False)


def test_the_rule() -> None:
    logits = np.zeros(4, np.float32)
    rule = TokenBiases({1: 5.0}, 0.5, 0.25, prompt=2)
    assert rule([3, 3, 2, 2, 1], logits).tolist() == [0, 5 - 0.75, -1.25, 0]
    assert logits.tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match="there is no token 4"):
        TokenBiases({4: 1.0}, 0, 0, 0)([], logits)


def test_tokens_are_the_same_on_a_gpu() -> None:
    """Steps are not decoded ahead, so that the host sees every row of logits."""

    async def check() -> None:
        found = list[list[int]]()
        devices: tuple[Any, ...] = ("numpy", SimulatedDevice())
        for device in devices:
            async with await webpte.load(Q4, device=device) as program:
                answer = Generator(program).generate([5, 9, 33], 8, temperature=0.9, seed=4)
                change_logits(answer, TokenBiases({7: 3.0}, 1.0, 0.5, 3))
                found.append([token async for token in answer])
                assert answer.stats.step_by_step == "a rule changes the logits on the host"
        assert found[0] == found[1]

    wait(check())
