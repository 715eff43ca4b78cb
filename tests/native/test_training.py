"""LoRA training on a GPU's kernels: a hundred steps as PyTorch and PEFT compute them."""

from __future__ import annotations

import pytest

from support.devices.native import make_device, need_native
from support.graphs.graphs import wait
from support.llm.training_models import MODELS, check_model


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_steps_are_those_of_pytorch(name: str) -> None:
    wait(check_model(name, make_device(), 100))


@pytest.mark.thorough
def test_ten_steps_on_a_phone() -> None:
    wait(check_model("llama_8w", make_device("phone"), 10))
