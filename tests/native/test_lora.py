"""LoRAs on a GPU's kernels: logits as PyTorch and PEFT compute them, and dispatches per layer."""

from __future__ import annotations

import pytest

from support.devices.native import make_device, need_native
from support.graphs.graphs import wait
from support.llm.lora_models import MODELS, check_model


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize("way", ["gpu", "phone"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_pytorch(name: str, way: str) -> None:
    wait(check_model(name, make_device(way)))


@pytest.mark.parametrize("kv_cache", ["f16"])
def test_with_a_packed_cache(kv_cache: str) -> None:
    wait(check_model("llama", make_device(), 1e-2, kv_cache=kv_cache))
