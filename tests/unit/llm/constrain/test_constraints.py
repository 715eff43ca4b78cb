"""Answers that must be one of several: on NumPy, on a GPU, broken off, and in chats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import VOCABULARY, logits_of, small_llm
from support.page.chats import Q4, conversation, open_chat, open_tokenizer
from support.page.conversations import greedy, tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError, ExecutionError, InputError
from webpte.llm import Allowed, Generator, OneOf
from webpte.llm.decode.sampling import SamplerSettings, Sampling, seed_words

PROMPT, STOP = [3, 1, 4], 11
ANSWERS = [[2], [5, 6, 7], [5, 6, 7, 8], [5, 9], [10, 2, 2, 2]]

ASKED: list[dict[str, Any]] = [
    {},
    {"temperature": 2.0, "seed": 3},
    {"temperature": 3.0, "top_k": 4, "top_p": 0.9, "repetition_penalty": 1.4, "seed": 8},
]


def by_hand(context: Sequence[int], asked: dict[str, Any]) -> tuple[list[int], bool]:
    """Return the answer by NumPy, token by token, and whether a stop token ended it."""
    given = dict(asked)
    seed = seed_words(given.pop("seed", 0))
    said: list[int] = []
    while True:
        begun = [answer for answer in ANSWERS if answer[: len(said)] == said]
        may = {answer[len(said)] for answer in begun if len(answer) > len(said)}
        if not may:
            return said, False
        if said in ANSWERS:
            may.add(STOP)
        whole = [*context, *said]
        row = logits_of(whole)[-1].copy()
        row[[token for token in range(row.size) if token not in may]] = np.nan
        token = SamplerSettings(Sampling(**given), seed).choose(row, len(whole), whole)
        if token == STOP:
            return said, True
        said.append(token)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_one_of_several(device: str, asked: dict[str, Any]) -> None:
    async def run() -> None:
        used: Any = SimulatedDevice() if device == "recording" else device
        generator = Generator(await webpte.load(small_llm(context=32), device=used))
        for prompt in (PROMPT, [7], [0, 9, 9, 2]):
            one_of = OneOf(ANSWERS)
            answer = generator.generate(prompt, 9, constraint=one_of, stop=[STOP], **asked)
            found = await tokens_of(answer)
            wanted, stopped = by_hand(prompt, asked)
            assert found == wanted
            assert found in ANSWERS
            assert answer.is_complete is not stopped
            assert generator.context == (*prompt, *found, *[STOP] * stopped)
            assert answer.stats.step_by_step == "what a token may be depends on the one before"

    wait(run())


def test_no_logits_are_read_back() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(small_llm(), device=device))
        await tokens_of(generator.generate(PROMPT, 9, constraint=OneOf([[10, 2, 2, 2]])))
        sizes = {device.plans[run["plan"]].result_bytes for run in runs(device)}
        assert max(sizes) < 4 * VOCABULARY, "a token, and a word for faults"
        assert len(runs(device)) == 4, "one for each token, and none for the end"

    wait(run())


def test_probabilities_are_those_of_the_model() -> None:
    """Log-probabilities are computed before the constraint: forbidden candidates are listed."""

    async def run() -> None:
        generator = Generator(await webpte.load(small_llm(), device=SimulatedDevice()))
        answer = generator.generate(PROMPT, 9, constraint=OneOf([[10, 2]]), logprobs=True, top=1)
        await tokens_of(answer)
        assert answer.logprobs[0].top[0].token == int(logits_of(PROMPT)[-1].argmax())
        assert answer.logprobs[0].logprob < answer.logprobs[0].top[0].logprob

    wait(run())


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_an_answer_that_is_broken_off(taken: int) -> None:
    async def run() -> None:
        program = await webpte.load(small_llm(), device=SimulatedDevice())
        generator = Generator(program)
        answer = generator.generate(PROMPT, 9, constraint=OneOf([[10, 2, 2, 2]]))
        found = [await anext(answer) for _ in range(taken)]
        assert generator.context == (*PROMPT, *found)
        more = await tokens_of(generator.continue_([6], 4))
        whole = [*PROMPT, *found, 6]
        for token in more:
            assert token == int(logits_of(whole)[-1].argmax())
            whole.append(token)

    wait(run())


def test_a_step_that_fails_is_asked_again() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(small_llm(), device=device))
        answer = generator.generate(PROMPT, 9, constraint=OneOf([[10, 2, 2, 2]]))
        await anext(answer)
        device.inject(DeviceError, method="run", at_result=True)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await anext(answer)
        assert await tokens_of(answer) == [2, 2, 2]
        assert answer.tokens == [10, 2, 2, 2]

    wait(run())


def test_length_and_completeness() -> None:
    """The last allowed token may also be the last of max_new_tokens."""

    async def run() -> None:
        generator = Generator(await webpte.load(small_llm(), device="numpy"))
        for most, complete in ((3, False), (4, True), (5, True)):
            answer = generator.generate(PROMPT, most, constraint=OneOf([[10, 2, 2, 2]]))
            assert await tokens_of(answer) == [10, 2, 2, 2][:most]
            assert answer.is_complete is complete

    wait(run())


class Nothing:
    """A constraint that allows one token, and then neither a token nor the end."""

    def after(self, said: Sequence[int]) -> Allowed:
        return Allowed(np.array([] if said else [4], np.int64), False)


def test_what_cannot_be_said() -> None:
    async def run() -> None:
        generator = Generator(await webpte.load(small_llm(), device="numpy"))
        with pytest.raises(InputError, match="none of which is empty"):
            OneOf([[1], []])
        with pytest.raises(InputError, match="one or more"):
            OneOf([])
        answer = generator.generate(PROMPT, 9, constraint=Nothing())
        assert await anext(answer) == 4
        with pytest.raises(webpte.errors.TextError, match="no token is allowed"):
            await anext(answer)
        assert generator.context == (*PROMPT, 4)

    wait(run())


class Beyond:
    """A constraint that allows tokens for which the model has no logit."""

    def after(self, said: Sequence[int]) -> Allowed:
        return Allowed(np.array([VOCABULARY + 7], np.int64), False)


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_model_that_gives_no_number_to_what_is_allowed(device: str) -> None:
    async def run() -> None:
        used: Any = SimulatedDevice() if device == "recording" else device
        generator = Generator(await webpte.load(small_llm(), device=used))
        answer = generator.generate(PROMPT, 9, constraint=Beyond())
        with pytest.raises(ExecutionError, match="no number to any of the 1 tokens"):
            await anext(answer)
        assert generator.context == tuple(PROMPT)
        assert await tokens_of(answer) == [], "it has ended"
        (token,) = await tokens_of(generator.continue_([6], 1))
        assert token == int(logits_of([*PROMPT, 6])[-1].argmax())

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_stop_token_that_is_a_part_of_an_answer(device: str) -> None:
    """A stop token ends an answer where the constraint may end; elsewhere it is yielded."""

    async def run() -> None:
        used: Any = SimulatedDevice() if device == "recording" else device
        generator = Generator(await webpte.load(small_llm(), device=used))
        answer = generator.generate(PROMPT, 9, constraint=OneOf([[STOP, 2, STOP, 5]]), stop=[STOP])
        assert await tokens_of(answer) == [STOP, 2, STOP, 5]
        assert answer.is_complete
        answer = generator.generate(PROMPT, 9, constraint=OneOf([[2], [2, STOP, 3]]), stop=[STOP])
        assert await tokens_of(answer) == [2]
        assert generator.context == (*PROMPT, 2, STOP)

    wait(run())


class Negative:
    """A constraint that allows one token, and a negative number."""

    def after(self, said: Sequence[int]) -> Allowed:
        return Allowed(np.array([-32 + VOCABULARY - 1, -1, 4], np.int64), False)


def test_tokens_are_whole_numbers_from_zero_on() -> None:
    async def run() -> None:
        generator = Generator(await webpte.load(small_llm(), device="numpy"))
        wrong: list[Any] = [[[-1, 5]], [[5.9]], [["a"]], [[5, None]]]
        for answers in wrong:
            with pytest.raises(InputError, match="tokens are integers from 0 on"):
                OneOf(answers)
        for prompt in ([3], [7], [0, 9, 9, 2], [1, 2], PROMPT):
            assert await tokens_of(generator.generate(prompt, 1, constraint=Negative())) == [4]

    wait(run())


# Chats


def test_a_chat_with_choices() -> None:
    async def run() -> None:
        tokenizer = await open_tokenizer()
        for device in ("numpy", SimulatedDevice()):
            chat = await open_chat(device)
            reply = chat.send("Is it?", 20, choices=["yes", "no", "no way"])
            text = await reply
            assert text in ("yes", "no", "no way")
            assert (reply.ended, chat.messages[-1]["content"]) == ("stop", text)
            free = chat.send("Why?", 4)
            await free
            exchanges = [("Is it?", tokenizer.encode(text, special=False))]
            prompt = conversation(tokenizer, exchanges, "Why?")
            assert free.tokens == await greedy(Q4, prompt, 4)

    wait(run())
