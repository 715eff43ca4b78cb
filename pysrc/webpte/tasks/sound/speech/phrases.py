"""Phrases in a sound that is still coming: where somebody starts and stops to speak.

    loudness, finder = LoudnessStream(16_000), PhraseFinder(settings)
    for block in blocks:
        finder.add(block, await loudness.push(block))
        for phrase in finder.ended():
            print(phrase.start, phrase.end)

What tells speech from silence gives a share from 0 to 1 for each frame: a detector such as
Silero's, or, where there is none, how loud a frame is above what is always heard.
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
_QUIETEST, _LOUDEST_NOISE = -60.0, -35.0  # dB below full scale: bounds of what is always heard
_RISE = 3.0  # dB a second: how fast a noise that began is taken for one that is always heard
_RANGE = 20.0  # dB above the noise at which a frame is speech for sure


class VoiceStream(Protocol):
    """Tells how likely frames of a sound are speech, as it comes."""

    frame: int  # samples of one

    async def push(self, samples: Array) -> Array:
        """Take the next samples; return the share of each further frame that can be told."""
        ...

    async def finish(self) -> Array:
        """Return the shares of the frames that are left when the sound has ended."""
        ...


class LoudnessStream:
    """A rule without a model: a frame is speech if it is loud, compared with the noise.

    The noise is the quietest frame, which rises by 3 dB a second; at 20 dB above it a frame counts
    as 1, so that with a threshold of 0.5 speech is what is 10 dB louder than the noise.
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
    """When a phrase starts and ends; lengths are in samples.

    frame    samples of which each share tells
    high     a frame whose share is as high starts a phrase
    low      one whose share is lower may end it
    speech   a shorter phrase is left out
    silence  a shorter pause does not end a phrase
    pad      what is added before and after; at most half of `silence`
    longest  a longer phrase is cut there, and goes on as the next one
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
    """A part of a sound in which somebody speaks: its first sample's number, and its samples."""

    start: int
    samples: Array

    @property
    def end(self) -> int:
        return self.start + len(self.samples)


class PhraseFinder:
    """Cuts phrases out of a sound as it comes; it keeps no more than the longest phrase."""

    def __init__(self, settings: PhraseSettings) -> None:
        self.settings = settings
        self._pad = min(settings.pad, settings.silence // 2)
        self._samples = np.zeros(0, np.float32)
        self._first = 0  # the number of the first sample that is kept
        self._told = 0  # samples that are told to be speech or not
        self._shares: list[float] = []  # of frames that are not looked at yet
        self._start: int | None = None  # of the speech that goes on
        self._pause: int | None = None  # where it may have ended
        self._cut = False  # whether it goes on from a phrase that was too long

    def add(self, samples: Array, shares: Array) -> None:
        """Add samples, and the shares of further frames; these may lag behind."""
        self._samples = np.concatenate([self._samples, samples.astype(np.float32, copy=False)])
        self._shares += shares.tolist()

    def ended(self, finished: bool = False) -> Iterator[Phrase]:
        """Yield the phrases that have ended, in order; with `finished`, the sound has, too."""
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
        """The phrase that goes on, so far; None if nobody speaks, or not long enough."""
        spoken = self._told if self._pause is None else self._pause
        if self._start is None or not self._is_long(spoken):
            return None
        return self._part(self._from, self._told)

    @property
    def _from(self) -> int:
        assert self._start is not None  # there is a phrase
        return self._start if self._cut else max(self._first, self._start - self._pad)

    @property
    def _is_full(self) -> bool:
        """Whether the phrase would be too long with another frame and its padding."""
        return self._told + self.settings.frame + self._pad - self._from > self.settings.longest

    def _is_long(self, end: int) -> bool:
        assert self._start is not None
        return end - self._start > (0 if self._cut else self.settings.speech)

    def _phrase(self, end: int, most: float = math.inf) -> Phrase | None:
        """Return the phrase that ends there, with its padding; None if it is too short."""
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
