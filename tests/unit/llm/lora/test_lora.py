"""LoRAs over one program: its results, switching, sharing, conversations, faults."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import CONTEXT, LAYER, SIZE, VOCABULARY, WEIGHT, logits_of, small_llm
from support.page.conversations import tokens_of
from support.write.pte_writer import write_ptd
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import (
    ClosedError,
    ContextError,
    DeviceLostError,
    InputError,
    UnsupportedError,
)
from webpte.llm import Generator, load_lora, use_lora

PROMPT = [5, 9, 3, 7]
ROOM = 5
PROGRAM = small_llm(layers=True, context=CONTEXT)
RNG = np.random.default_rng(1)


def matrices(rank: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = RNG.normal(size=(rank, SIZE)), RNG.normal(size=(VOCABULARY, rank))
    return a.astype(np.float32), b.astype(np.float32)


ONE, TWO = matrices(3), matrices(ROOM)
ALPHA = 2.0


def ptd(pair: tuple[np.ndarray, np.ndarray]) -> bytes:
    stem = f"base_model.model.{LAYER}"
    return write_ptd({f"{stem}.lora_A.weight": pair[0], f"{stem}.lora_B.weight": pair[1]})


def changed(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the weights that a LoRA makes of the model's."""
    a, b = pair
    return WEIGHT + ALPHA / len(a) * b @ a


async def opened(device: str = "gpu", **options: Any) -> webpte.Program:
    on: Any = SimulatedDevice() if device == "gpu" else device
    return await webpte.llm.load(PROGRAM, device=on, **{"lora": ROOM, **options})


async def logits(program: webpte.Program) -> np.ndarray:
    (found,) = await program.forward(np.array([PROMPT]), np.array([0]))
    return np.asarray(found[0])


def close_to(found: np.ndarray, weight: np.ndarray) -> None:
    np.testing.assert_allclose(found, logits_of(PROMPT, weight), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["gpu", "numpy"])
def test_results_are_those_of_changed_weights(device: str) -> None:
    async def run() -> None:
        program = await opened(device)
        before = await logits(program)
        close_to(before, WEIGHT)
        one, two = [await load_lora(program, ptd(pair), alpha=ALPHA) for pair in (ONE, TWO)]
        used = [webpte.llm.lora_in_use(program)]
        close_to(await logits(program), WEIGHT)
        for lora, weight in ((one, changed(ONE)), (two, changed(TWO)), (one, changed(ONE))):
            await use_lora(program, lora)
            used.append(webpte.llm.lora_in_use(program))
            close_to(await logits(program), weight)
        assert used == [None, one, two, one]
        await use_lora(program, None)
        np.testing.assert_array_equal(await logits(program), before)
        program.close()

    wait(run())


def test_switching_is_one_submission_of_copies() -> None:
    async def run() -> None:
        program = await opened()
        one = await load_lora(program, ptd(ONE), alpha=ALPHA)
        await logits(program)
        transfers = program.stats.prepack_transfers
        await use_lora(program, one)
        assert program.stats.submissions == 1
        await use_lora(program, one)  # nothing to do
        assert program.stats.prepack_transfers == transfers

    wait(run())


def test_programs_share_weights_but_not_loras() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        first = await webpte.llm.load(PROGRAM, device=device, lora=ROOM)
        second = await webpte.llm.load(PROGRAM, device=device, lora=ROOM)
        plain = await webpte.load(PROGRAM, device=device)
        # Of the table, the weights, two caches and two matrices, only the last four are its own.
        assert second.stats.prepack_transfers == 4
        one = await load_lora(first, ptd(ONE), alpha=ALPHA)
        await use_lora(first, one)
        close_to(await logits(first), changed(ONE))
        close_to(await logits(second), WEIGHT)
        close_to(await logits(plain), WEIGHT)
        with pytest.raises(InputError, match="was not loaded for"):
            await use_lora(second, one)
        first.close()
        close_to(await logits(second), WEIGHT)

    wait(run())


