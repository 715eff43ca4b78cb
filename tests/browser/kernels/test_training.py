"""Training on WebGPU: losses follow the losses of PyTorch and of NumPy."""

from __future__ import annotations

import base64

import pytest

from support.cases.training.training_cases import Classifier
from support.graphs.fine_tuning import PYTORCH_LOSSES, FineTuning
from webpte_host.harness.browser import Harness

TRAIN = """
import base64
import numpy as np
import webpte

program = await webpte.load(base64.b64decode(data), device="webgpu")
x, labels = np.array(x, np.float32), np.array(labels, np.int32)
losses = [float((await program.forward(x, labels))[0]) for _ in range(steps)]
program.close()
return losses
"""


def train(harness: Harness, model: Classifier | FineTuning, steps: int) -> list[float]:
    data = base64.b64encode(model.program()).decode()
    losses: list[float] = harness.python(
        TRAIN, data=data, x=model.x.tolist(), labels=model.labels.tolist(), steps=steps
    )
    return losses


def test_fine_tuning_follows_pytorch(harness: Harness) -> None:
    losses = train(harness, FineTuning(), len(PYTORCH_LOSSES))
    assert losses == pytest.approx(PYTORCH_LOSSES, rel=2e-3, abs=2e-5)


@pytest.mark.thorough
def test_a_classifier_learns(harness: Harness) -> None:
    model, steps = Classifier(), 40
    losses = train(harness, model, steps)
    assert losses == pytest.approx(model.expected(steps), rel=2e-3, abs=1e-5)
    assert losses[-1] < losses[0] / 5
