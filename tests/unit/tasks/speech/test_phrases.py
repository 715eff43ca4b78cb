"""Phrases of a sound that is still coming equal the phrases of the whole sound."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from webpte.errors import InputError
from webpte.tasks.sound.speech.phrases import LoudnessStream, PhraseFinder, PhraseSettings
from webpte.tasks.sound.voice_activity import find_phrases, pad_phrases

FRAME = 512


def settings(**change: Any) -> PhraseSettings:
    usual = {"speech": 600, "silence": 1024, "pad": 100, "longest": 1 << 20}
    return PhraseSettings(**{"frame": FRAME, "high": 0.5, "low": 0.35, **usual, **change})


def found_in(shares: np.ndarray, wave: np.ndarray, step: int, **change: Any) -> list[Any]:
    """Return (start, samples) of phrases of a sound that comes in steps of some frames."""
    finder, found = PhraseFinder(settings(**change)), []
    for at in range(0, len(shares), step):
        finder.add(wave[at * FRAME : (at + step) * FRAME], shares[at : at + step])
        found += list(finder.ended())
    found += list(finder.ended(finished=True))
    return [(one.start, one.samples) for one in found]


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_phrases_are_those_of_the_whole_sound(step: int, seed: int) -> None:
    numbers = np.random.RandomState(seed)
    shares = np.repeat(numbers.uniform(0, 1, 40), numbers.randint(1, 7, 40))
    wave = numbers.uniform(-1, 1, len(shares) * FRAME - 77).astype(np.float32)
    told = find_phrases(shares, len(wave), (0.5, 0.35), 600, 1024)
    wanted = pad_phrases(told, len(wave), 100)
    assert len(wanted) > 2
    found = found_in(shares, wave, step)
    # A sound that ends in a pause too short to end a phrase: here the pause is left out.
    if found[-1][0] + len(found[-1][1]) < wanted[-1][1]:
        assert shares[-1] < 0.5
        found, wanted = found[:-1], wanted[:-1]
    assert [(start, start + len(samples)) for start, samples in found] == wanted
    for start, samples in found:
        assert np.array_equal(samples, wave[start : start + len(samples)])


def test_a_phrase_that_is_too_long_is_cut() -> None:
    shares = np.repeat([0.1, 0.9, 0.1], [3, 40, 5])
    wave = np.arange(len(shares) * FRAME, dtype=np.float32)
    for step in (1, 7, 100):
        found = found_in(shares, wave, step, longest=10 * FRAME)
        assert all(len(samples) <= 10 * FRAME for _, samples in found)
        joined = np.concatenate([samples for _, samples in found])
        assert np.array_equal(joined, wave[3 * FRAME - 100 : 43 * FRAME + 100])


def test_what_nobody_needs_is_forgotten() -> None:
    finder = PhraseFinder(settings(longest=20 * FRAME))
    for share in (0.0, 0.9):
        for _ in range(200):
            finder.add(np.zeros(FRAME, np.float32), np.array([share]))
            list(finder.ended())
            assert len(finder._samples) <= 21 * FRAME


def test_a_phrase_that_goes_on_is_known() -> None:
    finder = PhraseFinder(settings())
    wave = np.arange(8 * FRAME, dtype=np.float32)
    known = []
    for at, share in enumerate([0.1, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1]):
        finder.add(wave[at * FRAME : (at + 1) * FRAME], np.array([share]))
        ended = list(finder.ended())
        known.append((len(ended), None if finder.current is None else finder.current.end // FRAME))
    # One frame is too short; three with a pause of two end at the third frame of the pause.
    assert known == [(0, None), (0, None), (0, 3), (0, 4), (0, 5), (0, 6), (1, None), (0, None)]


def test_loud_is_speech_above_the_noise() -> None:
    numbers = np.random.RandomState(3)
    wave = numbers.standard_normal(16_000 * 6)
    loudness = np.repeat([0.003, 0.1, 0.003, 0.02, 0.003, 0.1], 16_000)
    stream = LoudnessStream(16_000)

    async def hear() -> np.ndarray:
        parts = [await stream.push(part) for part in np.array_split(wave * loudness, 7)]
        return np.concatenate([*parts, await stream.finish()])

    shares = asyncio.run(hear())
    assert len(shares) == -(-len(wave) // stream.frame)
    seconds = (np.arange(len(shares)) * stream.frame / 16_000).astype(int)
    spoken = [float((shares[seconds == second] >= 0.5).mean()) for second in range(6)]
    assert max(spoken[0::2]) < 0.1
    assert min(spoken[1::2]) > 0.9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"high": 1.0}, "thresholds"),
        ({"low": 0.6}, "thresholds"),
        ({"pad": -1}, "below 0"),
        ({"longest": 1000}, "too short"),
    ],
)
def test_settings_that_cannot_be(change: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings(**change)
