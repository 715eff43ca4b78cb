"""Writes tests/data/speech: what SciPy makes of sounds at other rates.

    PYTHONPATH=pysrc:tests python tests/support/write/make_speech.py

It needs the environment of `serve.py export`, with SciPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.signal import resample_poly

from support.harness.sounds import DATA, RESAMPLED, RESAMPLED_RATES, make_wave


def resampled() -> None:
    """Write sounds at other rates."""
    found: dict[str, Any] = {}
    for old, new in RESAMPLED_RATES:
        common = math.gcd(old, new)
        for count in (1, 613):
            wave = make_wave(count).astype(np.float64)
            made = resample_poly(wave, new // common, old // common)
            found[f"{old}_{new}_{count}"] = made.astype(np.float32)
    np.savez_compressed(RESAMPLED, **found)


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    resampled()
