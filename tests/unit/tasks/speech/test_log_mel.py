"""Log-mel features equal the features of transformers' extractor."""

from __future__ import annotations

import json

import numpy as np
import pytest

from support.llm.small_seq2seq import SPOKEN, kept, sound, whisper_settings
from webpte.errors import InputError
from webpte.tasks.sound.speech import LogMel


@pytest.mark.parametrize("number", range(len(SPOKEN)))
def test_features_are_those_of_transformers(number: int) -> None:
    expected = kept("whisper")[f"features{number}"]
    mel = LogMel.of(json.dumps(whisper_settings()[0]))
    found = mel.features(sound(SPOKEN[number].seconds))
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_settings_are_whispers_by_default() -> None:
    mel = LogMel.of({})
    assert (mel.bands, mel.window_samples, mel.window_frames) == (80, 480000, 3000)
    assert mel.filters.shape == (201, 80)
    assert (mel.filters >= 0).all()
    assert (mel.filters.max(0) > 0).all(), "every band hears something"


@pytest.mark.parametrize("samples", [[], [0.25], np.zeros(401)], ids=["none", "one", "silence"])
def test_short_sounds_are_followed_by_silence(samples: list[float]) -> None:
    mel = LogMel(bands=8, window=1)
    found = mel.features(np.array(samples))
    assert found.shape == (8, 100)
    assert np.isfinite(found).all()


def test_no_view_of_a_long_sound_is_larger_than_browsers_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, usual = list[int](), np.lib.stride_tricks.sliding_window_view

    def watched(array: np.ndarray, width: int) -> np.ndarray:
        view = usual(array, width)
        sizes.append(view.nbytes)
        return view

    monkeypatch.setattr(np.lib.stride_tricks, "sliding_window_view", watched)
    found = LogMel().features(sound(60))
    assert found.shape == (80, 6000)
    assert max(sizes) < 1 << 31


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="hop is 0, which cannot be"):
        LogMel(hop=0)
    with pytest.raises(InputError, match="frames of 100 samples, 160 apart"):
        LogMel(fft=100)
    with pytest.raises(InputError, match="features of Wav2Vec2FeatureExtractor are not known"):
        LogMel.of({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})
    with pytest.raises(InputError, match="infinite or not a number"):
        LogMel().features(np.array([0.0, np.nan]))
