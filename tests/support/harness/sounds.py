"""Sounds and what other programs made of them: tests/data/speech, which make_speech.py writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "data" / "speech"

# What SciPy's resample_poly made of `make_wave` of 1 and 613 samples.
RESAMPLED = DATA / "resampled.npz"
RESAMPLED_RATES = (
    *((44_100, 16_000), (48_000, 16_000), (22_050, 16_000), (8_000, 16_000)),
    *((16_000, 44_100), (7, 3), (16_000, 1_000)),
)


def make_wave(count: int) -> np.ndarray:
    """Return samples (count,): a tone with noise."""
    noise = np.random.RandomState(count).uniform(-0.3, 0.3, count)
    return (0.5 * np.sin(np.arange(count) * 0.11) + noise).astype(np.float32)
