"""Image classifiers, written with plain torch.nn and made small."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.architectures.rows import (
    Architecture,
    Branches,
    Gate,
    Residual,
    conv,
    head,
    image,
)


def basic(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    body = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs, act=None))
    shortcut = (
        conv(inputs, outputs, 1, stride, act=None) if stride > 1 or inputs != outputs else None
    )
    return Residual(body, shortcut, nn.ReLU())


def bottleneck(
    inputs: int, width: int, outputs: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    body = nn.Sequential(
        conv(inputs, width, 1),
        conv(width, width, 3, stride, groups),
        conv(width, outputs, 1, act=None),
    )
    return Residual(body, conv(inputs, outputs, 1, stride, act=None), nn.ReLU())


def pre_activated(channels: int) -> nn.Module:
    half = [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    other = [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    return Residual(nn.Sequential(*half, *other))


def inverted(inputs: int, outputs: int, stride: int, act: type, gate: bool = False) -> nn.Module:
    hidden = inputs * 4
    squash = nn.Hardsigmoid() if act is nn.Hardswish else nn.Sigmoid()
    body = nn.Sequential(
        conv(inputs, hidden, 1, act=act),
        conv(hidden, hidden, 3, stride, hidden, act=act),
        Gate(hidden, inputs, squash) if gate else nn.Identity(),
        conv(hidden, outputs, 1, act=None),
    )
    return Residual(body) if stride == 1 and inputs == outputs else body


def separable(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> nn.Module:
    return nn.Sequential(conv(inputs, inputs, size, stride, inputs), conv(inputs, outputs, 1))


def dense_block(channels: int, growth: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = []
    for number in range(layers):
        width = channels + number * growth
        layer = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, padding=1)
        )
        parts.append(Branches(layer, keep=True))
    return nn.Sequential(*parts)


def fire(inputs: int, squeezed: int, outputs: int) -> nn.Module:
    squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU())
    small = nn.Sequential(nn.Conv2d(squeezed, outputs, 1), nn.ReLU())
    large = nn.Sequential(nn.Conv2d(squeezed, outputs, 3, padding=1), nn.ReLU())
    return nn.Sequential(squeeze, Branches(small, large))


def inception(inputs: int) -> nn.Module:
    return Branches(
        conv(inputs, 8, 1),
        nn.Sequential(conv(inputs, 4, 1), conv(4, 8, 3)),
        nn.Sequential(conv(inputs, 4, 1), conv(4, 8, 5)),
        nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, 8, 1)),
    )


class Shuffle(nn.Module):
    """ShuffleNet: half of the channels pass, the other half is convolved; then they are mixed."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            conv(half, half, 1), conv(half, half, 3, 1, half, None), conv(half, half, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        joined = torch.cat([kept, self.body(changed)], 1)
        batch, channels, height, width = joined.shape
        mixed = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return mixed.reshape(batch, channels, height, width)


class Ghost(nn.Module):
    """GhostNet: a convolution computes half of the features, cheap ones derive the others."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = conv(inputs, outputs // 2, 1)
        self.cheap = conv(outputs // 2, outputs // 2, 3, 1, outputs // 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.first(x)
        return torch.cat([made, self.cheap(made)], 1)


class ChannelsLast(nn.Module):
    """A layer over channels-last tensors, applied to channels-first images."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_block(channels: int) -> nn.Module:
    mlp = nn.Sequential(
        nn.LayerNorm(channels),
        nn.Linear(channels, 4 * channels),
        nn.GELU(),
        nn.Linear(4 * channels, channels),
    )
    wide = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
    return Residual(nn.Sequential(wide, ChannelsLast(mlp)))


def stage(*blocks: nn.Module, channels: int, stem: int = 16) -> nn.Module:
    return nn.Sequential(conv(3, stem, 3, 2), *blocks, head(channels))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in (16, 32):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        inputs = outputs
    rest = [nn.Flatten(), nn.Linear(32 * 8 * 8, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10)]
    return nn.Sequential(*layers, *rest)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16 * 6 * 6, 60), nn.Tanh(), nn.Linear(60, 10),
    )  # fmt: skip


def alexnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 11, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(16, 24, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def conv_mixer() -> nn.Module:
    def block() -> nn.Module:
        mix = nn.Sequential(
            nn.Conv2d(16, 16, 5, padding=2, groups=16), nn.GELU(), nn.BatchNorm2d(16)
        )
        return nn.Sequential(Residual(mix), nn.Conv2d(16, 16, 1), nn.GELU(), nn.BatchNorm2d(16))

    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.BatchNorm2d(16), block(), block(), head(16)
    )


class MlpMixer(nn.Module):
    def __init__(self, patches: int = 64, width: int = 16) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.norm = nn.LayerNorm(width)
        self.along = nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
        self.across = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)  # (1, patches, width)
        x = x + self.along(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.across(x)).mean(1))


ROWS = (
    Architecture("lenet", lenet, image(32, 1)),
    Architecture("alexnet", alexnet, image(64)),
    Architecture("vgg", vgg, image()),
    Architecture("resnet_basic", lambda: stage(basic(16, 16), basic(16, 32, 2), channels=32), image()),
    Architecture("resnet_bottleneck", lambda: stage(bottleneck(16, 8, 32), bottleneck(32, 8, 32, 2), channels=32), image()),
    Architecture("resnext", lambda: stage(bottleneck(16, 16, 32, 1, 4), channels=32), image()),
    Architecture("wide_resnet", lambda: stage(basic(16, 64), channels=64), image()),
    Architecture("preact_resnet", lambda: stage(pre_activated(16), pre_activated(16), channels=16), image()),
    Architecture("se_resnet", lambda: stage(basic(16, 16), Gate(16, 4), channels=16), image()),
    Architecture("densenet", lambda: stage(dense_block(16, 8, 3), nn.Conv2d(40, 16, 1), nn.AvgPool2d(2), channels=16), image()),
    Architecture("mobilenet_v1", lambda: stage(separable(16, 32), separable(32, 32, 2), channels=32), image()),
    Architecture("mobilenet_v2", lambda: stage(inverted(16, 16, 1, nn.ReLU6), inverted(16, 24, 2, nn.ReLU6), channels=24), image()),
    Architecture("mobilenet_v3", lambda: stage(inverted(16, 16, 1, nn.Hardswish, True), channels=16), image()),
    Architecture("efficientnet", lambda: stage(inverted(16, 16, 1, nn.SiLU, True), inverted(16, 24, 2, nn.SiLU, True), channels=24), image()),
    Architecture("xception", lambda: stage(Residual(separable(16, 16)), separable(16, 32, 2), channels=32), image()),
    Architecture("squeezenet", lambda: stage(fire(16, 4, 16), nn.MaxPool2d(3, 2, ceil_mode=True), fire(32, 8, 16), channels=32), image()),
    Architecture("inception", lambda: stage(inception(16), inception(32), channels=32), image()),
    Architecture("shufflenet", lambda: stage(Shuffle(16), Shuffle(16), channels=16), image()),
    Architecture("ghostnet", lambda: stage(Ghost(16, 32), Ghost(32, 32), channels=32), image()),
    Architecture("convnext_plain", lambda: stage(convnext_block(16), channels=16), image()),
    Architecture("conv_mixer", conv_mixer, image()),
    Architecture("mlp_mixer", MlpMixer, image()),
)  # fmt: skip
