"""LoRAs on a GPU's kernels: logits, and steps of training, as PyTorch and PEFT compute them."""

from __future__ import annotations

import pytest

from support.devices.native import need_native, shared_device
from support.graphs.graphs import wait
from support.harness import extent
from support.llm import training_models
from support.llm.lora_models import check_model

CASES = [("llama_4w", "gpu"), ("llama", "gpu"), ("phi3_8w", "gpu"), ("llama_4w", "phone")]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize(("name", "way"), extent.share(CASES, 4))  # steps of training have 8 bits
def test_logits_are_those_of_pytorch(name: str, way: str) -> None:
    wait(check_model(name, shared_device(way)))


@pytest.mark.thorough  # tests/native/test_kv_cache.py has packed caches
def test_with_a_packed_cache() -> None:
    wait(check_model("llama_4w", shared_device(), 1e-2, kv_cache="f16"))


@pytest.mark.parametrize("name", training_models.MODELS)
def test_steps_of_training_are_those_of_pytorch(name: str) -> None:
    wait(training_models.check_model(name, shared_device(), 3))


@pytest.mark.thorough  # three steps run above, and ten in tests/unit/training
@pytest.mark.parametrize("name", training_models.MODELS)
def test_a_hundred_steps_are_those_of_pytorch(name: str) -> None:
    """The kernels are those for this adapter: on lavapipe a GPU's take fifteen times as long."""
    wait(training_models.check_model(name, "native", 100))
