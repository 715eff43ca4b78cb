"""A small detector of speech, with the inputs and outputs of Silero's, and its reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export import export
from webpte_export.report import Report

FRAMES, FRAME, KEPT, STATE = 4, 512, 64, 3


class LoudIsSpeech(nn.Module):
    """Frames (4, 576) and two states (1, 3) -> how likely each is speech (4), the new states."""

    def forward(
        self, frames: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        found = []
        for frame in frames.split(1):
            loud = (frame * frame).mean(1, keepdim=True) * 40 - 1
            cell = cell / 2 + torch.tanh(loud)
            hidden = torch.tanh(cell + hidden / 4)
            found.append(torch.sigmoid(hidden.sum(1) * 1.5))
        return torch.cat(found), hidden, cell


class FrameByFrame:
    """The detector as silero-vad calls one: a frame at a time, with its own state."""

    def __init__(self) -> None:
        self.model = LoudIsSpeech()
        self.reset_states()

    def reset_states(self) -> None:
        self.states = torch.zeros(1, STATE), torch.zeros(1, STATE)
        self.before = torch.zeros(KEPT)

    def __call__(self, chunk: Tensor, _rate: int) -> Tensor:
        frame = torch.cat([self.before, chunk])[None]
        likely, *states = self.model(frame, *self.states)
        self.states, self.before = (states[0], states[1]), chunk[-KEPT:]
        return likely[0]


class Reference:
    """The function of silero-vad that finds phrases, with the small detector."""

    def __init__(self, _folder: Path) -> None:
        from silero_vad.utils_vad import get_speech_timestamps

        self.find = get_speech_timestamps

    def __call__(self, sounds: Any, **options: Any) -> Any:
        if isinstance(sounds, list):
            return [self(sound, **options) for sound in sounds]
        return self.find(torch.from_numpy(sounds), FrameByFrame(), **options)


def export_voice(folder: Path) -> Report:
    """Write the program into a folder."""
    numbers = torch.Generator().manual_seed(0)
    frames = torch.rand(FRAMES, FRAME + KEPT, generator=numbers)
    hidden, cell = (torch.rand(1, STATE, generator=numbers) for _ in range(2))
    return export(LoudIsSpeech(), (frames, hidden, cell), folder / "model.pte")
