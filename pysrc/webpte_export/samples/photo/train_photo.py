"""Trains the sample `photo`, which doubles pictures of any size, sharper than bicubic.

    python -m webpte_export.samples.photo.train_photo DATA OUT_DIR --steps 6000

`prepare` writes DATA/pictures.npz. Pictures are shrunk by bicubic filtering, and the model learns
the inverse. The pictures of `prepare.HELD_OUT` are for the PSNR only.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pixel_shuffle, pixel_unshuffle, unfold

from webpte_export.samples.base.prepare import HELD_OUT
from webpte_export.samples.base.trained import keep

WIDTH, PATCH = 16, 64
BORDER = 4  # pixels that PSNR leaves out: bicubic, too, is worse there


class Photo(nn.Module):
    """An upscaler: (1, 3, h, w), 0 to 1 -> (1, 3, 2 h, 2 w)."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Conv2d(3, 12, 5, padding=2)  # a linear filter, like bicubic
        layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 3, padding=1), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()]
        last = nn.Conv2d(WIDTH, 12, 3, padding=1)
        nn.init.zeros_(last.weight)  # initially the filter alone has an effect
        nn.init.zeros_(last.bias)
        self.detail = nn.Sequential(*layers, last)

    def forward(self, picture: Tensor) -> Tensor:
        return pixel_shuffle(self.plain(picture) + self.detail(picture), 2).clamp(0, 1)

    def unclamped(self, picture: Tensor) -> Tensor:
        return pixel_shuffle(self.plain(picture) + self.detail(picture), 2)


def smaller(pictures: Tensor, scale: float = 0.5) -> Tensor:
    """Shrink pictures as image programs do, with rounding to 8 bits."""
    made = interpolate(pictures, scale_factor=scale, mode="bicubic", antialias=True)
    return (made.clamp(0, 1) * 255).round() / 255


def larger(pictures: Tensor) -> Tensor:
    return interpolate(pictures, scale_factor=2, mode="bicubic").clamp(0, 1)


def as_tensor(picture: np.ndarray, device: str) -> Tensor:
    """Convert (h, w, 3) uint8 to (1, 3, h, w), with even h and w."""
    height, width = (n // 2 * 2 for n in picture.shape[:2])
    tensor = torch.from_numpy(np.ascontiguousarray(picture[:height, :width])).to(device)
    return tensor.permute(2, 0, 1)[None].float() / 255


class Patches:
    """Random pairs of (small, large) patches: flipped, rotated, with permuted colours."""

    def __init__(self, pictures: list[Tensor]) -> None:
        half = [smaller(each) for each in pictures]  # sharper than any camera
        self.pictures = [each for each in (*pictures, *half) if min(each.shape[2:]) >= PATCH]
        area = torch.tensor([each.shape[2] * each.shape[3] for each in self.pictures]).float()
        self.chance = area.sqrt()

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        chosen = torch.multinomial(self.chance, count, replacement=True).tolist()
        large = torch.cat([self._patch(self.pictures[number]) for number in chosen])
        large = large[:, torch.randperm(3, device=large.device)]
        large = large.rot90(int(torch.randint(4, ())), (2, 3))
        large = large if torch.rand(()) < 0.5 else large.flip(3)
        return smaller(large), large

    def _patch(self, picture: Tensor) -> Tensor:
        y, x = (int(torch.randint(size - PATCH + 1, ())) for size in picture.shape[2:])
        return picture[:, :, y : y + PATCH, x : x + PATCH]


@torch.no_grad()
def fit_filter(model: Photo, patches: Patches) -> None:
    """Fit the linear filter by least squares, in a second: a better start than random weights."""
    small, large = patches.draw(256)
    given = unfold(small, 5).transpose(1, 2).flatten(0, 1)  # (places, 3 * 5 * 5), without borders
    wanted = pixel_unshuffle(large, 2)[:, :, 2:-2, 2:-2].permute(0, 2, 3, 1).flatten(0, 2)
    found = torch.linalg.lstsq(given.double(), wanted.double()).solution  # (75, 12)
    model.plain.weight.copy_(found.T.reshape(model.plain.weight.shape))
    model.plain.bias.zero_()


def train(model: Photo, patches: Patches, steps: int, batch: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.005 + 0.995 * (1 + math.cos(math.pi * step / steps)) / 2
    )
    for step in range(steps):
        small, large = patches.draw(batch)
        loss = ((model.unclamped(small) - large) ** 2 + 1e-6).sqrt().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        plan.step()
        if step % 500 == 0:
            print(f"step {step}: {loss.item():.5f}", flush=True)


def psnr(made: Tensor, true: Tensor) -> float:
    """Return the PSNR of the luma in dB, as is customary."""
    weights = torch.tensor([65.481, 128.553, 24.966], device=made.device).reshape(1, 3, 1, 1) / 255
    inner = slice(BORDER, -BORDER)
    error = ((made - true) * weights).sum(1)[:, inner, inner]
    return float(-10 * torch.log10((error**2).mean()))


@torch.inference_mode()
def compare(model: Photo, pictures: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "bicubic": round(psnr(larger(smaller(picture)), picture), 2),
            "photo": round(psnr(model(smaller(picture)), picture), 2),
        }
        for name, picture in pictures.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=8, help="patches in a step")
    options = parser.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with np.load(options.data / "pictures.npz") as found:
        pictures = {name: as_tensor(found[name], device) for name in found.files}
    held = {name: pictures.pop(name) for name in HELD_OUT}
    model = Photo().to(device)
    patches = Patches(list(pictures.values()))
    fit_filter(model, patches)
    print(f"filter: {compare(model, held)}", flush=True)
    train(model, patches, options.steps, options.batch)
    measured = {
        "PSNR": compare(model, held),
    }
    keep(model, measured, options.out, "photo")


if __name__ == "__main__":
    main()
