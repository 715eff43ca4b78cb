"""Small exported models with LoRAs of PEFT: logits are PyTorch's, and decoding stays fused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.lora_models import MODELS, check_model, dispatches
from webpte.engine.gpu.simulated.device import SimulatedDevice

LAYERS = 2


@pytest.mark.parametrize("name", extent.share(list(MODELS)))
def test_logits_are_those_of_pytorch(name: str) -> None:
    wait(check_model(name, "numpy"))


@pytest.mark.parametrize("name", extent.some(["llama_4w"], "llama"))
def test_logits_on_a_device(name: str) -> None:
    wait(check_model(name, SimulatedDevice()))


@pytest.mark.parametrize(
    ("room", "each"),
    [
        (None, 5),
        (webpte.LoraRoom(16, ("q_proj", "v_proj")), 12),
        (webpte.LoraRoom(16, ("o_proj", "down_proj")), 10),
        (16, 21),
    ],
)
def test_dispatches_of_a_layer(room: Any, each: int) -> None:
    """Beside the layers: the embedding, the head's norm and GEMV, and strides of its row."""
    device = SimulatedDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    assert wait(dispatches("llama_4w", device, 1, lora=room)) == 5 + LAYERS * each
