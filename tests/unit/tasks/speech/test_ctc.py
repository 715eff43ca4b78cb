"""Models that hear letters (CTC): texts as transformers hears them, and parts of long sounds."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.sounds import HEARD_LETTERS, SPELLED_TEXTS, letters_folder
from support.llm.small_seq2seq import RATE, sound
from webpte.errors import InputError
from webpte.tasks.sound.speech_recognition import SpeechRecognition


async def opened() -> SpeechRecognition:
    task = await webpte.tasks.open(letters_folder(), device="numpy")
    assert isinstance(task, SpeechRecognition)
    return task


@pytest.mark.parametrize("number", range(len(HEARD_LETTERS)))
def test_texts_are_those_of_transformers(number: int) -> None:
    async def run() -> None:
        with np.load(SPELLED_TEXTS) as kept:
            wanted = str(kept[f"text{number}"])
        async with await opened() as task:
            found = await task(sound(HEARD_LETTERS[number]), return_timestamps=True)
            assert found["text"] == wanted
            (chunk,) = found["chunks"]
            assert chunk["timestamp"] == (0.0, HEARD_LETTERS[number])

    asyncio.run(run())


def test_parts_of_a_long_sound_are_words_apart() -> None:
    async def run() -> None:
        async with await opened() as task:
            wave = np.concatenate([sound(0.7), np.zeros(3000), sound(0.7)])
            found = await task(wave, return_timestamps=True)
            parts = [chunk["timestamp"] for chunk in found["chunks"]]
            assert parts[0][1] == parts[1][0]
            first, second = (chunk["text"] for chunk in found["chunks"])
            assert second[0] == " "
            assert first == first.strip()
            middle = round(parts[0][1] * RATE)
            assert 11_200 <= middle <= 14_200
            assert (await task(wave[:middle]))["text"] == first
            assert (await task(np.zeros(0, np.float32)))["text"] == ""

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "said"), [({"language": "en"}, "one language"), ({"task": "translate"}, "language")]
)
def test_options_of_other_models_are_refused(options: dict[str, Any], said: str) -> None:
    async def run() -> None:
        async with await opened() as task:
            with pytest.raises(InputError, match=said):
                await task(sound(0.3), **options)

    asyncio.run(run())
