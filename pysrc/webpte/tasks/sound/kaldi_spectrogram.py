"""Sounds as spectrograms: logarithms of energies in mel bands, as Kaldi computes them for AST.

samples (count,)  --frames of 25 ms every 10 ms-->  (frames, 400)  --FFT-->  (frames, bands)
"""

from __future__ import annotations

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError

Array = np.ndarray
RATE = 16_000  # samples per second; the sizes below depend on it
FRAME, HOP, FFT = 400, 160, 512
_LOWEST_HERTZ = 20.0
_PREEMPHASIS = 0.97
_FLOOR = float(np.finfo(np.float32).eps)
_MOST = 1 << 14  # numbers of bands and frames


class KaldiSpectrogram:
    """Makes the spectrogram that a preprocessor_config.json of AST describes."""

    def __init__(self, settings: Table) -> None:
        kind = settings.text("feature_extractor_type", "ASTFeatureExtractor")
        rate = settings.integer("sampling_rate", RATE)
        if kind != "ASTFeatureExtractor" or rate != RATE:
            raise UnsupportedError(
                f"{settings.name}: webpte does not know what a {kind} does with {rate} samples a "
                f"second; it knows ASTFeatureExtractor with {RATE}"
            )
        self.bands = settings.integer("num_mel_bins", 128, low=1, high=_MOST)
        self.frames = settings.integer("max_length", 1024, low=1, high=_MOST)
        self._mean = settings.number("mean", -4.2677393)
        self._std = settings.number("std", 4.5689974)
        self._normalizes = settings.flag("do_normalize", True)
        if not self._std:
            raise InputError(f"{settings.name}: std is 0, by which nothing can be divided")
        self._filters = _filters(self.bands)
        self._window = np.hanning(FRAME)

    def __call__(self, samples: Array) -> Array:
        """Return (frames, bands), float32: a long sound is cut, a short sound is followed by 0."""
        if len(samples) < FRAME:
            raise InputError(
                f"a sound of {len(samples)} samples is too short: {FRAME} are needed, "
                f"{1000 * FRAME // RATE} milliseconds"
            )
        needed = FRAME + (self.frames - 1) * HOP
        view = np.lib.stride_tricks.sliding_window_view(samples[:needed].astype(np.float64), FRAME)
        frames = view[::HOP] - view[::HOP].mean(axis=1, keepdims=True)
        before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
        spectrum = np.fft.rfft((frames - _PREEMPHASIS * before) * self._window, FFT)
        energies = np.abs(spectrum) ** 2 @ self._filters
        made = np.zeros((self.frames, self.bands), np.float32)
        made[: len(frames)] = np.log(np.maximum(energies, _FLOOR))
        if not self._normalizes:
            return made
        normal: Array = (made - np.float32(self._mean)) / np.float32(2 * self._std)
        return normal


def _mel(hertz: Array | float) -> Array:
    found: Array = 1127.0 * np.log(1.0 + np.asarray(hertz) / 700.0)
    return found


def _filters(bands: int) -> Array:
    """Return triangles (FFT // 2 + 1, bands) over the frequencies, evenly spaced in mel."""
    edges = np.linspace(_mel(_LOWEST_HERTZ), _mel(RATE / 2), bands + 2)
    places = _mel(np.arange(FFT // 2 + 1) * (RATE / FFT))[:, None]
    rising = (places - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - places) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(rising, falling))
