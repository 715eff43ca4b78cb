"""Reads Real-ESRGAN's small network for videos from ncnn's files: a chain of convolutions.

NAME.param lists the layers, one per line: kind, name, counts of inputs and outputs, their names,
then `key=value`. NAME.bin has their weights in that order; a convolution's begin with a tag for
f16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

_HALF_FLOATS = 0x01306B47
_HEADER_LINES = 2
_SHAPE_LAYERS = {"Input", "Split", "PixelShuffle", "Interp", "BinaryOp"}  # these have no weights


class UpscaleNetwork(nn.Module):
    """Pictures (1, 3, height, width) of 0 to 1 -> `factor` times as high and wide."""

    def __init__(self, param: Path, weights: Path) -> None:
        super().__init__()
        data = weights.read_bytes()
        at, layers, self.factor = 0, [], 1
        for line in param.read_text().splitlines()[_HEADER_LINES:]:
            kind, *words = line.split()
            skipped = 3 + int(words[1]) + int(words[2])
            keys = dict(word.split("=") for word in words[skipped:])
            if kind == "Convolution":
                layer, at = _convolution(data, at, keys)
                layers.append(layer)
            elif kind == "PReLU":
                layer, at = _prelu(data, at, int(keys["0"]))
                layers.append(layer)
            elif kind == "PixelShuffle":
                self.factor = int(keys["0"])
            elif kind not in _SHAPE_LAYERS:
                raise ValueError(f"{param.name}: layers of kind {kind} are not supported")
        if at != len(data):
            raise ValueError(f"{weights.name}: {len(data) - at} bytes are left over")
        self.layers = nn.Sequential(*layers)

    def forward(self, picture: Tensor) -> Tensor:
        """Add the layers' output to the enlarged picture."""
        missing = F.pixel_shuffle(self.layers(picture), self.factor)
        return missing + F.interpolate(picture, scale_factor=float(self.factor), mode="nearest")


def _convolution(data: bytes, at: int, keys: dict[str, Any]) -> tuple[nn.Module, int]:
    outputs, size, padding, count = (int(keys[key]) for key in ("0", "1", "4", "6"))
    tag = int.from_bytes(data[at : at + 4], "little")
    if tag != _HALF_FLOATS:
        raise ValueError(f"weights at byte {at} are not f16: tag {tag:#x}")
    kernel = np.frombuffer(data, "<f2", count, at + 4).astype(np.float32)
    at += 4 + (2 * count + 3) // 4 * 4
    bias = np.frombuffer(data, "<f4", outputs, at).copy()
    layer = nn.Conv2d(count // outputs // size**2, outputs, size, padding=padding)
    layer.weight.data = torch.from_numpy(kernel.reshape(outputs, -1, size, size))
    layer.bias.data = torch.from_numpy(bias)
    return layer, at + 4 * outputs


def _prelu(data: bytes, at: int, count: int) -> tuple[nn.Module, int]:
    layer = nn.PReLU(count)
    layer.weight.data = torch.from_numpy(np.frombuffer(data, "<f4", count, at).copy())
    return layer, at + 4 * count
