"""The form of a row: how to build a small model with random weights, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Architecture:
    """One model. `make` and `inputs` are called after seeding, in this order.

    With `dynamic_shapes`, `more_inputs` gives calls of other sizes, which are checked as well.
    """

    name: str
    make: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    dynamic_shapes: Callable[[], Any] | None = None
    more_inputs: Callable[[], list[tuple[Any, ...]]] | None = None

    def build(self) -> dict[str, Any]:
        """Return arguments of `webpte_export.export`."""
        torch.manual_seed(1)
        made: dict[str, Any] = {"model": liven(self.make().eval()), "inputs": self.inputs()}
        if self.dynamic_shapes is not None:
            made["dynamic_shapes"] = self.dynamic_shapes()
        if self.more_inputs is not None:
            made["more_inputs"] = self.more_inputs()
        return made


def liven(model: Any) -> Any:
    """Fill statistics of batch norms as training would: 0 and 1 would hide mistakes."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model


def values(*shape: int) -> Callable[[], tuple[Any, ...]]:
    """Return a function that makes one tensor of normal values."""
    return lambda: (torch.randn(*shape),)


def image(size: int = 32, channels: int = 3) -> Callable[[], tuple[Any, ...]]:
    return values(1, channels, size, size)


def tokens(length: int = 12, most: int = 90, batch: int = 1) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randint(3, most, (batch, length)),)


class Residual(nn.Module):
    """x + body(x), or shortcut(x) + body(x), then the layers `after` the sum."""

    def __init__(self, body: Any, shortcut: Any = None, after: Any = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.shortcut(x) + self.body(x))


class Branches(nn.Module):
    """The results of several modules, one after the other along the channels."""

    def __init__(self, *branches: Any, keep: bool = False) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.keep = keep

    def forward(self, x: Tensor) -> Tensor:
        found = [branch(x) for branch in self.branches]
        return torch.cat([x, *found] if self.keep else found, 1)


class Gate(nn.Module):
    """Squeeze and excitation: each channel scaled by a weight computed from the whole image."""

    def __init__(self, channels: int, hidden: int, squash: Any = None) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, hidden, 1),
            nn.ReLU(),
            nn.Conv2d(hidden, channels, 1),
            squash or nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


def conv(
    inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> Any:
    """Return a convolution, a batch norm and an activation."""
    layers: list[Any] = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(channels: int, classes: int = 10) -> Any:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
