"""A whole sound in several calls: the card says how far frames move on, and which outputs are the
state that the next call gets.

sound  --frames-->  call 1, call 2, ...  --outputs joined along their first dim-->  results
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import Input, TensorInput
from page.shared.inputs.sounds import sound_calls
from page.shared.npy import Array

Call = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True)
class SoundStream:
    """The calls that a sound takes.

    at     the input that gets the sound
    parts  its array in each call
    count  how many frames have sound; all later frames are silent
    feeds  output -> the input that gets it in the next call
    """

    at: int
    parts: Sequence[Array]
    count: int
    feeds: dict[int, int]

    async def run(self, arrays: Sequence[Any], call: Call) -> tuple[Any, ...]:
        """Make all calls; return the outputs, joined, and the state after the last call."""
        given, made = list(arrays), []
        for part in self.parts:
            given[self.at] = part.astype(arrays[self.at].dtype)
            values = list(await call(given))
            made.append(values)
            for output, index in self.feeds.items():
                given[index] = values[output]
        return tuple(
            values[-1] if output in self.feeds else self._joined(values)
            for output, values in enumerate(zip(*made, strict=True))
        )

    def _joined(self, values: Sequence[Any]) -> Any:
        frames = len(self.parts[0])
        if not all(isinstance(one, np.ndarray) and one.shape[:1] == (frames,) for one in values):
            return values[-1]  # it does not say something of each frame
        return np.concatenate(values)[: self.count]


def feeds_of(inputs: Sequence[Input], outputs: Sequence[CardValue]) -> dict[int, int]:
    """Return output -> the input that gets it in the next call, as a card's outputs say."""
    titles = {
        state.title: state.index
        for state in inputs
        if isinstance(state, TensorInput) and state.title
    }
    return {at: titles[one.feeds] for at, one in enumerate(outputs) if one.feeds in titles}


def stream_of(inputs: Sequence[Input], outputs: Sequence[CardValue]) -> SoundStream | None:
    """Return the calls for the sound that is set; None if there is none, or one call is all."""
    for state in inputs:
        if not isinstance(state, TensorInput) or state.fill != "sound" or state.samples is None:
            continue
        form, hop = state.sound, state.sound_settings.hop
        if form is None or form.frames is None or not 0 < hop <= state.dims[form.time]:
            continue
        feeds = feeds_of(inputs, outputs)
        parts = sound_calls(state.samples, form, hop, state.dims)
        count = max(1, -(-len(state.samples) // hop))
        return SoundStream(state.index, parts, count, feeds)
    return None
