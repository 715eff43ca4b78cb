"""Sounds for examples: a voice that says vowels, notes of strings, and noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_VOWELS = np.array(  # resonances of the mouth in Hz: a, i, o, e, u
    [(730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240)]
)
_BANDWIDTHS = (80, 100, 140)
_SYLLABLES = 4.0  # per second
_OVERTONES = 6  # of a string, with its fundamental


def voice(samples: int, rate: int) -> Array:
    """Synthesize pulses of vocal cords through resonances that glide from vowel to vowel."""
    times = np.arange(samples) / rate
    pitch = 120 + 15 * np.sin(2 * np.pi * 0.7 * times) + 6 * np.sin(2 * np.pi * 5 * times)
    pulses = np.diff(np.floor(np.cumsum(pitch) / rate), prepend=0)
    wave = pulses + 0.01 * np.random.default_rng(1).standard_normal(samples)
    syllable = times * _SYLLABLES
    vowel = np.floor(syllable).astype(int) % len(_VOWELS)
    glide = np.clip((syllable % 1 - 0.6) / 0.4, 0, 1)[:, None]
    resonances = _VOWELS[vowel] * (1 - glide) + _VOWELS[(vowel + 1) % len(_VOWELS)] * glide
    for hertz, bandwidth in zip(resonances.T, _BANDWIDTHS, strict=True):
        wave = _resonance(wave, hertz, bandwidth, rate)
    wave *= 0.55 - 0.45 * np.cos(2 * np.pi * _SYLLABLES * times)
    return (0.5 * wave / np.abs(wave).max()).astype(np.float32)


def music(notes: Iterable[tuple[float, float, int]], samples: int, rate: int) -> Array:
    """Synthesize notes of strings that fade, over a little noise.

    notes   start and length of each, in seconds, and its MIDI number
    """
    times = np.arange(samples) / rate
    wave = np.zeros(samples)
    for start, seconds, number in notes:
        since = times - start
        hertz = 440 * 2 ** ((number - 69) / 12)
        tone = sum(np.sin(2 * np.pi * hertz * n * since) / n for n in range(1, _OVERTONES + 1))
        # Fade in and out within hundredths of a second, so that nothing clicks.
        shape = np.clip(since / 0.01, 0, 1) * np.clip((seconds - since) / 0.03, 0, 1)
        wave += tone * shape * np.exp(-1.5 * np.maximum(since, 0))
    wave *= 0.6 / max(float(np.abs(wave).max()), 1e-9)
    return (wave + 0.01 * noise(samples)).astype(np.float32)


def noise(samples: int) -> Array:
    return (0.1 * np.random.default_rng(0).standard_normal(samples)).astype(np.float32)


def _resonance(wave: Array, hertz: Array, bandwidth: float, rate: int) -> Array:
    """Apply a two-pole filter with a frequency that changes from sample to sample."""
    radius = np.exp(-np.pi * bandwidth / rate)
    turns = 2 * radius * np.cos(2 * np.pi * hertz / rate)
    made, last, before = [], 0.0, 0.0
    for pulse, turn in zip((wave * (1 - radius)).tolist(), turns.tolist(), strict=True):
        last, before = pulse + turn * last - radius * radius * before, last
        made.append(last)
    return np.array(made)
