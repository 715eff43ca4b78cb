"""Trains the sample `digits` on scikit-learn's scans and on drawn strokes.

    python -m webpte_export.samples.digits.train_digits DATA OUT_DIR --steps 2500

`prepare` writes DATA/digits.npz. The last 360 scans are held out.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from webpte_export.samples.base.trained import keep
from webpte_export.samples.digits.drawing import Pen, enlarged, varied

HELD_OUT = 360
BATCH = 128
POOL, POOL_STEPS = 8192, 200  # pictures drawn at once, and the steps that use them


class Digits(nn.Module):
    """A classifier: (1, 1, 28, 28), ink 1 on 0 -> (1, 10), the probability of each digit."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(24, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 4 * 4, 10),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> Tensor:
        return self.layers(picture).softmax(-1)


def draw_pool(pen: Pen, scans: Tensor, labels: Tensor, strokes_only: bool) -> tuple[Tensor, Tensor]:
    """Return pictures (POOL, 1, 28, 28), half drawn and half scans, with labels (POOL,)."""
    if strokes_only:
        return pen.draw(POOL)
    pictures, digits = pen.draw(POOL // 2)
    chosen = torch.randint(len(scans), (POOL // 2,), device=scans.device)
    return torch.cat([pictures, varied(scans[chosen])]), torch.cat([digits, labels[chosen]])


def train(model: Digits, scans: Tensor, labels: Tensor, steps: int, strokes_only: bool) -> None:
    pen = Pen(str(scans.device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2
    )
    for step in range(steps):
        if step % POOL_STEPS == 0:
            pictures, digits = draw_pool(pen, scans, labels, strokes_only)
        chosen = torch.randint(POOL, (BATCH,), device=scans.device)
        loss = nn.functional.cross_entropy(model.layers(pictures[chosen]), digits[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        plan.step()
        if step % POOL_STEPS == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)


@torch.inference_mode()
def accuracy(model: Digits, pictures: Tensor, labels: Tensor) -> float:
    return (model(pictures).argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--strokes-only", action="store_true", help="train without the scans")
    options = parser.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = np.load(options.data / "digits.npz")
    scans = enlarged(torch.from_numpy(found["images"]).to(device))
    labels = torch.from_numpy(found["labels"]).long().to(device)
    model = Digits().to(device)
    train(model, scans[:-HELD_OUT], labels[:-HELD_OUT], options.steps, options.strokes_only)
    torch.manual_seed(2)
    drawn, digits = Pen(device).draw(2000)
    measured = {
        "held-out scans": accuracy(model, scans[-HELD_OUT:], labels[-HELD_OUT:]),
        "held-out scans, varied": accuracy(
            model, varied(scans[-HELD_OUT:].repeat(10, 1, 1, 1)), labels[-HELD_OUT:].repeat(10)
        ),
        "drawn strokes": accuracy(model, drawn, digits),
    }
    keep(model, measured, options.out, "digits")


if __name__ == "__main__":
    main()
