"""Log-mel features of sounds for speech models, in NumPy, by preprocessor_config.json.

    mel = LogMel.of(json_text)
    features = mel.features(samples)      # (mel bands, frames), 100 frames a second

A frame is the spectrum of `fft` samples around its place, in triangular bands that are even on
Slaney's mel scale, as logarithms, with everything 80 dB below the loudest cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import InputError

_HIGHEST = 8000.0  # Hz
_LEAST = 1e-10  # power, before the logarithm
_RANGE = 8.0  # powers of ten below the loudest
_LINEAR_HZ, _LINEAR_MELS = 1000.0, 15.0  # up to here, mels are proportional to Hz
_LOG_STEP = np.log(6.4) / 27.0
_FRAMES = 1024  # frames at a time


@dataclass(frozen=True)
class LogMel:
    """The settings of log-mel features.

    bands   mel bands
    fft     samples of a frame
    hop     samples from frame to frame
    rate    samples a second
    window  seconds of a window, for which a model has positions
    """

    bands: int = 80
    fft: int = 400
    hop: int = 160
    rate: int = 16000
    window: int = 30

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 1 <= value <= 1 << 20:
                raise InputError(f"log-mel features: {name} is {value}, which cannot be")
        if self.fft < 4 or self.hop > self.fft:
            raise InputError(
                f"log-mel features: frames of {self.fft} samples, {self.hop} apart, are not known"
            )

    @classmethod
    def of(cls, settings: str | bytes | Mapping[str, Any]) -> LogMel:
        """Read the content of preprocessor_config.json."""
        name = "preprocessor_config.json"
        table = (
            Table(dict(settings), name, InputError)
            if isinstance(settings, Mapping)
            else parse_table(settings, name, InputError)
        )
        kind = table.text("feature_extractor_type", "WhisperFeatureExtractor")
        if kind != "WhisperFeatureExtractor":
            raise InputError(f"{name}: features of {kind} are not known; Whisper's are")
        return cls(
            table.integer("feature_size", cls.bands),
            table.integer("n_fft", cls.fft),
            table.integer("hop_length", cls.hop),
            table.integer("sampling_rate", cls.rate),
            table.integer("chunk_length", cls.window),
        )

    @property
    def window_samples(self) -> int:
        """Samples of a window."""
        return self.window * self.rate

    @property
    def window_frames(self) -> int:
        """Frames of a window."""
        return self.window_samples // self.hop

    @cached_property
    def filters(self) -> np.ndarray:
        """The weights of frequencies in each band, (fft // 2 + 1, bands)."""
        centers = _hertz(np.linspace(0.0, _mels(_HIGHEST), self.bands + 2))
        hertz = np.linspace(0, self.rate // 2, self.fft // 2 + 1)
        slopes = centers[np.newaxis, :] - hertz[:, np.newaxis]
        widths = np.diff(centers)
        rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
        weights = np.maximum(0.0, np.minimum(rising, falling))
        return weights * (2.0 / (centers[2:] - centers[:-2]))

    def features(self, samples: np.ndarray) -> np.ndarray:
        """Return the features of a sound, (bands, frames) of float32; silence fills a window."""
        sound = np.asarray(samples, np.float32).reshape(-1)
        if sound.size and not np.isfinite(sound).all():
            raise InputError("a sound has samples that are infinite or not a number")
        missing = self.window_samples - sound.size
        if missing > 0:
            sound = np.concatenate([sound, np.zeros(missing, np.float32)])
        half = self.fft // 2
        padded = np.pad(sound.astype(np.float64), half, mode="reflect")
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.fft) / self.fft)
        count = (padded.size - self.fft) // self.hop  # Whisper leaves the last frame out
        logs = np.empty((count, self.bands))
        # Some frames at a time, for their memory, and because a view of frames at every sample of a
        # minute is larger than an array may be in a browser.
        for first in range(0, count, _FRAMES):
            last = min(first + _FRAMES, count) - 1
            part = padded[first * self.hop : last * self.hop + self.fft]
            frames = np.lib.stride_tricks.sliding_window_view(part, self.fft)[:: self.hop]
            spectrum = np.fft.rfft(frames * window)
            power = spectrum.real**2 + spectrum.imag**2
            found = np.log10(np.maximum(power @ self.filters, _LEAST))
            logs[first : last + 1] = found
        logs = np.maximum(logs, logs.max() - _RANGE)
        return np.ascontiguousarray((logs.T + 4.0) / 4.0, np.float32)


def _mels(hertz: float) -> float:
    if hertz < _LINEAR_HZ:
        return hertz * _LINEAR_MELS / _LINEAR_HZ
    return float(_LINEAR_MELS + np.log(hertz / _LINEAR_HZ) / _LOG_STEP)


def _hertz(mels: np.ndarray) -> np.ndarray:
    above = _LINEAR_HZ * np.exp(_LOG_STEP * (mels - _LINEAR_MELS))
    return np.where(mels < _LINEAR_MELS, mels * _LINEAR_HZ / _LINEAR_MELS, above)
