"""Language models with a shorter context than their files say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.split_graphs import linear
from support.harness import extent
from support.write.pte_writer import write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generator
from webpte_host.base.layout import ROOT

FOLDER = ROOT / "tests" / "data" / "llm"
NAMES = ["llama_tiny_fp32", "llama_tiny_q4"]
PROMPT = [5, 9, 33, 7]


async def answer(program: webpte.Program, count: int, prompt: Any = PROMPT) -> list[int]:
    return [token async for token in Generator(program).generate(prompt, count)]


def prompts(most: int) -> list[list[int]]:
    """Return a prompt that leaves room for a few tokens; with everything, a short one, too."""
    long = [7 * i % 300 for i in range(most - 12)]
    return extent.some([PROMPT if len(long) < 10 else long], PROMPT)


@pytest.mark.parametrize("device", extent.some(["gpu"], "numpy"))
@pytest.mark.parametrize(
    ("most", "prompt"),
    [(most, prompt) for most in extent.share((20, 63, 64, 127)) for prompt in prompts(most)],
    ids=lambda given: str(given if isinstance(given, int) else len(given)),
)
@pytest.mark.parametrize("name", NAMES)
def test_answers_stay_the_same(name: str, most: int, prompt: list[int], device: str) -> None:
    async def check() -> None:
        path = FOLDER / f"{name}.pte"
        async with await webpte.load(path, device="numpy") as whole:
            wanted = await answer(whole, most - len(prompt) + 1, prompt)
        on: Any = SimulatedDevice() if device == "gpu" else device
        async with await webpte.llm.load(path, device=on, max_context=most) as program:
            generator = Generator(program)
            assert generator.max_context == most
            assert generator.max_chunk == min(most, 63)
            assert program.methods["get_max_context_len"].outputs[0].value == most  # type: ignore[union-attr]
            assert await program.run("get_max_context_len") == (most,)
            found = await answer(program, most, prompt)
            # The last token that is drawn needs no place in the cache.
            assert len(found) == most - len(prompt) + 1
            assert found == wanted

    wait(check())


@pytest.mark.parametrize("device", extent.some(["gpu"], "numpy"))
def test_an_embedding_beside_the_delegate_follows(device: str) -> None:
    most = 33

    async def check() -> None:
        path = ROOT / "web" / "samples" / "stories.pte"
        async with await webpte.load(path, device="numpy") as whole:
            wanted = await answer(whole, 20)
        on: Any = SimulatedDevice() if device == "gpu" else device
        async with await webpte.llm.load(path, device=on, max_context=most) as program:
            generator = Generator(program)
            assert (generator.max_context, generator.max_chunk) == (most, most)
            assert await answer(program, 20) == wanted
            long = [token % 100 for token in range(most)]
            assert len(await answer(program, 4, long)) == 1  # a chunk of all positions
            with pytest.raises(errors.WebpteError, match=str(most)):
                await program.forward(np.zeros((1, most + 1), np.int64), np.zeros(1, np.int64))

    wait(check())


@pytest.mark.parametrize("name", NAMES)
def test_caches_and_activations_shrink(name: str) -> None:
    async def check() -> None:
        path, device = FOLDER / f"{name}.pte", SimulatedDevice()
        whole = await webpte.forecast(path, device=device)
        short = await webpte.llm.forecast(path, device=device, max_context=32)
        assert short.weights == whole.weights
        assert short.state == whole.state // 4
        assert short.activations < 0.6 * whole.activations
        async with await webpte.llm.load(path, device=device, max_context=32) as program:
            kinds = program.memory().by_kind
            assert kinds["state"] == short.state
            assert kinds["activations"] == short.activations
            await program.recover(SimulatedDevice())  # as it was loaded
            assert program.memory().by_kind["state"] == short.state

    wait(check())


def test_what_is_beyond_the_context_is_refused() -> None:
    async def check() -> None:
        path = FOLDER / "llama_tiny_q4.pte"
        async with await webpte.llm.load(path, device=SimulatedDevice(), max_context=20) as program:
            tokens = np.zeros((1, 21), np.int64)
            with pytest.raises(errors.WebpteError, match="20"):
                await program.forward(tokens, np.zeros(1, np.int64))
            with pytest.raises(errors.ResizeError):
                await program.forward(tokens[:, :2], np.array([19], np.int64))
            await program.forward(tokens[:, :2], np.array([18], np.int64))
            with pytest.raises(errors.WebpteError, match="20"):
                await answer(program, 4, [3] * 21)

    wait(check())


def test_a_longer_context_than_the_file_has() -> None:
    with pytest.raises(errors.InputError, match="no KV cache with more positions"):
        wait(webpte.llm.load(FOLDER / "llama_tiny_q4.pte", device="numpy", max_context=128))


@pytest.mark.parametrize("most", [0, -1])
def test_no_context_at_all(most: int) -> None:
    with pytest.raises(errors.InputError, match="at least one token"):
        wait(webpte.llm.load(FOLDER / "llama_tiny_q4.pte", device="numpy", max_context=most))


def test_a_program_without_a_cache() -> None:
    with pytest.raises(errors.InputError, match="no KV cache"):
        wait(webpte.llm.load(write_pte(linear().graph), device="numpy", max_context=8))
