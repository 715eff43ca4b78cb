"""Moonshine: samples in, text out; a long sound is cut where it is quiet."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from support.harness.sounds import HEARD, HEARD_TOKENS, moonshine_folder
from support.llm.small_seq2seq import RATE, sound
from webpte.engine.files.json_reader import Table
from webpte.errors import InputError
from webpte.tasks.sound.speech import Moonshine
from webpte.tasks.sound.speech_recognition import SpeechRecognition

NAME = "automatic-speech-recognition"
ENDS = {1, 2}  # tokens that start and end an answer


async def opened() -> SpeechRecognition:
    task = await webpte.tasks.open(NAME, moonshine_folder(), device="numpy")
    assert isinstance(task, SpeechRecognition)
    return task


@pytest.mark.parametrize("number", range(len(HEARD)))
def test_tokens_are_those_of_transformers(number: int) -> None:
    async def run() -> None:
        with np.load(HEARD_TOKENS) as kept:
            wanted = [token for token in kept[f"tokens{number}"].tolist() if token not in ENDS]
        async with await opened() as task:
            found = await task(sound(HEARD[number]), return_timestamps=True)
            assert found["text"] == task.tokenizer.decode(wanted)
            (chunk,) = found["chunks"]
            assert chunk["timestamp"] == (0.0, HEARD[number])

    asyncio.run(run())


def test_a_long_sound_is_cut_where_it_is_quiet() -> None:
    async def run() -> None:
        async with await webpte.load(moonshine_folder() / "model.pte", device="numpy") as program:
            settings = Table({}, "preprocessor_config.json", InputError)
            model = Moonshine(program, settings)
            model.window_samples = RATE  # otherwise it takes half a minute
            wave = np.random.default_rng(0).uniform(-0.5, 0.5, 2 * RATE)
            wave[12_000:12_600] = 0
            found = [one async for one in model.transcribe(wave, max_new_tokens=1)]
            assert found[0].start == 0
            assert 12_000 <= found[0].end * RATE <= 12_600
            assert found[1].start == found[0].end
            assert found[-1].end == 2
            assert [one async for one in model.transcribe(wave[:0])] == []
            with pytest.raises(InputError, match="one language alone"):
                await anext(model.transcribe(wave, language="en"))
            with pytest.raises(InputError, match="not a number"):
                await anext(model.transcribe(np.array([np.nan])))

    asyncio.run(run())
