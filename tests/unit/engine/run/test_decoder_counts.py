"""Counts of dispatches per layer of small exports of many families of decoders.

data/make/export_decoders.py made them: two layers each, with 8-bit weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.llm.small_decoders import program_of
from webpte.engine.gpu.simulated.device import SimulatedDevice

ATTENTION = (
    *("attention_flash_split_rope", "attention_flash_split_heads", "attention_flash_split"),
    *("attention_flash", "attention_flash_small_heads", "softmax"),
)


async def layer_of(program: bytes, tokens: int) -> list[str]:
    """Return the kernels from the first layer's attention up to the second layer's."""
    device = SimulatedDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    async with await webpte.load(program, device=device) as loaded:
        await loaded.forward(np.zeros((1, tokens), np.int64), np.zeros(1, np.int64))
        (delegate,) = loaded._build.gpu_delegates
        kernels = [dispatch.kernel for dispatch in delegate.planner.dispatches()]
    kind = next(name for name in ATTENTION if name in kernels)
    first, second = (i for i, name in enumerate(kernels) if name == kind)
    return kernels[first:second]


@pytest.mark.parametrize(
    ("family", "decode", "prefill"),
    [
        ("cohere", 7, 11),
        ("gemma", 5, 12),
        ("gemma2", 5, 14),
        ("gemma3", 5, 16),
        ("gemma3_one_key_head", 5, 16),
        ("gpt2", 5, 8),
        ("mistral", 5, 12),
        ("olmo2", 5, 14),
        ("phi", 7, 11),
        ("qwen2", 5, 12),
        ("qwen3", 5, 14),
    ],
)
def test_a_layer_of_a_real_export(family: str, decode: int, prefill: int) -> None:
    program = program_of(family)
    assert [len(wait(layer_of(program, tokens))) for tokens in (1, 20)] == [decode, prefill]


@pytest.mark.parametrize(("family", "decode"), [("qwen3", 6), ("gemma2", 8)])
def test_a_check_of_guesses_takes_as_many_dispatches_as_a_step(family: str, decode: int) -> None:
    program = program_of(family)
    assert {len(wait(layer_of(program, tokens))) for tokens in (2, 3, 8)} == {decode}
