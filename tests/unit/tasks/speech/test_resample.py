"""Resampling gives SciPy's results, in one piece or in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from support.harness.sounds import RESAMPLED, RESAMPLED_RATES, make_wave
from webpte.errors import InputError
from webpte.tasks.sound.speech import Resampler, resample


@pytest.mark.parametrize(("old", "new"), RESAMPLED_RATES)
def test_results_are_those_of_scipy(old: int, new: int) -> None:
    with np.load(RESAMPLED) as kept:
        for count in (1, 613):
            wave = make_wave(count)
            found = resample(wave, old, new)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, kept[f"{old}_{new}_{count}"], atol=2e-7)


@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (8_000, 16_000), (16_000, 16_000)])
def test_blocks_give_what_the_whole_gives(old: int, new: int) -> None:
    wave, resampler = make_wave(5003), Resampler(old, new)
    cuts = np.cumsum(np.resize([0, 1, 700, 0, 33, 257], 100))
    parts = [resampler.push(part) for part in np.split(wave, cuts[cuts < len(wave)])]
    assert np.array_equal(np.concatenate([*parts, resampler.finish()]), resample(wave, old, new))
    assert len(resample(wave[:0], old, new)) == 0


def test_a_stream_keeps_little() -> None:
    resampler = Resampler(48_000, 16_000)
    for _ in range(300):
        resampler.push(np.zeros(1024, np.float32))
    assert len(resampler._kept) < 200


@pytest.mark.parametrize("rate", [0, -1, 1 << 20, 0.5, "fast", None, True])
def test_rates_that_cannot_be(rate: object) -> None:
    with pytest.raises(InputError, match="sampling rate"):
        Resampler(rate, 16_000)  # type: ignore[arg-type]
