"""Modules of several operators, with random weights, for `make_xnnpack.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor, nn


class Of(nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class With(nn.Module):
    """A module of a function of an input and constants."""

    def __init__(self, function: Callable[..., Tensor], *sizes: Sequence[int]) -> None:
        super().__init__()
        self.function, self.count = function, len(sizes)
        for number, each in enumerate(sizes):
            self.register_buffer(f"constant{number}", torch.randn(*each))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *(getattr(self, f"constant{i}") for i in range(self.count)))


class Joined(nn.Module):
    """Results of two modules, joined by a function."""

    def __init__(self, first: nn.Module, second: nn.Module, join: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.second, self.join = first, second, join

    def forward(self, x: Tensor) -> Any:
        return self.join(self.first(x), self.second(x))


class Attention(nn.Module):
    """Attention with a mask that is an input, or without a mask."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return f.scaled_dot_product_attention(q, k, v, mask)


class Heads(nn.Module):
    """A convolution, and a linear layer on the mean of its image: two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.scores = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        image = self.image(x)
        return image, self.scores(image.mean((2, 3), keepdim=True).flatten(1))


class Gated(nn.Module):
    """The feed-forward part of a Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = (nn.Linear(32, 64, bias=False) for _ in range(2))
        self.down = nn.Linear(64, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(f.silu(self.gate(x)) * self.up(x))
        return result


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.project(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = f.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.out(seen.reshape(batch, tokens, width))
        return x + self.feed(self.norms[1](x))


class Inverted(nn.Module):
    """An inverted residual block of a MobileNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = 3 * inputs
        self.adds = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *(nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            *(nn.BatchNorm2d(inner), nn.ReLU6()),
            *(nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(x)
        return x + made if self.adds else made


def mobile_net() -> nn.Module:
    start = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish()
    blocks = Inverted(8, 8, 1), Inverted(8, 12, 2), Inverted(12, 12, 1)
    means = Of(lambda x: x.mean((2, 3), keepdim=True).flatten(1))
    return settled(nn.Sequential(*start, *blocks, means, nn.Linear(12, 10)))


def enlarger() -> nn.Module:
    first, last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1)
    details = nn.Sequential(first, nn.PReLU(8), last, nn.PixelShuffle(2))
    return Joined(details, nn.UpsamplingBilinear2d(scale_factor=2), torch.add)


def settled(module: nn.Module) -> nn.Module:
    """Give batch norms means and variances, as training does."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d):
            each.running_mean.uniform_(-0.2, 0.2)
            each.running_var.uniform_(0.5, 1.5)
    return module
