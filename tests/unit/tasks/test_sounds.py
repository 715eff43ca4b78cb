"""Sounds become spectrograms as their files say; other inputs are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import make_bursts, make_sound, models_folder
from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError
from webpte.tasks.sound.kaldi_spectrogram import FRAME, HOP, KaldiSpectrogram
from webpte.tasks.sound.speech import resample
from webpte.tasks.sound.voice_activity import VoiceActivityDetection, find_phrases, pad_phrases

SETTINGS = {"feature_extractor_type": "ASTFeatureExtractor", "num_mel_bins": 8, "max_length": 5}


def spectrogram(samples: np.ndarray, **change: Any) -> np.ndarray:
    settings = Table({**SETTINGS, **change}, "preprocessor_config.json", InputError)
    return KaldiSpectrogram(settings)(samples)


def test_a_sound_is_cut_or_padded_with_zeros() -> None:
    plain = {"do_normalize": False}
    whole = make_sound(FRAME + 9 * HOP)
    cut = spectrogram(whole, **plain)
    assert cut.shape == (5, 8)
    assert cut.dtype == np.float32
    assert np.array_equal(cut, spectrogram(whole, **plain, max_length=9)[:5])
    short = spectrogram(whole[: FRAME + HOP], **plain)
    assert np.array_equal(short[:2], cut[:2])
    assert not short[2:].any()
    normal = spectrogram(whole[:FRAME], mean=2.0, std=4.0)
    assert np.allclose(normal[1:], -2 / 8)


def test_a_tone_is_in_its_band() -> None:
    times = np.arange(FRAME) / 16_000
    low, high = (
        spectrogram(np.sin(2 * np.pi * hertz * times), do_normalize=False)[0]
        for hertz in (300, 4000)
    )
    assert low.argmax() < 3
    assert high.argmax() > 4
    silence = spectrogram(np.zeros(FRAME), do_normalize=False)
    assert np.allclose(silence[0], np.log(np.finfo(np.float32).eps))


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"feature_extractor_type": "WhisperFeatureExtractor"}, UnsupportedError, "Whisper"),
        ({"sampling_rate": 8000}, UnsupportedError, "8000"),
        ({"std": 0.0}, InputError, "divided"),
        ({"max_length": 0}, InputError, "max_length"),
    ],
)
def test_files_that_are_not_understood_are_refused(change: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        spectrogram(make_sound(FRAME), **change)


def test_sounds_of_every_kind() -> None:
    sound = make_sound(900)

    async def classify() -> None:
        folder = models_folder() / "noises"
        async with await webpte.tasks.open("audio-classification", folder, device="numpy") as task:
            wanted = await task(sound)
            for key in ("array", "raw"):
                assert await task({key: sound, "sampling_rate": 16_000}) == wanted
            assert await task([]) == []
            other = {"array": make_sound(3000), "sampling_rate": 44_100}
            assert await task(other) == await task(resample(make_sound(3000), 44_100, 16_000))
            for given, said in (
                (sound[: FRAME - 1], "399 samples is too short"),
                (np.stack([sound, sound]), "one channel"),
                ((sound * 1000).astype(np.int16), "int16"),
                (np.append(sound, np.nan), "NaN"),
                ({"array": sound, "sampling_rate": 44_100}, "327 samples is too short"),
                ({"array": sound, "sampling_rate": 0}, "sampling rate of 0"),
                ({"array": sound}, "no sampling_rate"),
                ("sound.wav", "not a str"),
            ):
                with pytest.raises(InputError, match=said):
                    await task(given)

    asyncio.run(classify())


def test_what_was_heard_before_counts() -> None:
    """States go from call to call: the model of tests/data/make/voice_model.py, in NumPy."""
    wave = make_bursts([700, 3000, 900, 4000])
    padded = np.concatenate([np.zeros(64), wave, np.zeros(-len(wave) % 512)])
    hidden, cell, wanted = np.zeros(3), np.zeros(3), []
    for start in range(0, len(wave), 512):
        loud = (padded[start : start + 576] ** 2).mean() * 40 - 1
        cell = cell / 2 + np.tanh(loud)
        hidden = np.tanh(cell + hidden / 4)
        wanted.append(1 / (1 + np.exp(-hidden.sum() * 1.5)))

    async def hear(samples: np.ndarray) -> Any:
        async with await webpte.tasks.open(
            "voice-activity-detection", models_folder() / "voices", device="numpy"
        ) as task:
            assert isinstance(task, VoiceActivityDetection)
            return await task.probabilities(samples), await task(samples)

    likely, _ = asyncio.run(hear(wave))
    assert np.allclose(likely, wanted, atol=1e-5)
    likely, phrases = asyncio.run(hear(wave[:0]))
    assert len(likely) == len(phrases) == 0


def test_phrases_have_the_times_of_the_sound_that_was_given() -> None:
    wave = make_bursts([9000, 30_000, 12_000, 30_000, 9000])

    async def hear() -> None:
        async with await webpte.tasks.open(
            "voice-activity-detection", models_folder() / "voices", device="numpy"
        ) as task:
            plain = await task(wave)
            slow = await task({"array": np.repeat(wave, 3), "sampling_rate": 48_000})
            assert len(plain) == len(slow) == 2
            for one, other in zip(plain, slow, strict=True):
                for key in ("start", "end"):
                    assert abs(3 * one[key] - other[key]) <= 3 * 512
                    assert other[key] > 1.5 * one[key]

    asyncio.run(hear())


def test_phrases_share_what_is_between_them() -> None:
    likely = np.repeat([0.9, 0.1, 0.9, 0.1], [3, 1, 2, 9])
    found = find_phrases(likely, len(likely) * 512, (0.5, 0.35), 600, 0)
    assert found == [(0, 1536), (2048, 3072)]
    assert pad_phrases(found, 5000, 300) == [(0, 1792), (1792, 3372)]
    assert pad_phrases(found, 3100, 100) == [(0, 1636), (1948, 3100)]
    assert pad_phrases([], 0, 100) == []
