"""Interrupted prefills, in models whose state does not follow the position."""

from __future__ import annotations

import asyncio

import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ContextError, DeviceError, ExecutionError
from webpte.llm import Generator

# Tokens of two positions are in the same row: a row that was written once too often has no past.
SHARED_ROWS = small_llm(at="computed", chunk=3)
FOLLOWING = small_llm(chunk=3)
# The last tokens of the vocabulary are in no row of its table: it refuses them.
FEW_ROWS, REFUSED = small_llm(at="computed", chunk=3, rows=11), 11
PROMPT, TURN = [3, 7, 1], [4, 10]


async def broken_off(program: bytes, tokens: list[int]) -> Generator:
    """Return a Generator whose prefill was cancelled when the GPU had its first tokens."""
    device = SimulatedDevice()
    generator = Generator(await webpte.load(program, device=device, strict=True))
    await generator.prefill(PROMPT)
    await generator.prefill(TURN)
    ran = len(runs(device))
    device.pauses = lambda: 5
    feeding = asyncio.ensure_future(generator.prefill(tokens))
    while len(runs(device)) == ran:
        await asyncio.sleep(0)
    feeding.cancel()
    await asyncio.gather(feeding, return_exceptions=True)
    assert feeding.cancelled()
    assert generator.context == (*PROMPT, *TURN)
    return generator


async def fresh(program: bytes, context: list[int]) -> list[int]:
    """Return the tokens after a context in a freshly loaded program."""
    generator = Generator(await webpte.load(program, device="numpy"))
    return await tokens_of(generator.generate(context, 4))


@pytest.mark.parametrize("tokens", [[5, 5], [5, 6, 7, 8, 9]], ids=["one call", "two calls"])
def test_it_cannot_go_on_but_begin_again(tokens: list[int]) -> None:
    async def run() -> None:
        generator = await broken_off(SHARED_ROWS, tokens)
        with pytest.raises(ContextError, match=r"interrupted.*position.*reset\(\)"):
            await anext(generator.continue_([2], 4))
        whole = [*PROMPT, *TURN, 2]
        again = generator.generate(whole, 4)
        assert await tokens_of(again) == await fresh(SHARED_ROWS, whole)
        assert again.stats.reused_tokens == 0
        more = await tokens_of(generator.continue_([6], 2))
        assert len(more) == 2, "all is well from then on"

    wait(run())


def test_a_reset_is_enough() -> None:
    async def run() -> None:
        generator = await broken_off(SHARED_ROWS, [5, 5])
        generator.reset()
        found = await tokens_of(generator.continue_(PROMPT, 4))
        assert found == await fresh(SHARED_ROWS, PROMPT)

    wait(run())


def test_what_follows_the_position_goes_on() -> None:
    async def run() -> None:
        generator = await broken_off(FOLLOWING, [5, 6, 7, 8, 9])
        found = await tokens_of(generator.continue_([2], 4))
        assert found == await fresh(FOLLOWING, [*PROMPT, *TURN, 2])

    wait(run())


def test_an_error_of_the_device_leaves_nobody_sure() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        generator = Generator(await webpte.load(SHARED_ROWS, device=device))
        await generator.prefill(PROMPT)
        device.inject(DeviceError, method="run", at_result=True)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await generator.prefill(TURN)
        with pytest.raises(ContextError, match="interrupted"):
            await generator.prefill(TURN)

    wait(run())


def test_a_call_that_was_refused_leaves_all_as_it_was() -> None:
    async def run() -> None:
        generator = Generator(await webpte.load(FEW_ROWS, device=SimulatedDevice()))
        await generator.prefill(PROMPT)
        with pytest.raises(ExecutionError, match="out of range"):
            await generator.prefill([REFUSED])
        assert await tokens_of(generator.continue_(TURN, 2))

    wait(run())


def test_a_call_that_never_began_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is still known to be the conversation's."""

    async def refuse(*_: object) -> None:
        raise ExecutionError("refused before it was counted")

    async def run() -> None:
        generator = Generator(await webpte.load(FOLLOWING, device=SimulatedDevice()))
        await generator.prefill(PROMPT)
        with monkeypatch.context() as patch:
            patch.setattr(type(generator._session._decoder), "sample", refuse)
            with pytest.raises(ExecutionError, match="refused"):
                await generator.prefill(TURN)
        found = await tokens_of(generator.continue_(TURN, 4))
        assert found == await fresh(FOLLOWING, [*PROMPT, *TURN])

    wait(run())


def test_a_refusal_behind_the_first_chunk_leaves_what_that_wrote() -> None:
    async def run() -> None:
        generator = Generator(await webpte.load(FEW_ROWS, device=SimulatedDevice()))
        await generator.prefill(PROMPT)
        with pytest.raises(ExecutionError, match="out of range"):
            await generator.prefill([5, 6, 7, REFUSED])
        assert generator.context == tuple(PROMPT)
        with pytest.raises(ContextError, match="interrupted"):
            await generator.prefill(TURN)
        found = await tokens_of(generator.generate([*PROMPT, *TURN], 4))
        assert found == await fresh(FEW_ROWS, [*PROMPT, *TURN])

    wait(run())


def test_a_conversation_that_turns_off_begins_anew() -> None:
    """The rows before the turn are not known any more."""

    async def run() -> None:
        for program, reused in ((SHARED_ROWS, 0), (FOLLOWING, len(PROMPT))):
            generator = Generator(await webpte.load(program, device=SimulatedDevice()))
            await tokens_of(generator.generate([*PROMPT, *TURN], 4))
            other = [*PROMPT, 9, 9, 2]
            answer = generator.generate(other, 4)
            assert await tokens_of(answer) == await fresh(program, other)
            assert answer.stats.reused_tokens == reused

    wait(run())


def test_what_is_in_the_cache_exactly_is_kept() -> None:
    """Another token than the pending one: nothing has to go back."""

    async def run() -> None:
        generator = Generator(await webpte.load(SHARED_ROWS, device=SimulatedDevice()))
        found = await tokens_of(generator.generate(PROMPT, 4))
        cached = [*PROMPT, *found][:-1]
        other = [*cached, (found[-1] + 1) % 11]
        answer = generator.generate(other, 4)
        assert await tokens_of(answer) == await fresh(SHARED_ROWS, other)
        assert (answer.stats.reused_tokens, answer.stats.prefill_tokens) == (len(cached), 1)

    wait(run())
