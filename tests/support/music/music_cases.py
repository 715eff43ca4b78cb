"""Sounds whose notes basic-pitch found with a small model: tests/data/tasks/notes.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.harness.task_cases import DATA
from webpte_export.catalog.sounds import music

EXPECTED = DATA / "notes.json"
RATE = 22_050
LOWEST, KEYS, SAMPLES = 72, 16, 512  # the model's keys start at C5; samples of a frame


def filters() -> np.ndarray:
    """Return waves of the model's keys within a frame, (512, 32): sines, then cosines."""
    hertz = 440 * 2 ** ((np.arange(LOWEST, LOWEST + KEYS) - 69) / 12)
    turns = 2 * np.pi * hertz * np.arange(SAMPLES)[:, None] / RATE
    waves = np.concatenate([np.sin(turns), np.cos(turns)], 1) * np.hanning(SAMPLES)[:, None]
    return waves.astype(np.float32)


def spread() -> np.ndarray:
    """Return how much each key adds to each third of a semitone, (88, 264)."""
    shares = np.random.RandomState(7).uniform(0.2, 1, (88, 3)) * (np.arange(88)[:, None] >= 51)
    spread = np.zeros((88, 264), np.float32)
    for key, row in enumerate(shares):
        spread[key, 3 * key : 3 * key + 3] = row
    return spread


def _chords() -> np.ndarray:
    played = [(0.3, 0.9, 72), (0.3, 0.9, 79), (1.4, 1.1, 74), (1.45, 0.6, 84), (2.7, 0.5, 76)]
    return music(played, int(3.5 * RATE), RATE)


def _scale() -> np.ndarray:
    played = [(0.1 + 0.3 * at, 0.28, 72 + step) for at, step in enumerate((0, 2, 4, 5, 7, 9, 11))]
    return music(played, int(2.4 * RATE), RATE)


def _swell() -> np.ndarray:
    """Return a note that rises so slowly that it has no clear start."""
    times = np.arange(2 * RATE) / RATE
    tone = np.sin(2 * np.pi * 659.26 * times) * np.clip(times / 1.5, 0, 1) * 0.5
    return tone.astype(np.float32)


SOUNDS: Mapping[str, Callable[[], np.ndarray]] = {
    "chords": _chords,
    "scale": _scale,
    "swell": _swell,
    "silence": lambda: np.zeros(RATE, np.float32),
    "click": lambda: np.full(300, 0.5, np.float32),  # shorter than two frames
}
# (sound, options of the task)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("chords", {}),
    ("chords", {"onset_threshold": 0.2, "frame_threshold": 0.1, "minimum_note_length": 40}),
    ("chords", {"minimum_frequency": 560, "maximum_frequency": 1000}),
    ("scale", {}),
    ("scale", {"melodia_trick": False, "minimum_note_length": 90.0}),
    ("swell", {}),
    ("swell", {"melodia_trick": False}),
    ("silence", {}),
]
