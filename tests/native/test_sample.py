"""Tokens that this machine's GPU chooses equal the reference's: thousands, and all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.cases.sampling.sample_cases import is_nearly
from support.devices.native import need_native, shared_device
from support.harness import extent
from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest
from webpte.llm.decode.sampler_graph import SamplerKind, sample_graph
from webpte.llm.decode.sampling import SamplerSettings, Sampling

CONTEXT = 64

# Vocabulary, draws for each of the settings, spread of the logits.
VOCABULARIES = [(7, 100, 2.0), (512, 100, 3.0), (32_000, 12, 2.5), (128_256, 4, 2.5)]

ASKED = [
    Sampling(1.0),
    Sampling(0.7, min_p=0.02),
    Sampling(1.0, top_k=3),
    Sampling(4.0, top_k=40),
    Sampling(1.0, top_p=0.9),
    Sampling(2.0, top_p=0.3),
    Sampling(1.3, top_k=200, top_p=0.8, min_p=0.001),
    Sampling(0.9, repetition_penalty=1.3),
    Sampling(1.5, top_k=50, top_p=0.95, repetition_penalty=0.7),
    Sampling(0.0, repetition_penalty=5.0),
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


async def compare(
    length: int,
    draws: int,
    scale: float,
    asked: Sampling,
    device: NativeDevice,
    dtype: str = "float32",
) -> None:
    kind = SamplerKind(True, *SamplerSettings.of(asked, 0).flags, CONTEXT + 1)
    graph = sample_graph(DTYPES[dtype], (1, length), kind)
    delegate = await GpuDelegate.create(graph, device, ShaderLibrary())
    rng = np.random.default_rng(length + draws)
    logits = rng.normal(0, scale, (1, length)).astype(dtype)
    wrong: list[Any] = []
    for draw in range(draws):
        # A vocabulary is drawn from many times, and half of the times it is another one.
        logits = np.roll(logits, 17 * draw + 1, axis=1) if draw % 2 else logits
        position = int(rng.integers(0, CONTEXT + 1))
        settings = SamplerSettings.of(asked, int(rng.integers(0, 2**64, dtype=np.uint64)))
        history = rng.integers(0, length, CONTEXT + 1).astype(np.int32)
        inputs: list[Any] = [logits, position, settings.values, settings.seed]
        if kind.penalized:
            inputs.append(history.reshape(SamplerKind.history_dims(history.size)))
        (token,) = await delegate.run(RunRequest(inputs))
        want = settings.choose(logits[0], position, history[:position])
        if int(token[0, 0]) != want:
            wrong.append((draw, int(token[0, 0]), want))
        given = (position, settings.values, settings.seed, *settings.flags)
        assert is_nearly(want, logits, history, *given)
    assert wrong == []


@pytest.mark.parametrize(
    "software", extent.some([False], True), ids=["gpu", "software"][: extent.count(1, 2)]
)
@pytest.mark.parametrize("asked", extent.share(ASKED), ids=str)
@pytest.mark.parametrize("vocabulary", extent.share(VOCABULARIES, 2), ids=str)
def test_tokens_are_those_of_the_reference(
    vocabulary: tuple[int, int, float], asked: Sampling, software: bool
) -> None:
    asyncio.run(compare(*vocabulary, asked, shared_device("plain" if software else "gpu")))


@pytest.mark.parametrize("asked", [ASKED[0], ASKED[6], ASKED[8]], ids=str)
def test_logits_that_are_half_floats(asked: Sampling) -> None:
    """Many of them are equal, and all of those at a threshold are kept."""
    asyncio.run(compare(5003, 40, 2.0, asked, shared_device(), dtype="float16"))
