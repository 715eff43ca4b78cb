"""Models that give images or maps: segmentation, restoration, generation, detection."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from bench.architectures.rows import (
    Architecture,
    Gate,
    Residual,
    conv,
    image,
    values,
)


class UNet(nn.Module):
    def __init__(self, up: str = "transposed") -> None:
        super().__init__()
        self.first, self.second, self.bottom = conv(3, 8), conv(8, 16), conv(16, 32)
        self.up2 = self._up(up, 32, 16)
        self.up1 = self._up(up, 16, 8)
        self.join2, self.join1 = conv(32, 16), conv(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _up(kind: str, inputs: int, outputs: int) -> nn.Module:
        if kind == "transposed":
            return nn.ConvTranspose2d(inputs, outputs, 2, 2)
        return nn.Sequential(nn.Upsample(scale_factor=2, mode=kind), nn.Conv2d(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        one = self.first(x)
        two = self.second(f.max_pool2d(one, 2))
        low = self.bottom(f.max_pool2d(two, 2))
        two = self.join2(torch.cat([two, self.up2(low)], 1))
        return self.out(self.join1(torch.cat([one, self.up1(two)], 1)))


class TimeUNet(nn.Module):
    """The U-Net of a diffusion model: noise (1, 3, h, w) and time (1,) -> noise."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.enter, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.down, self.up = nn.Conv2d(16, 16, 3, 2, 1), nn.ConvTranspose2d(16, 16, 4, 2, 1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.leave = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        steps = torch.exp(torch.arange(8) * (-math.log(1e4) / 8))
        angles = time[:, None] * steps[None]
        when = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = f.silu(self.norm(self.enter(x)) + when[:, :, None, None])
        low = self.down(x)
        flat = low.flatten(2).transpose(1, 2)
        mixed = self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2)
        low = low + mixed.reshape(low.shape)
        return self.leave(torch.cat([x, self.up(low)], 1))


class Aspp(nn.Module):
    """DeepLab: dilated convolutions of several rates, and a pool of the whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.back = nn.Sequential(conv(3, 16, 3, 2), conv(16, 16))
        self.wide = nn.ModuleList(
            nn.Conv2d(16, 8, 3, padding=rate, dilation=rate) for rate in (1, 2, 4)
        )
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.out = nn.Conv2d(32, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        deep = self.back(x)
        whole = self.whole(deep).expand(-1, -1, *deep.shape[2:])
        seen = torch.cat([*(layer(deep) for layer in self.wide), whole], 1)
        return f.interpolate(self.out(seen), size=x.shape[2:], mode="bilinear", align_corners=False)


class Pyramid(nn.Module):
    """Features of three sizes, the small ones added to the large ones."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = conv(3, 8, 3, 2), conv(8, 16, 3, 2), conv(16, 32, 3, 2)
        self.sides = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (8, 16, 32))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        one = self.one(x)
        two = self.two(one)
        high, middle, low = (
            side(found) for side, found in zip(self.sides, (one, two, self.three(two)), strict=True)
        )
        middle = middle + f.interpolate(low, scale_factor=2.0, mode="nearest")
        return high + f.interpolate(middle, scale_factor=2.0, mode="nearest"), middle, low


