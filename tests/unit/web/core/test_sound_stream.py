"""A whole sound in several calls: its frames, the state from call to call, the joined outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from page.core.sound_stream import stream_of
from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import TensorInput, inputs_of
from webpte import TensorInfo

FRAMES, WINDOW, HOP = 4, 9, 8
CARD = (CardValue(name="frames", rate=16_000, hop=HOP), CardValue(name="state", fill="zeros"))
OUTPUTS = (CardValue(name="speech"), CardValue(feeds="state"))


def inputs() -> list[Any]:
    infos = [
        TensorInfo("input0", (FRAMES, WINDOW), "float32", dynamic=False),
        TensorInfo("input1", (1, 1), "float32", dynamic=False),
    ]
    return inputs_of(infos, CARD)


async def add_up(given: Sequence[Any]) -> tuple[Any, Any]:
    """Return the sums of frames, and the state plus all samples but the first of each frame."""
    frames, state = given
    return frames.sum(axis=1), state + frames[:, 1:].sum()


@pytest.mark.parametrize("count", [1, HOP, HOP + 1, 4 * HOP, 4 * HOP + 3, 11 * HOP])
def test_every_sample_is_used_once_and_the_state_is_carried(count: int) -> None:
    states = inputs()
    sound = states[0]
    assert isinstance(sound, TensorInput)
    samples = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    sound.take_sound(samples, "a.wav")
    stream = stream_of(states, OUTPUTS)
    assert stream is not None
    assert stream.feeds == {1: 1}
    arrays = [state.array() for state in states]
    speech, state = asyncio.run(stream.run(arrays, add_up))
    frames = -(-count // HOP)
    assert speech.shape == (frames,)
    padded = np.concatenate([[0], samples, np.zeros(frames * HOP - count)])
    expected = [padded[at * HOP : at * HOP + WINDOW].sum() for at in range(frames)]
    np.testing.assert_allclose(speech, expected, atol=1e-4)
    np.testing.assert_allclose(state[0, 0], samples.sum(), atol=1e-4)


def test_without_a_sound_there_is_one_call() -> None:
    states = inputs()
    assert stream_of(states, OUTPUTS) is None
