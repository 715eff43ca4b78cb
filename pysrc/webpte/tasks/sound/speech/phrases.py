"""Phrases in a live sound: where speech starts and stops.

    loudness, finder = LoudnessStream(16_000), PhraseFinder(settings)
    for block in blocks:
        finder.add(block, await loudness.push(block))
        for phrase in finder.ended():
            print(phrase.start, phrase.end)

Each frame gets a score of speech from 0 to 1: by a detector such as Silero's, or else by a frame's
loudness above the background noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from webpte.errors import InputError

Array = np.ndarray
FRAME_SECONDS = 0.032
_QUIETEST, _LOUDEST_NOISE = -60.0, -35.0  # dB below full scale: bounds of the background noise
_RISE = 3.0  # dB per second: how fast the estimate of the noise rises
_RANGE = 20.0  # dB above the noise at which a frame certainly is speech


class VoiceStream(Protocol):
    """Scores frames of a live sound: how likely each frame is speech."""

    frame: int  # samples per frame

    async def push(self, samples: Array) -> Array:
        """Take the next samples; return the scores of the frames that are complete."""
        ...

    async def finish(self) -> Array:
        """Return the scores of the remaining frames when the sound has ended."""
        ...


class LoudnessStream:
    """Scores frames without a model: a frame is speech if it is loud, compared with the noise.

    The noise is the level of the quietest frame, and rises by 3 dB a second; a frame 20 dB above it
    scores 1, so that with a threshold of 0.5 speech is 10 dB louder than the noise.
    """

    def __init__(self, rate: int) -> None:
        self.frame = max(1, round(rate * FRAME_SECONDS))
        self._rest = np.zeros(0, np.float32)
        self._noise = _LOUDEST_NOISE

    async def push(self, samples: Array) -> Array:
        self._rest = np.concatenate([self._rest, samples])
        count = len(self._rest) // self.frame
        whole, self._rest = np.split(self._rest, [count * self.frame])
        return self._shares(whole.reshape(count, self.frame))

    async def finish(self) -> Array:
        rest, self._rest = self._rest, self._rest[:0]
        return self._shares(rest[None] if len(rest) else rest.reshape(0, self.frame))

    def _shares(self, frames: Array) -> Array:
        power = np.square(frames, dtype=np.float64).mean(axis=1)
        levels = 10 * np.log10(np.maximum(power, 1e-12))
        shares = np.empty(len(frames), np.float32)
        for at, level in enumerate(levels.tolist()):
            risen = min(self._noise + _RISE * FRAME_SECONDS, _LOUDEST_NOISE)
            self._noise = max(min(level, risen), _QUIETEST)
            shares[at] = min(max((level - self._noise) / _RANGE, 0.0), 1.0)
        return shares


@dataclass(frozen=True)
class PhraseSettings:
    """The rules for starts and ends of phrases; lengths are in samples.

    frame    samples per score
    high     least score of a frame that starts a phrase
    low      a frame with a lower score may end a phrase
    speech   a shorter phrase is left out
    silence  a shorter pause does not end a phrase
    pad      padding before and after; at most half of `silence`
    longest  a longer phrase is cut there, and continues as the next phrase
    """

    frame: int
    high: float
    low: float
    speech: int
    silence: int
    pad: int
    longest: int

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < 1:
            raise InputError(
                f"thresholds of speech are {self.high} to start and {self.low} to end; they are "
                "between 0 and 1, and the second is not above the first"
            )
        if min(self.speech, self.silence, self.pad) < 0:
            raise InputError("lengths of speech, silence and padding cannot be below 0")
        if self.longest < 2 * self.frame + 2 * self.pad:
            raise InputError(f"a phrase of {self.longest} samples is too short to be padded")


@dataclass(frozen=True)
class Phrase:
    """A spoken part of a sound: the number of its first sample, and its samples."""

    start: int
    samples: Array

    @property
    def end(self) -> int:
        return self.start + len(self.samples)


class PhraseFinder:
    """Cuts phrases out of a live sound; it stores no more samples than the longest phrase."""

    def __init__(self, settings: PhraseSettings) -> None:
        self.settings = settings
        self._pad = min(settings.pad, settings.silence // 2)
        self._samples = np.zeros(0, np.float32)
        self._first = 0  # the number of the first stored sample
        self._told = 0  # samples with a known score
        self._shares: list[float] = []  # scores of frames still to be examined
        self._start: int | None = None  # start of the current speech
        self._pause: int | None = None  # where it may have ended
        self._cut = False  # whether it continues a phrase that was too long

    def add(self, samples: Array, shares: Array) -> None:
        """Add samples, and the scores of further frames, which may lag behind."""
        self._samples = np.concatenate([self._samples, samples.astype(np.float32, copy=False)])
        self._shares += shares.tolist()

    def ended(self, finished: bool = False) -> Iterator[Phrase]:
        """Yield the phrases that have ended, in order; `finished`: the sound has ended, too."""
        chosen = self.settings
        shares, self._shares = self._shares, []
        for share in shares:
            now, self._told = self._told, self._told + chosen.frame
            if share >= chosen.high:
                self._start, self._pause = now if self._start is None else self._start, None
            elif self._start is not None and share < chosen.low:
                self._pause = now if self._pause is None else self._pause
                if now - self._pause >= chosen.silence:
                    phrase = self._phrase(self._pause)
                    self._start = self._pause = None
                    self._cut = False
                    if phrase is not None:
                        yield phrase
            if self._start is not None and self._is_full:
                yield self._part(self._from, self._told)
                self._start, self._pause, self._cut = self._told, None, True
            self._forget()
        if finished and self._start is not None:
            whole = self._first + len(self._samples)
            phrase = self._phrase(whole if self._pause is None else self._pause, whole)
            self._start = self._pause = None
            if phrase is not None:
                yield phrase

    @property
    def current(self) -> Phrase | None:
        """The growing phrase so far; None without speech, or if it is too short."""
        spoken = self._told if self._pause is None else self._pause
        if self._start is None or not self._is_long(spoken):
            return None
        return self._part(self._from, self._told)

    @property
    def _from(self) -> int:
        assert self._start is not None  # a phrase has started
        return self._start if self._cut else max(self._first, self._start - self._pad)

    @property
    def _is_full(self) -> bool:
        """Whether the phrase would be too long with another frame and its padding."""
        return self._told + self.settings.frame + self._pad - self._from > self.settings.longest

    def _is_long(self, end: int) -> bool:
        assert self._start is not None
        return end - self._start > (0 if self._cut else self.settings.speech)

    def _phrase(self, end: int, most: float = math.inf) -> Phrase | None:
        """Return the phrase up to an end, with its padding; None if it is too short."""
        if not self._is_long(end):
            return None
        return self._part(self._from, int(min(end + self._pad, most)))

    def _part(self, start: int, end: int) -> Phrase:
        kept = self._samples[start - self._first : end - self._first]
        return Phrase(start, kept.copy())

    def _forget(self) -> None:
        """Drop samples that no phrase can need any more."""
        needed = self._told - self._pad if self._start is None else self._from
        if needed - self._first >= self.settings.frame:
            self._samples = self._samples[needed - self._first :]
            self._first = needed
