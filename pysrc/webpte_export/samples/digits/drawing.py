"""Draws training pictures of digits, 28 x 28, ink 1 on 0: strokes and scans."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from webpte_export.samples.digits.glyphs import GLYPHS, Stroke

SIZE = 28
POINTS = 72  # along all strokes of a glyph


def _curve(stroke: Stroke, count: int) -> Tensor:
    """Sample a Catmull-Rom spline through the stroke's points: (count, 2)."""
    given = torch.tensor(stroke)
    padded = torch.cat([2 * given[:1] - given[1:2], given, 2 * given[-1:] - given[-2:-1]])
    place = torch.linspace(0, len(stroke) - 1 - 1e-4, count)
    piece = place.long()
    t = (place - piece)[:, None]
    a, b, c, d = (padded[piece + n] for n in range(4))
    return 0.5 * (
        2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3
    )


class Pen:
    """A pen that draws random variations of digits: bent, rotated, thick or thin."""

    def __init__(self, device: str) -> None:
        curves, labels = [], []
        for digit, glyphs in enumerate(GLYPHS):
            for glyph in glyphs:
                each = [_curve(stroke, POINTS // len(glyph)) for stroke in glyph]
                points = torch.cat(each)
                missing = points[-1:].expand(POINTS - len(points), 2)
                curves.append(torch.cat([points, missing]))
                labels.append(digit)
        self.curves = (torch.stack(curves) - 0.5).to(device)  # (glyphs, POINTS, 2)
        self.labels = torch.tensor(labels, device=device)
        line = torch.arange(SIZE, device=device) + 0.5
        y, x = torch.meshgrid(line, line, indexing="ij")
        self.pixels = torch.stack([x, y], -1).reshape(1, -1, 2)  # (1, SIZE * SIZE, 2)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Draw pictures (count, 1, SIZE, SIZE) with labels (count,)."""
        device = self.curves.device
        digits = torch.randint(10, (count,), device=device)
        chance = (self.labels[None] == digits[:, None]).float()
        chosen = torch.multinomial(chance, 1)[:, 0]
        points = _bent(self.curves[chosen])
        points = points @ affine(count, device, scale=(0.5, 0.95), narrow=0.4)
        room = SIZE * 0.85
        shift = (torch.rand(count, 1, 2, device=device) - 0.5) * 8
        points = points * room + SIZE / 2 + shift
        distance = torch.cdist(self.pixels.expand(count, -1, -1), points).amin(2)
        width = 0.7 + 1.5 * torch.rand(count, 1, device=device)
        soft = 0.5 + torch.rand(count, 1, device=device)
        ink = ((width - distance) / soft + 0.5).clamp(0, 1)
        return ink.reshape(count, 1, SIZE, SIZE), digits


def _bent(points: Tensor) -> Tensor:
    """Add a random slow wave along x and y to each glyph."""
    count, device = len(points), points.device
    for _ in range(2):
        phase = torch.rand(count, 1, 2, device=device) * 2 * math.pi
        pace = 2 + 5 * torch.rand(count, 1, 2, device=device)
        height = 0.06 * torch.randn(count, 1, 2, device=device)
        points = points + height * torch.sin(points.flip(2) * pace + phase)
    return points


def affine(count: int, device: torch.device, scale: tuple[float, float], narrow: float) -> Tensor:
    """Draw random transforms (count, 2, 2): rotation up to 0.3 rad, slant, size, narrowness."""
    low, high = scale
    angle = (torch.rand(count, device=device) - 0.5) * 0.6
    lean = (torch.rand(count, device=device) - 0.5) * 0.6
    size = low + (high - low) * torch.rand(count, device=device)
    wide = size * (1 - narrow * torch.rand(count, device=device))
    cos, sin = angle.cos(), angle.sin()
    rows = [wide * cos, wide * sin, size * (lean - sin), size * (cos + lean * sin)]
    return torch.stack(rows, 1).reshape(count, 2, 2)


def enlarged(scans: Tensor) -> Tensor:
    """Enlarge scans (n, 8, 8) of 0 to 16 to (n, 1, SIZE, SIZE) with a margin."""
    large = interpolate(scans[:, None].float() / 16, (22, 22), mode="bicubic").clamp(0, 1)
    return torch.nn.functional.pad(large, (3, 3, 3, 3))


def varied(pictures: Tensor) -> Tensor:
    """Rotate, move and scale scans, and change the thickness and softness of their strokes."""
    count, device = len(pictures), pictures.device
    turn = affine(count, device, scale=(0.9, 1.6), narrow=0.3)
    shift = (torch.rand(count, 2, 1, device=device) - 0.5) * 0.5
    grid = affine_grid(torch.cat([turn, shift], 2), list(pictures.shape), align_corners=False)
    moved = grid_sample(pictures, grid, align_corners=False)
    edge = 0.3 + 0.35 * torch.rand(count, 1, 1, 1, device=device)
    soft = 0.04 + 0.2 * torch.rand(count, 1, 1, 1, device=device)
    hard = ((moved - edge) / soft).sigmoid() - (-edge / soft).sigmoid()
    return (hard / hard.amax((1, 2, 3), keepdim=True)).clamp(0, 1)
