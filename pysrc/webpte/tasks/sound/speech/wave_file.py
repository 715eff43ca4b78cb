"""Sounds as WAV files of 16-bit samples."""

from __future__ import annotations

import io
import wave

import numpy as np

from webpte.tasks.sound.speech.resample import check_rate

_LARGEST = 32767


def wave_file(samples: np.ndarray, rate: int) -> bytes:
    """Return samples (count,) from -1 to 1 as a .wav file; louder samples are clipped."""
    values = np.clip(np.asarray(samples, np.float64), -1.0, 1.0)
    found = io.BytesIO()
    with wave.open(found, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(check_rate(rate))
        file.writeframes((values * _LARGEST).round().astype("<i2").tobytes())
    return found.getvalue()
