"""Log-probabilities of tokens: the GPU against NumPy on the logits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import VOCABULARY, logits_of, small_llm
from support.harness import extent
from support.page.chats import open_chat
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError, ExecutionError, InputError
from webpte.llm import (
    Candidate,
    Generation,
    Generator,
    TokenLogprob,
    generate,
)
from webpte.llm import (
    decode_loop as decode,
)

PROMPT = [3, 1, 4]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sizes of batches independent of the machine."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)


def log_softmax(context: list[int]) -> np.ndarray:
    """Return the log-probabilities of the next token, in float64."""
    row = logits_of(context)[-1].astype(np.float64)
    return np.asarray(row - row.max() - math.log(np.exp(row - row.max()).sum()))


def check(answer: Generation, context: list[int], top: int) -> None:
    assert [one.token for one in answer.logprobs] == answer.tokens
    for index, told in enumerate(answer.logprobs):
        wanted = log_softmax([*context, *answer.tokens[:index]])
        assert told.logprob == pytest.approx(wanted[told.token], abs=1e-5)
        likeliest = np.argsort(-wanted, kind="stable")[:top]
        assert [one.token for one in told.top] == likeliest.tolist()
        found = [one.logprob for one in told.top]
        np.testing.assert_allclose(found, wanted[likeliest], atol=1e-5)


ASKED: list[dict[str, Any]] = [
    {},
    {"temperature": 1.5, "seed": 3},
    {"temperature": 0.9, "top_k": 3, "top_p": 0.8, "repetition_penalty": 1.4, "seed": 1},
]


@pytest.mark.parametrize("asked", extent.share(ASKED, 2), ids=str)
@pytest.mark.parametrize("steps", extent.some([16], 1))
@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_they_are_those_of_the_models_own_distribution(
    device: str, steps: int, asked: dict[str, Any]
) -> None:
    async def run() -> None:
        used: Any = SimulatedDevice() if device == "recording" else device
        generator = Generator(await webpte.load(small_llm(context=32), device=used))
        plain = await tokens_of(generator.generate(PROMPT, 9, steps_ahead=steps, **asked))
        for top in (0, 4, 20):
            answer = generator.generate(
                PROMPT, 9, steps_ahead=steps, logprobs=True, top=top, **asked
            )
            assert await tokens_of(answer) == plain, "to be asked changes nothing"
            check(answer, PROMPT, min(top, VOCABULARY))

    wait(run())


def test_they_come_in_the_same_submissions() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(small_llm(), device=device))
        costs = []
        asked: list[dict[str, Any]] = [{}, {"logprobs": True, "top": 5}]
        for options in asked:
            answer = generator.generate(PROMPT, 21, **options)
            await tokens_of(answer)
            costs.append((answer.stats.submissions, answer.stats.step_by_step))
        assert costs[0] == costs[1] == (6, None)
        last = device.plans[runs(device)[-1]["plan"]]
        words = 1 + 3 + 2 * 5
        assert last.result_bytes == 4 * words * (len(last.parts) // 2), "and nothing else is read"

    wait(run())


def test_those_of_a_stop_token_are_not_among_them() -> None:
    async def run() -> None:
        program = await webpte.load(small_llm(), device=SimulatedDevice())
        free = await tokens_of(generate(program, PROMPT, 9))
        answer = generate(program, PROMPT, 9, stop=[free[4]], logprobs=True)
        assert await tokens_of(answer) == free[: free.index(free[4])]
        assert len(answer.logprobs) == len(answer.tokens)

    wait(run())


def test_a_batch_that_fails_loses_none_of_them() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(small_llm(), device=device)
        answer = generate(program, PROMPT, 12, logprobs=True, top=2)
        for _ in range(3):
            await anext(answer)
        device.inject(DeviceError, method="run", at_result=True)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await tokens_of(answer)
        await tokens_of(answer)
        assert len(answer.tokens) == 12
        check(answer, PROMPT, 2)

    wait(run())


def test_a_chat_has_them_too(root: Path) -> None:
    async def run() -> None:
        said = []
        for device in ("numpy", SimulatedDevice()):
            chat = await open_chat(device)
            reply = chat.send("Hello!", 6, logprobs=True, top=3)
            await reply
            assert [one.token for one in reply.logprobs] == reply.tokens
            said.append(reply.logprobs)
        for one, other in zip(*said, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert [c.token for c in one.top] == [c.token for c in other.top]
        assert isinstance(one, TokenLogprob)
        assert one.top[0] == Candidate(one.token, one.logprob), "the likeliest was taken"

    wait(run())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"logprobs": True, "top": 21}, "top must be from 0 to 20, not 21"),
        ({"logprobs": True, "top": -1}, "not -1"),
        ({"top": 3}, "give both"),
    ],
)
def test_what_is_refused(asked: dict[str, Any], message: str) -> None:
    program = wait(webpte.load(small_llm(), device="numpy"))
    with pytest.raises(InputError, match=message):
        generate(program, PROMPT, 3, **asked)