def test_a_program_without_room_refuses() -> None:
    async def run() -> None:
        program = await webpte.load(PROGRAM, device="numpy")
        with pytest.raises(InputError, match="lora=3"):
            await load_lora(program, ptd(ONE), alpha=ALPHA)
        await use_lora(program, None)
        with pytest.raises(UnsupportedError, match="does not name its linear layers"):
            await webpte.llm.load(small_llm(), device="numpy", lora=4)
        with pytest.raises(InputError, match="no linear layer 'q_proj'; it has out_proj"):
            await opened("numpy", lora=webpte.LoraRoom(4, ("q_proj",)))
        with pytest.raises(InputError, match="from 1 to 1024, not 0"):
            await opened("numpy", lora=0)

    wait(run())


WRONG: list[tuple[Any, str]] = [
    (ptd(matrices(ROOM + 1)), "has rank 6, and the program has room for 5: load it with lora=6"),
    (ptd((ONE[0][:, :2], ONE[1])), "takes 2 and gives 12 values, but 4 and 12 in the program"),
    (
        write_ptd({"model.q.lora_A.weight": ONE[0], "model.q.lora_B.weight": ONE[1]}),
        "has no room for, such as 'model.q'; there is room for out_proj",
    ),
]


@pytest.mark.parametrize(("data", "says"), WRONG)
def test_a_lora_that_does_not_fit_changes_nothing(data: bytes, says: str) -> None:
    async def run() -> None:
        program = await opened()
        one = await load_lora(program, ptd(ONE), alpha=ALPHA)
        await use_lora(program, one)
        with pytest.raises(InputError, match=says):
            await load_lora(program, data, alpha=ALPHA)
        close_to(await logits(program), changed(ONE))

    wait(run())


# Conversations


@pytest.mark.parametrize("device", ["gpu", "numpy"])
def test_a_conversation_is_computed_anew_after_a_switch(device: str) -> None:
    async def run() -> None:
        program = await opened(device)
        one = await load_lora(program, ptd(ONE), alpha=ALPHA)
        generator = Generator(program)
        first = await tokens_of(generator.generate(PROMPT, 6))
        await use_lora(program, one)
        with pytest.raises(ContextError, match="another LoRA"):
            await tokens_of(generator.continue_([1], 3))
        talk = [*PROMPT, *first]
        answer = generator.generate(talk, 6)
        found = await tokens_of(answer)
        assert answer.stats.reused_tokens == 0
        fresh = await opened(device)
        await use_lora(fresh, await load_lora(fresh, ptd(ONE), alpha=ALPHA))
        assert found == await tokens_of(Generator(fresh).generate(talk, 6))
        again = generator.generate([*talk, *found], 2)
        await tokens_of(again)
        assert again.stats.reused_tokens > 0  # the same LoRA: the cache is used

    wait(run())


def test_a_switch_in_the_middle_of_an_answer_ends_it() -> None:
    async def run() -> None:
        program = await opened()
        one = await load_lora(program, ptd(ONE), alpha=ALPHA)
        generator = Generator(program)
        answer = generator.generate(PROMPT, 20)
        await anext(answer)
        await use_lora(program, one)
        with pytest.raises(ContextError, match="another LoRA"):
            await tokens_of(answer)

    wait(run())


def test_saved_conversations_belong_to_their_lora() -> None:
    async def run() -> None:
        program = await opened()
        one, two = [await load_lora(program, ptd(pair), alpha=ALPHA) for pair in (ONE, TWO)]
        await use_lora(program, one)
        generator = Generator(program)
        await tokens_of(generator.generate(PROMPT, 3))
        data = await generator.save()
        await use_lora(program, two)
        with pytest.raises(InputError, match="was not saved with"):
            await Generator(program).restore(data)
        await use_lora(program, one)
        await Generator(program).restore(data)

    wait(run())


def test_speculation_uses_the_lora() -> None:
    async def run() -> None:
        program = await opened()
        one = await load_lora(program, ptd(ONE), alpha=ALPHA)
        talk = [1, 2, 3, 4] * 3
        await tokens_of(Generator(program).generate(talk, 8, speculate="lookup"))
        await use_lora(program, one)  # after the graph of several rows was built
        found = await tokens_of(Generator(program).generate(talk, 8, speculate="lookup"))
        assert found == await tokens_of(Generator(program).generate(talk, 8))

    wait(run())


