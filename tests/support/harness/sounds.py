"""Sounds and what other programs made of them: tests/data/speech, which make_speech.py writes."""

from __future__ import annotations

import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[2] / "data" / "speech"

# What SciPy's resample_poly made of `make_wave` of 1 and 613 samples.
RESAMPLED = DATA / "resampled.npz"
RESAMPLED_RATES = (
    *((44_100, 16_000), (48_000, 16_000), (22_050, 16_000), (8_000, 16_000)),
    *((16_000, 44_100), (7, 3), (16_000, 1_000)),
)

# Small random voices, and what transformers said with them.
VOICES, SPOKEN = DATA / "voices.tar.xz", DATA / "spoken.npz"
LETTERS = ["k", "'", "z", "y", "u", "d", "h", "e", "s", "w", "–", "c", "p", "-", "r", "a", "t"]
LETTERS += ["i", "o", "n", " ", "l", "m", "É", "<unk>"]
SAID: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("drawn", "Hello, World!", {}),
    ("drawn", " One É and 2 é. ", {"speaking_rate": 1.7}),
    ("drawn", "a", {}),
    ("steady", "the same to you", {}),
    ("steady", "Now, slow...", {"speaking_rate": 0.5}),
)

# A small random Moonshine, and the tokens that transformers hears in sounds of so many seconds.
EARS, HEARD_TOKENS = DATA / "ears.tar.xz", DATA / "heard.npz"
HEARD = (0.6, 1.5)

# A small random wav2vec 2.0, and the texts that transformers hears in sounds of so many seconds.
SPELLER_FILES, SPELLED_TEXTS = DATA / "letters.tar.xz", DATA / "spelled.npz"
SPELLED = ("<pad>", "<s>", "</s>", "<unk>", "|", *"etaoinsh")
HEARD_LETTERS = (0.3, 0.7, 1.0)


@cache
def _unpacked(packed: Path) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="webpte-speech-")
    with tarfile.open(packed) as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def voices_folder() -> Path:
    """Return the folder of all voices, which is removed when the process ends."""
    return Path(_unpacked(VOICES).name)


def moonshine_folder() -> Path:
    """Return the folder of the small Moonshine, which is removed when the process ends."""
    return Path(_unpacked(EARS).name, "moonshine")


def letters_folder() -> Path:
    """Return the folder of the small wav2vec 2.0, which is removed when the process ends."""
    return Path(_unpacked(SPELLER_FILES).name, "letters")


def make_wave(count: int) -> np.ndarray:
    """Return samples (count,): a tone with noise."""
    noise = np.random.RandomState(count).uniform(-0.3, 0.3, count)
    return (0.5 * np.sin(np.arange(count) * 0.11) + noise).astype(np.float32)
