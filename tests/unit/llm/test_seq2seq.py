"""Encoder-decoder models give the logits and answers of transformers, on NumPy and a GPU."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.harness import extent
from support.llm.small_seq2seq import FAMILIES, Greedy, answers_of, program_of
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ContextError, DeviceError, InputError
from webpte.llm import Generator, Seq2Seq
from webpte.llm.generation import ignore_stops

NEW = 12  # tokens of the answers


def device_of(name: str) -> Any:
    return SimulatedDevice() if name == "simulated" else name


async def model_of(family: str, device: Any = "numpy") -> Seq2Seq:
    return Seq2Seq(await webpte.load(program_of(family), device=device, strict=True))


def wanted(model: Seq2Seq, answer: Greedy) -> list[int]:
    """Return the tokens after the prompt, without the stop token."""
    after = answer.tokens[len(model.start) + len(model.forced) :]
    return [token for token in after if token not in model.eos]


@pytest.mark.parametrize(
    ("family", "device"),
    [
        *((name, "simulated") for name in extent.share(list(FAMILIES))),
        *extent.some([], ("t5", "numpy")),
    ],
)
def test_the_logits_of_each_step_are_those_of_transformers(family: str, device: str) -> None:
    async def run() -> None:
        model = await model_of(family, device_of(device))
        program, place = model.program, "numpy" if device == "numpy" else "gpu"
        for answer in answers_of(family):
            encoded = await program.run("encoder", np.array([answer.source]), output=place)
            for step, logits in enumerate(answer.logits):
                token, position = np.array([answer.tokens[step : step + 1]]), np.array([step])
                (found,) = await program.run("text_decoder", token, position, *encoded)
                # Tokens that are never generated have other logits here.
                seen = np.abs(found[0]) < 1e4
                error = np.abs(found[0] - logits)[seen].max()
                assert error < 1e-4 * np.abs(logits).max()
                assert seen.sum() >= logits.size - 1

    wait(run())


@pytest.mark.parametrize(
    ("family", "device", "ahead"),
    [
        *((name, "simulated", 16) for name in FAMILIES),
        *((name, "numpy", 16) for name in extent.share(list(FAMILIES))),
        *(("bart", "simulated", ahead) for ahead in extent.some([1], 4)),
    ],
)
def test_answers_are_those_of_transformers(family: str, device: str, ahead: int) -> None:
    async def run() -> None:
        model = await model_of(family, device_of(device))
        for answer in answers_of(family):
            expected = wanted(model, answer)
            count = NEW - len(model.forced)
            found = model.generate(answer.source, count, steps_ahead=ahead)
            assert await tokens_of(found) == expected
            assert found.why_ended == ("length" if len(expected) == count else "stop")

    wait(run())


def test_what_the_encoder_gives_stays_on_the_gpu_and_steps_run_ahead() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        model = await model_of("bart", device)
        answer = answers_of("bart")[0]
        await tokens_of(model.generate(answer.source, NEW))
        before = len(runs(device))
        found = model.generate(answer.source, NEW)
        tokens = await tokens_of(found)
        assert found.stats.step_by_step is None
        assert found.stats.submissions < len(tokens)
        encoding, first, *steps = runs(device)[before:]
        assert encoding["copies_after"], "keys and values stay"
        assert not encoding["read"]
        assert len(first["copies"]) == len(encoding["copies_after"]), "and are copied once"
        assert not any(step["copies"] for step in steps)

    wait(run())


def test_steps_run_ahead_after_a_first_token_that_has_a_mask() -> None:
    async def run() -> None:
        model = await model_of("whisper", SimulatedDevice())
        assert model._session._not_first is not None
        sounds = np.random.default_rng(0).standard_normal((2, 1, 8, 100)).astype(np.float32)
        for source in sounds:  # each with its own keys and values
            one_by_one = model.generate(source, NEW, steps_ahead=1)
            ignore_stops(one_by_one)
            tokens = await tokens_of(one_by_one)
            found = model.generate(source, NEW)
            ignore_stops(found)
            assert await tokens_of(found) == tokens
            assert found.stats.step_by_step is None
            assert found.stats.submissions < len(tokens) == NEW

    wait(run())


def test_prompts_and_limits() -> None:
    async def run() -> None:
        model = await model_of("bart")
        answer = answers_of("bart")[0]
        prompt = answer.tokens[:5]
        rest = [token for token in answer.tokens[5:] if token not in model.eos]
        count = len(answer.tokens) - 5
        assert await tokens_of(model.generate(answer.source, count, prompt=prompt)) == rest
        whole = model.generate(answer.source)  # as much as fits
        assert (await tokens_of(whole))[: len(rest)] == wanted(model, answer)[: len(rest)]
        assert whole.why_ended in ("full", "length", "stop")
        assert model.max_context == 24
        assert model.max_source == 32
        assert model.is_text

    wait(run())


def test_sampled_answers_are_those_of_numpy() -> None:
    async def run() -> None:
        options: dict[str, Any] = {"temperature": 1.2, "top_k": 9, "seed": 4}
        (source, _, _) = (one.source for one in answers_of("bart"))
        found = [
            await tokens_of((await model_of("bart", device)).generate(source, NEW, **options))
            for device in ("numpy", SimulatedDevice())
        ]
        assert found[0] == found[1]

    wait(run())


def test_another_caller_ends_an_answer_and_a_dry_run_does_not() -> None:
    async def run() -> None:
        model = await model_of("bart", SimulatedDevice(features=("timestamp-query",)))
        program = model.program
        first, second, _ = answers_of("bart")
        answer = model.generate(first.source, NEW - 1, steps_ahead=2)
        tokens = [await anext(answer) for _ in range(3)]
        other = await program.run("encoder", np.array([first.source[::-1]]), output="gpu")
        await program.profile("text_decoder", np.array([[3]]), np.array([0]), *other)
        tokens += [token async for token in answer]
        assert tokens == wanted(model, first)[: len(tokens)]
        assert len(tokens) > 6
        answer = model.generate(first.source, NEW, steps_ahead=1)
        await anext(answer)
        await program.run("text_decoder", np.array([[3]]), np.array([0]), *other)
        with pytest.raises(ContextError, match="called by another Generator or directly"):
            await anext(answer)
        assert await tokens_of(model.generate(second.source, NEW - 1)) == wanted(model, second)
        with pytest.raises(ContextError, match="one answer at a time"):
            await anext(answer)

    wait(run())


def test_a_cancelled_or_failed_encoder_can_be_asked_again() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        model = await model_of("bart", device)
        first = answers_of("bart")[0]
        answer = model.generate(first.source, NEW - 1)
        device.pauses = lambda: 5
        waiting = asyncio.ensure_future(anext(answer))
        ran = len(runs(device))
        while len(runs(device)) == ran:
            await asyncio.sleep(0)
        with pytest.raises(ContextError, match="busy"):
            await anext(model.generate(first.source, 2))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        device.pauses = lambda: 0
        assert await tokens_of(answer) == wanted(model, first)

    wait(run())


def test_memory_of_earlier_answers_is_freed() -> None:
    async def run() -> None:
        model = await model_of("bart", SimulatedDevice())
        sizes = []
        for _ in range(3):
            for answer in answers_of("bart"):
                await tokens_of(model.generate(answer.source, 3))
            sizes.append(model.program.stats.buffer_bytes)
        assert sizes[1] == sizes[2]

    wait(run())


def test_after_a_lost_device_an_answer_begins_again() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        model = await model_of("bart", device)
        first = answers_of("bart")[0]
        answer = model.generate(first.source, NEW - 1)
        await anext(answer)
        device.lost = True
        with pytest.raises(DeviceError):
            [token async for token in answer]
        await model.program.recover(SimulatedDevice())
        with pytest.raises(ContextError, match="rebuilt"):
            await anext(answer)
        assert await tokens_of(model.generate(first.source, NEW - 1)) == wanted(model, first)

    wait(run())


def test_errors_say_what_to_do() -> None:
    async def run() -> None:
        model = await model_of("t5")
        with pytest.raises(InputError, match=r"an input of 33 tokens: .* takes 1 to 32"):
            model.generate([3] * 33)
        with pytest.raises(InputError, match="an input of 0 tokens"):
            model.generate([])
        with pytest.raises(InputError, match=r"41 \(place 1\) is not a token"):
            model.generate([1, 41])
        with pytest.raises(InputError, match="without speculation"):
            model.generate([3], speculate="lookup")
        with pytest.raises(InputError, match="give a prompt"):
            model.generate([3], prompt=[])
        with pytest.raises(InputError, match=r"webpte\.llm\.Seq2Seq runs it"):
            Generator(model.program)
        with pytest.raises(InputError, match="has no method 'audio'"):
            Seq2Seq(model.program, encoder="audio")
        with pytest.raises(InputError, match="'get_vocab_size' takes nothing, not one tensor"):
            Seq2Seq(model.program, encoder="get_vocab_size")
        plain = await webpte.load(small_llm(), device="numpy")
        with pytest.raises(InputError, match="has no method 'text_decoder'"):
            Seq2Seq(plain)
        with pytest.raises(InputError, match=r"'forward' takes .*, not one tensor"):
            Seq2Seq(plain, encoder="forward", decoder="forward")

    wait(run())


def test_inputs_that_may_have_a_row_for_each_token_are_given_in_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers stay right, though slower, where an encoder's output may be as long as the tokens."""
    for module in ("webpte.engine.plan.memory_plan", "webpte.engine.run.delegate"):
        monkeypatch.setattr(f"{module}.kept_inputs", lambda graph: ())

    async def run() -> None:
        model = await model_of("t5", SimulatedDevice())
        for answer in answers_of("t5"):
            assert await tokens_of(model.generate(answer.source, NEW)) == wanted(model, answer)

    wait(run())
