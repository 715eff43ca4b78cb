"""CREPE, which detects the pitch of a voice or instrument."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

_CHANNELS = (1, 128, 16, 16, 16, 32, 64)  # the tiny model's
_BINS = 360
_FEATURES = 256


class Pitch(nn.Module):
    """Frames (n, 1024) of 16 kHz, with mean 0 and deviation 1 -> (n, 360) weights of pitches."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        for layer, (inputs, outputs) in enumerate(itertools.pairwise(_CHANNELS), 1):
            kernel, stride = ((512, 1), (4, 1)) if layer == 1 else ((64, 1), (1, 1))
            setattr(self, f"conv{layer}", nn.Conv2d(inputs, outputs, kernel, stride))
            setattr(self, f"conv{layer}_BN", nn.BatchNorm2d(outputs, eps=0.001))
        self.classifier = nn.Linear(_FEATURES, _BINS)
        self.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

    def forward(self, frames: Tensor) -> Tensor:
        x = frames[:, None, :, None]
        for layer in range(1, len(_CHANNELS)):
            padding = (0, 0, 254, 254) if layer == 1 else (0, 0, 31, 32)
            x = F.relu(getattr(self, f"conv{layer}")(F.pad(x, padding)))
            x = F.max_pool2d(getattr(self, f"conv{layer}_BN")(x), (2, 1))
        # (n, 64, 4, 1): the channels of a time stay together.
        x = x.permute(0, 2, 1, 3).reshape(-1, _FEATURES)
        return torch.sigmoid(self.classifier(x))
