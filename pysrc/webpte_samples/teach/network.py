"""The two methods of the sample `teach`, whose weights come in and go out again with each call.

    learn(pictures, labels, rate, w1, m1, v1, w2, m2, v2) -> loss, w1, m1, v1, w2, m2, v2
    predict(pictures, w1, w2) -> logits

    seen = eyes(pictures)    hidden = relu(seen @ w1ᵀ)    logits = hidden @ w2ᵀ

`eyes` are the convolutions of the sample `digits`, which stay as they are; w1 and w2 learn. What
they see is how a picture differs from an empty one, and there are no biases: so an empty one gives
zeros, that is, no opinion. The gradient is written out, since programs hold no autograd, and so is
AdamW: PyTorch's exporter refuses `et_vk.adamw_step`, whose outputs are its inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from webpte_samples.digits.train_digits import Digits

SIDE = 28
BATCH = 32
CLASSES = 5
SEEN, HIDDEN = 512, 32
SEEN_SCALE = 0.3  # makes what is seen about as large as AdamW's steps want it
BETA1, BETA2, EPSILON, DECAY = 0.9, 0.99, 1e-8, 0.01


class Eyes(nn.Module):
    """(n, 1, 28, 28), ink 1 on 0 -> (n, SEEN)"""

    def __init__(self, digits: Digits) -> None:
        super().__init__()
        self.layers = digits.layers[:-1]  # all but the ten digits
        with torch.no_grad():
            self.register_buffer("nothing", self.layers(torch.zeros(1, 1, SIDE, SIDE)))

    def forward(self, pictures: Tensor) -> Tensor:
        seen: Tensor = (self.layers(pictures) - self.nothing) * SEEN_SCALE
        return seen


class Predict(nn.Module):
    def __init__(self, eyes: Eyes) -> None:
        super().__init__()
        self.eyes = eyes

    def forward(self, pictures: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        return linear(torch.relu(linear(self.eyes(pictures), w1)), w2)


class Learn(nn.Module):
    """One step of AdamW on one batch: (BATCH, 1, 28, 28) with int32 labels (BATCH,)

    rate  the learning rate, (1,)
    m, v  AdamW's running means of a weight's gradient and of its square, zeros to begin with
    """

    def __init__(self, eyes: Eyes) -> None:
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
    """Without bias corrections: they are near 1 after a few steps, and no step knows its number."""
    mean = mean * BETA1 + gradient * (1 - BETA1)
    square = square * BETA2 + gradient * gradient * (1 - BETA2)
    step = mean / (torch.sqrt(square) + EPSILON) + weight * DECAY
    return weight - step * rate, mean, square
