"""The two methods of the sample `teach`; each call takes the weights, `learn` returns new weights.

    learn(pictures, labels, rate, w1, m1, v1, w2, m2, v2) -> loss, w1, m1, v1, w2, m2, v2
    predict(pictures, w1, w2) -> logits

    seen = eyes(pictures)    hidden = relu(seen @ w1ᵀ)    logits = hidden @ w2ᵀ

`eyes` are the convolutions of the sample `digits`, which are fixed; w1 and w2 are trained. Their
output is the difference from an empty picture, and there are no biases: so an empty picture gives
logits of zero. The gradient is written out, because programs have no autograd. AdamW is written
out, too, because PyTorch's exporter refuses `et_vk.adamw_step`, whose outputs are its inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from webpte_export.samples.digits.train_digits import Digits

SIDE = 28
BATCH = 32
CLASSES = 5
SEEN, HIDDEN = 512, 32
SEEN_SCALE = 0.3  # scales the features to suit AdamW's step size
BETA1, BETA2, EPSILON, DECAY = 0.9, 0.99, 1e-8, 0.01


class FeatureExtractor(nn.Module):
    """A feature extractor: (n, 1, 28, 28), ink 1 on 0 -> (n, SEEN)."""

    def __init__(self, digits: Digits) -> None:
        super().__init__()
        self.layers = digits.layers[:-1]  # without the output layer
        with torch.no_grad():
            self.register_buffer("nothing", self.layers(torch.zeros(1, 1, SIDE, SIDE)))

    def forward(self, pictures: Tensor) -> Tensor:
        seen: Tensor = (self.layers(pictures) - self.nothing) * SEEN_SCALE
        return seen


class Predict(nn.Module):
    def __init__(self, eyes: FeatureExtractor) -> None:
        super().__init__()
        self.eyes = eyes

    def forward(self, pictures: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        return linear(torch.relu(linear(self.eyes(pictures), w1)), w2)


class Learn(nn.Module):
    """A step of AdamW on a batch: (BATCH, 1, 28, 28) with int32 labels (BATCH,)

    rate  the learning rate, (1,)
    m, v  AdamW's running means of a weight's gradient and of its square, zeros to begin with
    """

    def __init__(self, eyes: FeatureExtractor) -> None:
        super().__init__()
        self.eyes = eyes
        self.register_buffer("zero", torch.zeros(1))

    def forward(
        self,
        pictures: Tensor,
        labels: Tensor,
        rate: Tensor,
        w1: Tensor,
        m1: Tensor,
        v1: Tensor,
        w2: Tensor,
        m2: Tensor,
        v2: Tensor,
    ) -> tuple[Tensor, ...]:
        seen = self.eyes(pictures)
        hidden = torch.relu(linear(seen, w1))
        logits = linear(hidden, w2)
        loss, d_logits = torch.ops.et_vk.fused_ce(logits, labels, float(BATCH))
        d_hidden = torch.where(hidden > 0, torch.mm(d_logits, w2), self.zero)
        d_w1 = torch.ops.et_vk.linear_dW(d_hidden, seen)
        d_w2 = torch.ops.et_vk.linear_dW(d_logits, hidden)
        return loss, *_adamw(w1, m1, v1, d_w1, rate), *_adamw(w2, m2, v2, d_w2, rate)


def _adamw(
    weight: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, rate: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute AdamW without bias corrections: they are near 1 soon, and need a step counter."""
    mean = mean * BETA1 + gradient * (1 - BETA1)
    square = square * BETA2 + gradient * gradient * (1 - BETA2)
    step = mean / (torch.sqrt(square) + EPSILON) + weight * DECAY
    return weight - step * rate, mean, square
