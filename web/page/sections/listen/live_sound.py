"""A sound that is still coming: its newest frames go into calls, whose state is carried on.

samples  --frames of the input's window-->  call, call, ...  --one value per frame-->  a curve
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from page.shared.html.units import number_text
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.sounds import levelled
from page.shared.npy import Array
from page.shared.outputs.renderers.scores import rank
from webpte.engine.dtypes import INT32_MAX, array_dtype

_PARTS = 8  # of a single window: the next call is due when so small a part of it is new
_MOST_FRAMES = 64  # of one call, where the program takes any number
_NUMBER = re.compile(r"^-?\d+(\.\d+)?|\d+(\.\d+)?(?= Hz$)")


@dataclass(frozen=True)
class FrameValue:
    """The answer to one frame: a number for the curve, and a text."""

    seconds: float  # since the beginning, at the frame's end
    value: float
    text: str


@dataclass(eq=False)
class LiveSound:
    """Samples for one input that came and are not used up.

    arrays  of all inputs, for the next call
    feeds   output -> the input that gets it in the next call
    """

    state: TensorInput
    arrays: list[Any]
    feeds: dict[int, int]
    _samples: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    _done: int = 0  # samples whose frames are answered
    _new: int = 0  # samples since the last call, of a single window
    _count: int = 0  # frames of the current call

    def __post_init__(self) -> None:
        # Silence comes before the first frame.
        self._samples = np.zeros(self._window - (self._hop if self.has_frames else 0), np.float32)

    @property
    def has_frames(self) -> bool:
        return self.state.sound is not None and self.state.sound.frames is not None

    @property
    def _window(self) -> int:
        assert self.state.sound is not None
        return self.state.bounds[self.state.sound.time][1]

    @property
    def _hop(self) -> int:
        """New samples of each frame, or between two calls with a single window."""
        if self.has_frames:
            return min(self.state.sound_settings.hop or self._window, self._window)
        return max(1, self._window // _PARTS)

    @property
    def _frames(self) -> tuple[int, int]:
        """The fewest and the most frames of one call."""
        assert self.state.sound is not None
        if self.state.sound.frames is None:
            return 1, 1
        low, high = self.state.bounds[self.state.sound.frames]
        return max(1, low), min(high, max(low, _MOST_FRAMES)) if high == INT32_MAX else high

    @property
    def wanted(self) -> int:
        """Samples that are missing for the next call."""
        if self.has_frames:
            return max(1, self._frames[0] * self._hop - self._fresh)
        return max(1, self._hop - self._new)

    @property
    def _fresh(self) -> int:
        return len(self._samples) - (self._window - self._hop)

    def add(self, samples: Array) -> None:
        self._samples = np.concatenate([self._samples, samples.astype(np.float32)])
        self._new += len(samples)

    def next_call(self) -> list[Any] | None:
        """Return the inputs of the next call; None until enough samples came."""
        form, window, hop = self.state.sound, self._window, self._hop
        assert form is not None
        low, high = self._frames
        if form.frames is None:
            if self._new < hop:
                return None
            self._done, self._new, self._count = self._done + self._new, 0, 1
            self._samples = self._samples[-window:]
            cut = self._samples[None]
        else:
            self._count = min(high, self._fresh // hop)
            if self._count < low:
                return None
            cut = np.lib.stride_tricks.sliding_window_view(self._samples, window)[::hop]
            cut = cut[: self._count]
            self._samples = self._samples[self._count * hop :]
            self._done += self._count * hop
        values = levelled(cut, self.state.sound_settings.level).astype(
            array_dtype(self.state.dtype)
        )
        if form.frames is None:
            shape = [window if dim == form.time else 1 for dim in range(len(self.state.bounds))]
            values = values.reshape(shape)
        self.arrays[self.state.index] = np.ascontiguousarray(values)
        return list(self.arrays)

    def answers(
        self, values: Sequence[Any], labels: Sequence[str], output: int, rate: int
    ) -> list[FrameValue]:
        """Take the outputs of the last call; return the value of each of its frames."""
        for at, index in self.feeds.items():
            self.arrays[index] = values[at]
        array = np.asarray(values[output])
        frames = array if self.has_frames and array.shape[:1] == (self._count,) else array[None]
        step = self._hop if self.has_frames else 0
        first = self._done - (len(frames) - 1) * step
        return [
            FrameValue((first + at * step) / rate, *_told(one, labels))
            for at, one in enumerate(frames)
        ]


def curve_output(live: LiveSound, hidden: Sequence[bool], count: int) -> int:
    """Return the output that the curve shows: the first that is neither hidden nor state."""
    shown = [
        at for at in range(count) if at not in live.feeds and not (at < len(hidden) and hidden[at])
    ]
    return shown[0] if shown else 0


def _told(frame: Array, labels: Sequence[str]) -> tuple[float, str]:
    """Return one frame of an output as a number and a text: a class by its name, where the name is
    or ends with a number such as "440.0 Hz" by that."""
    flat = frame.reshape(1, -1)
    ranking = rank(flat, labels, 1) if len(labels) == flat.shape[1] > 1 else None
    if ranking is None or not ranking.scores:
        value = float(flat.max()) if flat.size else 0.0
        return value, number_text(round(value, 3))
    best = ranking.scores[0]
    number = _NUMBER.search(best.label)
    share = best.value if best.share is None else best.share
    if number is not None:
        return float(number[0]), best.label
    return float(share), f"{best.label} {100 * share:.0f} %"
