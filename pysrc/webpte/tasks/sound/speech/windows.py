"""Parts of a long sound for models that take a part at a time, cut where it is quiet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from webpte.errors import InputError

_SEARCHED = 5  # seconds at the end of a window, where a long sound is cut at its quietest place
_FRAME = 0.02  # seconds per measurement of loudness


def windows_of(samples: np.ndarray, longest: int, rate: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each part of a sound (samples,) of floats."""
    if samples.size and not np.isfinite(samples).all():
        raise InputError("a sound has samples that are infinite or not a number")
    start = 0
    while start < len(samples):
        end = _end(samples, start, longest, rate)
        yield start, end
        start = end


def _end(sound: np.ndarray, start: int, longest: int, rate: int) -> int:
    """Return the end of the window from `start`: the middle of its quietest frame."""
    latest = start + longest
    if latest >= len(sound):
        return len(sound)
    frame = max(1, int(_FRAME * rate))
    searched = min(int(_SEARCHED * rate), longest // 2) // frame * frame
    if not searched:
        return latest
    frames = sound[latest - searched : latest].astype(np.float64).reshape(-1, frame)
    quietest = int(np.square(frames).mean(axis=1).argmin())
    return latest - searched + quietest * frame + frame // 2


def check_one_language(name: str, language: str | None, task: str) -> None:
    """Refuse options of models that know several languages."""
    if language is not None or task != "transcribe":
        raise InputError(
            f"{name} transcribes one language alone: give neither a language nor a task"
        )
