"""Computes the losses of a few steps of `teach` by PyTorch's autograd, for tests.

    python -m webpte_export.samples.teach.losses digits.pt START.npz STEPS

START.npz has `pictures`, `labels` and the weights `w1` and `w2` to begin with.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from webpte_export.samples.teach.export_teach import loaded_eyes
from webpte_export.samples.teach.network import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    FeatureExtractor,
    Predict,
)


def losses(
    eyes: FeatureExtractor, start: dict[str, Tensor], rate: float, steps: int
) -> list[float]:
    """Train with autograd; only the forward pass is shared with `network.Learn`."""
    model, weights = Predict(eyes), [start["w1"].requires_grad_(), start["w2"].requires_grad_()]
    moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in weights]
    found = []
    for _ in range(steps):
        loss = cross_entropy(model(start["pictures"], *weights), start["labels"].long())
        gradients = torch.autograd.grad(loss, weights)
        found.append(loss.item())
        with torch.no_grad():
            for weight, (mean, square), gradient in zip(weights, moments, gradients, strict=True):
                mean.lerp_(gradient, 1 - BETA1)
                square.lerp_(gradient**2, 1 - BETA2)
                weight.mul_(1 - rate * DECAY).addcdiv_(mean, square.sqrt() + EPSILON, value=-rate)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("start", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--rate", type=float, default=0.003)
    options = parser.parse_args()
    with np.load(options.start) as archive:
        start = {name: torch.from_numpy(archive[name]) for name in archive.files}
    found = losses(loaded_eyes(options.weights), start, options.rate, options.steps)
    print(", ".join(f"{loss:.5f}" for loss in found))


if __name__ == "__main__":
    main()
