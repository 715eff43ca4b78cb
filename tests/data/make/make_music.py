"""Writes tests/data/tasks/music.tar.xz, a small model of music, and basic-pitch's notes.

    PYTHONPATH=pysrc:tests python tests/data/make/make_music.py export
    PYTHONPATH=pysrc:tests python tests/data/make/make_music.py expect

The first needs the environment of `serve.py export`, the second basic-pitch 0.4 with its
dependencies: its windows and its rules of notes run on the small model, computed by NumPy.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from support.harness.task_cases import MUSIC
from support.music.music_cases import CASES, EXPECTED, SOUNDS, filters, spread

NAME, WINDOW, FRAMES, HOP = "music", 43_844, 172, 256
GAIN, BIAS = 0.01, 4.0  # of the power of a key, which a sigmoid makes a share of


def export() -> None:
    """Write the program."""
    import torch
    from torch import Tensor, nn

    from data.make.pack_folders import pack
    from webpte_export import export as export_program

    class Keys(nn.Module):
        """Samples (1, 43844, 1) -> keys that sound, that are struck, and contours."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("filters", torch.from_numpy(filters()))
            self.register_buffer("spread", torch.from_numpy(spread()))

        def forward(self, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            padded = nn.functional.pad(samples.reshape(1, WINDOW), (0, FRAMES * HOP - WINDOW))
            frames = padded.reshape(FRAMES, HOP)
            following = torch.cat([frames[1:], torch.zeros(1, HOP)])
            found = torch.cat([frames, following], 1) @ self.filters  # (172, 32)
            squares = found * found
            half = squares.shape[1] // 2
            power = squares[:, :half] + squares[:, half:]
            sounds = torch.sigmoid(power * GAIN - BIAS)
            before = torch.cat([power[:1], power[:-1]])
            struck = torch.sigmoid((power - before) * 4 * GAIN - BIAS)
            low, high = 51, 88 - 51 - half
            keys, onsets = (
                nn.functional.pad(one, (low, high)).reshape(1, FRAMES, 88)
                for one in (sounds, struck)
            )
            contours = (keys.reshape(FRAMES, 88) @ self.spread).reshape(1, FRAMES, 264)
            return keys, onsets, contours

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / NAME
        folder.mkdir()
        samples = torch.from_numpy(SOUNDS["chords"]()[None, :WINDOW, None].copy())
        report = export_program(Keys(), (samples,), folder / "model.pte")
        assert report.passed, report.problem
        pack(Path(name), MUSIC, ["model.pte"], [NAME])


def keys_of(samples: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the small model in NumPy, under the names that basic-pitch gives outputs."""
    padded = np.zeros(FRAMES * HOP, np.float32)
    padded[:WINDOW] = samples.reshape(-1)
    frames = padded.reshape(FRAMES, HOP)
    following = np.concatenate([frames[1:], np.zeros((1, HOP), np.float32)])
    found = np.concatenate([frames, following], 1) @ filters()
    power = (found * found).reshape(FRAMES, 2, -1).sum(1)
    before = np.concatenate([power[:1], power[:-1]])
    maps = {}
    for name, values in (("note", power), ("onset", 4 * (power - before))):
        likely = 1 / (1 + np.exp(np.minimum(BIAS - GAIN * values, 80)))
        maps[name] = np.pad(likely, ((0, 0), (51, 88 - 51 - likely.shape[1])))
    maps["contour"] = maps["note"] @ spread()
    return {name: one[None].astype(np.float32) for name, one in maps.items()}


def expect() -> None:
    """Write the notes that basic-pitch's own code finds."""
    from basic_pitch import inference
    from scipy.io import wavfile  # type: ignore[import-untyped]

    class Small(inference.Model):
        """The small model in place of a file."""

        def __init__(self) -> None:
            """Load nothing."""

        def predict(self, x: np.ndarray) -> dict[str, np.ndarray]:
            return keys_of(x)

    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for sound, options in CASES:
            path = Path(folder) / f"{sound}.wav"
            wavfile.write(path, 22_050, SOUNDS[sound]())
            _, _, events = inference.predict(path, Small(), **options)
            rows = [
                [float(start), float(end), int(pitch), float(loud), [int(one) for one in bends]]
                for start, end, pitch, loud, bends in events
            ]
            found.append(sorted(rows, key=lambda row: (row[0], row[2])))
    print([len(rows) for rows in found])
    text = json.dumps(found, separators=(",", ":")).replace("]],[", "]],\n[")
    EXPECTED.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    {"export": export, "expect": expect}[sys.argv[1]]()