# Calls at once, faults, ends


def test_calls_end_with_the_lora_that_they_began_with() -> None:
    async def run() -> None:
        program = await opened()
        loras = [await load_lora(program, ptd(pair), alpha=ALPHA) for pair in (ONE, TWO)]
        weights = [WEIGHT, changed(ONE), changed(TWO)]
        wanted = [logits_of(PROMPT, weight) for weight in weights]

        async def switch() -> None:
            for _ in range(6):
                for lora in (*loras, None):
                    await use_lora(program, lora)

        found: list[np.ndarray] = []

        async def call() -> None:
            for _ in range(12):
                found.append(await logits(program))

        await asyncio.gather(switch(), call(), call(), switch())
        for one in found:
            assert min(np.abs(one - want).max() for want in wanted) < 1e-3

    wait(run())


def test_a_rebuilt_program_has_its_lora() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.llm.load(PROGRAM, device=device, lora=ROOM)
        one, two = [await load_lora(program, ptd(pair), alpha=ALPHA) for pair in (ONE, TWO)]
        await use_lora(program, one)
        device.lost = True
        with pytest.raises(DeviceLostError):
            await program.recover()
        await program.recover(SimulatedDevice())
        assert webpte.llm.lora_in_use(program) is one
        close_to(await logits(program), changed(ONE))
        await use_lora(program, two)
        close_to(await logits(program), changed(TWO))
        await use_lora(program, None)
        close_to(await logits(program), WEIGHT)

    wait(run())


def test_everything_is_freed() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.llm.load(PROGRAM, device=device, lora=ROOM)
        before = program.stats.buffer_bytes
        one, two = [await load_lora(program, ptd(pair), alpha=ALPHA) for pair in (ONE, TWO)]
        each = 4 * ROOM * (SIZE + VOCABULARY)  # A and B of floats, filled up to the room
        assert program.stats.buffer_bytes == before + 2 * each
        await use_lora(program, one)
        await use_lora(program, None)
        two.close()
        two.close()
        assert program.stats.buffer_bytes == before + each
        with pytest.raises(ClosedError, match="was closed; load it again"):
            await use_lora(program, two)
        await use_lora(program, one)
        one.close()
        close_to(await logits(program), changed(ONE))  # until another is chosen
        program.close()
        assert not device.memory
        with pytest.raises(ClosedError):
            await load_lora(program, ptd(ONE), alpha=ALPHA)
        with pytest.raises(ClosedError):
            await use_lora(program, None)

    wait(run())


def test_comparing_reads_the_lora_in_use() -> None:
    async def run() -> None:
        program = await opened()
        await use_lora(program, await load_lora(program, ptd(ONE), alpha=ALPHA))
        comparison = await program.compare("forward", np.array([PROMPT]), np.array([0]))
        assert comparison.agrees, str(comparison)

    wait(run())


def test_the_forecast_knows_the_room() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        plain = await webpte.forecast(PROGRAM, device=device)
        roomy = await webpte.llm.forecast(PROGRAM, device=device, lora=ROOM)
        # A (5, 4) and B (12, 5) of floats
        assert roomy.weights - plain.weights == 4 * ROOM * (SIZE + VOCABULARY)

    wait(run())


def test_a_folder_as_peft_writes_it(tmp_path: Path) -> None:
    from support.write.weight_files import safetensors_bytes

    stem = f"base_model.model.{LAYER}"
    named = {f"{stem}.lora_A.weight": ONE[0], f"{stem}.lora_B.weight": ONE[1]}
    (tmp_path / "adapter_model.safetensors").write_bytes(safetensors_bytes(named))
    config = {"peft_type": "LORA", "r": 3, "lora_alpha": ALPHA, "modules_to_save": None}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))

    async def run() -> None:
        program = await opened("numpy")
        for source in (tmp_path, str(tmp_path), tmp_path / "adapter_model.safetensors"):
            lora = await load_lora(program, source)
            assert (lora.rank, lora.layers) == (3, (LAYER,))
            await use_lora(program, lora)
            close_to(await logits(program), changed(ONE))
            await use_lora(program, None)
        assert (await load_lora(program, tmp_path)).name == tmp_path.name

    wait(run())
