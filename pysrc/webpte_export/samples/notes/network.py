"""The program of the sample `notes`: the share of each note in a sound, without training.

A frame of the sound is multiplied with a sine and a cosine of each note from C3 to B8, which fade
in and out: the higher a note, the shorter its waves, so that each covers half a semitone around it.
A note's score adds its loudness and the loudness of its overtones, which voices and instruments
have: an octave above, an octave and a fifth, two octaves. Waves are computed on the GPU: the file
is small.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

RATE, FRAME, HOP = 16000, 4096, 1024
MOST_FRAMES = 16
FIRST, NOTES = 48, 48  # C3's MIDI number, and the number of notes: up to B6
OVERTONES = ((0, 1.0), (12, 0.8), (19, 0.6), (24, 0.4))  # semitones above, and their weights
HEARD = NOTES + OVERTONES[-1][0]
PERIODS = 34  # per note, until it has faded in and out
QUIET = 0.004  # loudness of a silent room
CLEAR = 0.58  # share of a sound that must fit a note
SURE = 24.0  # how much the share decides
_NAMES = ("C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B")


def hertz(note: float) -> float:
    """Return the frequency of a note by its number."""
    return 440.0 * 2.0 ** ((note - 69) / 12)


def labels() -> list[str]:
    """Return the names of the classes: the notes, and "no note"."""
    notes = range(FIRST, FIRST + NOTES)
    told = [f"{_NAMES[note % 12]}{note // 12 - 1} {hertz(note):.1f} Hz" for note in notes]
    return [*told, "no note"]


class Notes(nn.Module):
    """A detector of notes: (frames, 4096) samples -> (frames, 49) probabilities."""

    def __init__(self) -> None:
        super().__init__()
        samples = [RATE / hertz(note) for note in range(FIRST, FIRST + HEARD)]  # per period
        lengths = [min(FRAME, PERIODS * count) for count in samples]
        times = torch.arange(FRAME, dtype=torch.float32) - FRAME / 2
        self.register_buffer("radians", 2 * math.pi / torch.tensor(samples)[None, :])
        self.register_buffer("per_sample", 1 / torch.tensor(lengths)[None, :])
        self.register_buffer("times", times[:, None])

    def forward(self, frames: Tensor) -> Tensor:
        faded = torch.clamp(self.times * self.per_sample, -0.5, 0.5)
        window = (0.5 + 0.5 * torch.cos(2 * math.pi * faded)) * (4 * self.per_sample)
        phases = self.times * self.radians
        real = torch.matmul(frames, torch.cos(phases) * window)
        imaginary = torch.matmul(frames, torch.sin(phases) * window)
        loud = torch.sqrt(real * real + imaginary * imaginary)  # a sine's amplitude
        score = sum(weight * loud[:, up : up + NOTES] for up, weight in OVERTONES)
        power = torch.mean(frames * frames, dim=1, keepdim=True)
        share = score / (torch.sqrt(2 * power) + QUIET)
        none = torch.full_like(power, CLEAR)
        return torch.softmax(SURE * torch.cat([share, none], dim=1), dim=1)


def tone(note: float, count: int = FRAME, overtones: bool = True) -> Tensor:
    """Return samples of a tone; a fraction is between two notes."""
    seconds = torch.arange(count, dtype=torch.float64) / RATE
    heights = (1.0, 0.5, 0.33, 0.2) if overtones else (1.0,)
    waves = [
        height * torch.sin(2 * math.pi * times * hertz(note) * seconds)
        for times, height in enumerate(heights, 1)
    ]
    return (torch.stack(waves).sum(0) / sum(heights)).to(torch.float32)


def frames_of(sound: Tensor) -> Tensor:
    """Cut a sound into frames, `HOP` samples apart."""
    return sound.unfold(0, FRAME, HOP).contiguous()
