"""Text generation: sampling, chunks, stopping, and the host's work for a decode step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import chain, load, wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ExecutionError, InputError
from webpte.llm import Generator, generate


@pytest.fixture(scope="module")
def llama(root: Path) -> webpte.Program:
    return wait(webpte.load(root / "tests/data/llm/llama_tiny_q4.pte", device="numpy"))


async def tokens_of(generation: Any) -> list[int]:
    return [token async for token in generation]


def prompt(length: int) -> list[int]:
    return np.random.default_rng(length).integers(0, 512, length).tolist()


def test_greedy_is_the_argmax_of_each_step(llama: webpte.Program) -> None:
    async def by_hand(tokens: list[int], count: int) -> list[int]:
        found, position, feed = [], 0, tokens
        for _ in range(count):
            (logits,) = await llama.forward(np.array([feed]), np.array([position]))
            position += len(feed)
            feed = [int(np.argmax(logits[0]))]
            found += feed
        return found

    expected = wait(by_hand(prompt(7), 12))
    assert wait(tokens_of(generate(llama, prompt(7), 12))) == expected
    assert len(set(expected)) > 1


def test_a_prompt_in_chunks_is_a_prompt(llama: webpte.Program) -> None:
    """The program takes 63 tokens per call; the cache must not depend on the chunks."""

    async def in_two(tokens: list[int]) -> list[int]:
        generator = Generator(llama)
        await generator.prefill(tokens[:30])
        return await tokens_of(generator.continue_(tokens[30:], 10))

    tokens = prompt(100)
    assert Generator(llama).max_chunk == 63
    assert wait(tokens_of(generate(llama, tokens, 10))) == wait(in_two(tokens))


def test_a_seed_repeats_itself(llama: webpte.Program) -> None:
    def run(seed: int) -> list[int]:
        return wait(tokens_of(generate(llama, prompt(5), 12, temperature=2.0, seed=seed)))

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_penalty_counts_the_prompt_and_the_answer(llama: webpte.Program) -> None:
    """Tokens of earlier turns are penalized, too, but not after a reset."""

    async def run() -> tuple[list[int], list[int], list[int]]:
        generator = Generator(llama)
        asked: dict[str, Any] = {"repetition_penalty": 1e9}
        first = await tokens_of(generator.generate(prompt(7), 20, **asked))
        second = await tokens_of(generator.continue_([1], 20, **asked))
        generator.reset()
        return first, second, await tokens_of(generator.generate(prompt(7), 20, **asked))

    first, second, again = wait(run())
    assert len({*prompt(7), *first, 1, *second}) == len({*prompt(7), 1}) + 40
    assert again == first
    assert first != wait(tokens_of(generate(llama, prompt(7), 20)))


def test_chance_depends_on_the_position_alone(llama: webpte.Program) -> None:
    """A prompt in two turns gets the same answer as in one turn, with the same seed."""

    async def in_two(tokens: list[int]) -> list[int]:
        generator = Generator(llama)
        await generator.prefill(tokens[:30])
        return await tokens_of(generator.continue_(tokens[30:], 10, temperature=3.0, seed=5))

    whole = wait(tokens_of(generate(llama, prompt(50), 10, temperature=3.0, seed=5)))
    assert wait(in_two(prompt(50))) == whole


def test_it_stops(llama: webpte.Program) -> None:
    free = wait(tokens_of(generate(llama, prompt(7), 12)))
    stop = free[5]
    first = free.index(stop)
    assert wait(tokens_of(generate(llama, prompt(7), 12, stop=[stop]))) == free[:first]
    assert wait(tokens_of(generate(llama, prompt(7), 0))) == []


def test_a_full_context_ends_it(llama: webpte.Program) -> None:
    tokens = wait(tokens_of(generate(llama, prompt(120), 50)))
    assert len(tokens) == 128 - 120 + 1  # the last token needs no room in the cache


def test_a_prompt_over_the_context(llama: webpte.Program) -> None:
    with pytest.raises(InputError, match="129 tokens is over the 128"):
        wait(tokens_of(generate(llama, prompt(129), 1)))
    with pytest.raises(InputError, match="at least one token"):
        wait(tokens_of(generate(llama, [], 1)))


def test_reset_forgets(llama: webpte.Program) -> None:
    async def run() -> tuple[list[int], list[int], list[int]]:
        generator = Generator(llama)
        first = await tokens_of(generator.generate(prompt(9), 8))
        on = await tokens_of(generator.continue_(prompt(9), 8))
        generator.reset()
        return first, on, await tokens_of(generator.generate(prompt(9), 8))

    first, on, again = wait(run())
    assert first == again != on


def test_speeds_are_counted(llama: webpte.Program) -> None:
    async def run() -> Any:
        generation = generate(llama, prompt(9), 5)
        await tokens_of(generation)
        return generation

    generation = wait(run())
    stats = generation.stats
    assert (stats.prefill_tokens, stats.decode_tokens) == (9, 4)
    assert stats.prefill_tokens_per_second > 0
    assert stats.decode_tokens_per_second > 0
    assert len(generation.tokens) == 5


def test_a_program_that_is_no_language_model() -> None:
    program = wait(load(chain(1)))
    with pytest.raises(InputError, match="not a language model with a KV cache: it takes input0"):
        generate(program, [1], 1)


def test_a_program_that_gives_more_than_logits() -> None:
    """Programs exported for training: nothing shows which output is the logits."""
    g = GraphWriter()
    tokens, position = g.tensor((1, 4), "int64"), g.tensor((1,), "int64")
    g.inputs(tokens, position)
    g.outputs(*(g.op("aten.neg.default", tokens, g.tensor((1, 4), "int64")) for _ in range(2)))
    program = wait(load(g))
    with pytest.raises(InputError, match=r"it returns output0.*; output1.*, not logits alone"):
        generate(program, [1], 1)


# What a decode step costs

HEADS, HEAD_SIZE, CONTEXT = 2, 4, 16


def decoder(layers: int) -> bytes:
    """Build layers as exporters do: each reads the position, and has attention with a cache."""
    g = GraphWriter()
    dims = (1, 8, HEADS, HEAD_SIZE)
    x, position = g.tensor(dims), g.tensor((1,), "int64")
    table = g.prepack(g.tensor((CONTEXT, 8), constant=np.ones((CONTEXT, 8), np.float32)))
    length, start, end = g.symint(0), g.symint(0), g.symint(0)
    g.op("sym_size.int", x, g.int(1), length)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(-1), start)
    g.op("add", start, length, end)
    rows = g.op("aten.slice_copy.Tensor", table, g.int(0), start, end, g.int(1), g.tensor((8, 8)))
    value = x
    for _ in range(layers):
        at = g.symint(0)
        g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), at)
        caches = [
            g.tensor((1, CONTEXT, HEADS, HEAD_SIZE), constant=np.zeros((1, CONTEXT, 2, 4), "f4"))
            for _ in range(2)
        ]
        rest = [at, g.int(1), g.null(), g.int(0), g.bool_(True), g.null()]
        attended = g.op(
            "sdpa_with_kv_cache.default", value, value, value, *caches, *rest, g.tensor(dims)
        )
        value = g.op("aten.add.Tensor", value, attended, g.int(1), g.tensor(dims))
    g.inputs(x, position)
    g.outputs(value, rows)
    g.host(x, dynamic=True)
    return write_pte(g)


def inputs(length: int, position: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((1, length, HEADS, HEAD_SIZE), np.float32), np.array([position])


def test_a_decode_step_costs_the_same_whatever_the_number_of_layers() -> None:
    async def cost(layers: int) -> list[tuple[int, int, int, int]]:
        device = SimulatedDevice()
        program = await webpte.load(decoder(layers), device=device)
        await program.forward(*inputs(5, 0))
        await program.forward(*inputs(1, 5))
        costs = []
        for position in (6, 7, 8):
            before = program.stats
            await program.forward(*inputs(1, position))
            after = program.stats
            costs.append(
                (
                    after.interop_calls - before.interop_calls,
                    after.lowerings - before.lowerings,
                    after.hooks_fired - before.hooks_fired,
                    len(device.plans),
                )
            )
        return costs

    two, eight = wait(cost(2)), wait(cost(8))
    assert two == eight
    # One crossing; the end of the slice is added up, and the slice of the table does not change.
    assert two == [(1, 0, 1, 3)] * 3


def test_prefill_and_decode_switch_without_lowering() -> None:
    async def run() -> None:
        program = await webpte.load(decoder(2), device=SimulatedDevice())
        for length, position in ((5, 0), (1, 5)):
            await program.forward(*inputs(length, position))
        lowered = program.stats.lowerings
        for length, position in ((5, 0), (1, 5), (5, 0), (1, 5)):
            await program.forward(*inputs(length, position))
        assert program.stats.lowerings == lowered

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_position_past_the_cache(device: str) -> None:
    async def run() -> None:
        used: Any = SimulatedDevice() if device == "recording" else device
        program = await webpte.load(decoder(2), device=used)
        right = await program.forward(*inputs(1, CONTEXT - 1))
        for length, position in ((1, CONTEXT), (5, CONTEXT - 4), (1, -1), (1, 2**40)):
            with pytest.raises(ExecutionError):
                await program.forward(*inputs(length, position))
        again = await program.forward(*inputs(1, CONTEXT - 1))
        assert [a.tolist() for a in again] == [a.tolist() for a in right]

    wait(run())