class PoolPyramid(nn.Module):
    """PSPNet: pools of several sizes, concatenated with the features."""

    def __init__(self) -> None:
        super().__init__()
        self.back = conv(3, 16, 3, 2)
        self.sides = nn.ModuleList(nn.Conv2d(16, 4, 1) for _ in range(3))
        self.out = nn.Conv2d(28, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        deep = self.back(x)
        seen = [deep]
        for bins, side in zip((1, 2, 4), self.sides, strict=True):
            pooled = side(f.adaptive_avg_pool2d(deep, bins))
            seen.append(f.interpolate(pooled, size=deep.shape[2:], mode="bilinear"))
        return self.out(torch.cat(seen, 1))


class Anchors(nn.Module):
    """A detector's head: boxes from distances to cells, and scores."""

    def __init__(self, cells: int = 8) -> None:
        super().__init__()
        self.back = nn.Sequential(conv(3, 16, 3, 2, act=nn.SiLU), conv(16, 16, 3, 2, act=nn.SiLU))
        self.box, self.score = nn.Conv2d(16, 4, 1), nn.Conv2d(16, 5, 1)
        places = (torch.arange(cells) + 0.5).repeat(cells, 1)
        self.register_buffer("grid", torch.stack([places, places.T]).flatten(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        deep = self.back(x)
        near, far = f.softplus(self.box(deep)).flatten(2).chunk(2, 1)
        boxes = torch.cat([self.grid - near, self.grid + far], 1) * 4
        return boxes.transpose(1, 2), self.score(deep).flatten(2).sigmoid().amax(1)


class Vae(nn.Module):
    """Decodes the mean plus given noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 32)
        )
        self.decode = nn.Sequential(nn.Linear(16, 8 * 64), nn.ReLU(), nn.Unflatten(1, (8, 8, 8)),
                                    nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, 1)
        hidden = mean + noise * torch.exp(0.5 * log_variance)
        return self.decode(hidden), mean, log_variance


class Codebook(nn.Module):
    """VQ-VAE: the nearest of 16 vectors for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Conv2d(3, 8, 4, 4), nn.ConvTranspose2d(8, 3, 4, 4)
        self.book = nn.Embedding(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.encode(x)
        flat = found.permute(0, 2, 3, 1).reshape(-1, 8)
        book = self.book.weight
        distances = (flat**2).sum(1, keepdim=True) - 2 * flat @ book.T + (book**2).sum(1)
        nearest = distances.argmin(1)
        batch, _, height, width = found.shape
        chosen = self.book(nearest).view(batch, height, width, 8).permute(0, 3, 1, 2)
        return self.decode(chosen), nearest.view(batch, height, width)


class Modulated(nn.Module):
    """StyleGAN: the weights of a convolution scaled by a style."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 8, 8, 8))
        self.style, self.weight = nn.Linear(16, 8), nn.Parameter(torch.randn(6, 8, 3, 3) * 0.1)
        self.out = nn.Conv2d(6, 3, 1)

    def forward(self, style: Tensor) -> Tensor:
        scale = self.style(style) + 1
        x = self.start * scale[:, :, None, None]
        norm = torch.rsqrt(
            ((self.weight * scale[:, None, :, None, None]) ** 2).sum((2, 3, 4)) + 1e-8
        )
        x = f.conv2d(x, self.weight, padding=1) * norm[:, :, None, None]
        return self.out(f.leaky_relu(x, 0.2)).tanh()


class Spatial(nn.Module):
    """A spatial transformer: an affine transform of the image, predicted from the image."""

    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Sequential(
            conv(1, 8, 3, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        turn = (self.find(x) * 0.1).view(-1, 2, 3) + torch.eye(2, 3)
        line = torch.linspace(-1, 1, 16)
        places = torch.stack(
            [line.repeat(16, 1), line[:, None].repeat(1, 16), torch.ones(16, 16)], -1
        )
        grid = (places.view(1, -1, 3) @ turn.transpose(1, 2)).view(1, 16, 16, 2)
        return f.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


def residuals(count: int, width: int, norm: bool = False) -> list[nn.Module]:
    def body() -> nn.Module:
        one, two = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        norms = (
            [nn.InstanceNorm2d(width, affine=True) for _ in range(2)]
            if norm
            else [nn.Identity()] * 2
        )
        return nn.Sequential(one, norms[0], nn.ReLU(), two, norms[1])

    return [Residual(body()) for _ in range(count)]


def generator() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (16, 1, 1)),
        nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.2),
        nn.Conv2d(32, 1, 8), nn.Flatten(), nn.Sigmoid(),
    )  # fmt: skip


def restorer() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(8)]
    return Residual(nn.Sequential(*layers, conv(8, 8), nn.Conv2d(8, 3, 3, padding=1)))


def shuffled(*body: nn.Module) -> nn.Module:
    """Super-resolution ×2."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), *body, nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2)
    )


def style_transfer() -> nn.Module:
    return nn.Sequential(
        nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
        *residuals(1, 8, norm=True),
        nn.Upsample(scale_factor=2, mode="nearest"), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3),
    )  # fmt: skip


def any_size() -> dict[int, object]:
    from torch.export import Dim

    return {2: 2 * Dim("rows", min=4, max=24), 3: 2 * Dim("columns", min=4, max=24)}


ROWS = (
    Architecture("unet", UNet, image()),
    Architecture("unet_nearest", lambda: UNet("nearest"), image()),
    Architecture("unet_bilinear", lambda: UNet("bilinear"), image()),
    Architecture("diffusion_unet", TimeUNet, lambda: (torch.randn(1, 3, 16, 16), torch.tensor([7.0]))),
    Architecture("deeplab", Aspp, image()),
    Architecture("fpn", Pyramid, image()),
    Architecture("pspnet", PoolPyramid, image()),
    Architecture("detector", Anchors, image()),
    Architecture("fcn", lambda: nn.Sequential(conv(3, 8, 3, 2), nn.Conv2d(8, 2, 1), nn.ConvTranspose2d(2, 2, 4, 2, 1)), image()),
    Architecture("srcnn", lambda: nn.Sequential(nn.Conv2d(1, 16, 9, padding=4), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2)), image(24, 1)),
    Architecture("espcn_any_size", shuffled, image(32), lambda: (any_size(),), lambda: [(torch.randn(1, 3, 8, 30),), (torch.randn(1, 3, 48, 48),)]),
    Architecture("edsr", lambda: shuffled(*residuals(2, 8)), image(16)),
    Architecture("rcan", lambda: shuffled(*residuals(1, 8), Gate(8, 4)), image(16)),
    Architecture("dncnn", restorer, image()),
    Architecture("style_transfer", style_transfer, image(16)),
    Architecture("cyclegan", lambda: nn.Sequential(nn.Conv2d(3, 8, 7, padding=3), *residuals(2, 8, norm=True), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh()), image(16)),
    Architecture("dcgan_generator", generator, values(1, 16)),
    Architecture("dcgan_discriminator", discriminator, image()),
    Architecture("stylegan", Modulated, values(1, 16)),
    Architecture("vae", Vae, lambda: (torch.rand(1, 1, 16, 16), torch.randn(1, 16))),
    Architecture("vq_vae", Codebook, image()),
    Architecture("spatial_transformer", Spatial, image(16, 1)),
)  # fmt: skip
