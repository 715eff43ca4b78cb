"""Listening: phrases of a sound that is still coming, with their texts and times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.harness.task_cases import models_folder
from support.llm.small_seq2seq import RATE, sound, whisper_folder
from webpte.errors import InputError, SourceError
from webpte.tasks.sound.speech import resample
from webpte.tasks.sound.speech_recognition import SpeechRecognition
from webpte.tasks.sound.voice_activity import VoiceActivityDetection, find_phrases, pad_phrases

NAME = "automatic-speech-recognition"
SILENCE = np.zeros(RATE, np.float32)
SPOKEN = np.concatenate([SILENCE, sound(0.6), SILENCE, 0.8 * sound(0.5)[::-1], SILENCE])
SAID: dict[str, Any] = {"language": "en", "max_new_tokens": 2}
QUICK: dict[str, Any] = {"min_silence_duration_ms": 300, "speech_pad_ms": 50, **SAID}


@pytest.fixture
def folder() -> Path:
    return whisper_folder()


async def opened(folder: Path) -> SpeechRecognition:
    task = await webpte.tasks.open(NAME, folder, device="numpy")
    assert isinstance(task, SpeechRecognition)
    return task


async def microphone(wave: np.ndarray, size: int = 800) -> AsyncIterator[np.ndarray]:
    """Yield blocks, each after everybody else has worked as long as they can."""
    for at in range(0, len(wave), size):
        for _ in range(20):
            await asyncio.sleep(0)
        yield wave[at : at + size]


@pytest.mark.parametrize("size", extent.some([800], 1 << 20))
def test_phrases_are_those_that_the_detector_finds(folder: Path, size: int) -> None:
    """Each phrase has the text that the task gives for the samples of the phrase."""

    async def run() -> None:
        voices = models_folder() / "voices"
        async with (
            await opened(folder) as task,
            await webpte.tasks.open("voice-activity-detection", voices, device="numpy") as voice,
        ):
            assert isinstance(voice, VoiceActivityDetection)
            likely = await voice.probabilities(SPOKEN)
            wanted = pad_phrases(
                find_phrases(likely, len(SPOKEN), (0.5, 0.35), 4000, 4800), len(SPOKEN), 800
            )
            assert len(wanted) == 2
            heard = task.listen(microphone(SPOKEN, size), voice=voice, **QUICK)
            found = [one async for one in heard if one["final"]]
            assert [one["timestamp"] for one in found] == [
                (round(start / RATE, 2), round(end / RATE, 2)) for start, end in wanted
            ]
            for one, (start, end) in zip(found, wanted, strict=True):
                assert one["text"] == (await task(SPOKEN[start:end], **SAID))["text"] != ""

    wait(run())


def test_a_phrase_is_told_while_it_goes_on(folder: Path) -> None:
    async def run() -> None:
        async with await opened(folder) as task:
            heard = task.listen(microphone(SPOKEN), partial_seconds=0.2, **QUICK)
            found = [one async for one in heard]
            finals = [at for at, one in enumerate(found) if one["final"]]
            assert len(finals) == 2
            assert finals[0] >= 2  # two texts or more before the first phrase ended
            assert finals[1] == len(found) - 1
            for part in (found[: finals[0] + 1], found[finals[0] + 1 :]):
                starts, ends = zip(*(one["timestamp"] for one in part), strict=True)
                assert len(set(starts)) == 1
                assert list(ends[:-1]) == sorted(ends[:-1])
                for one in part:
                    first, last = (round(at * RATE) for at in one["timestamp"])
                    assert 15_000 < first < last < len(SPOKEN)
            quiet = task.listen(microphone(SPOKEN), partial_seconds=None, **QUICK)
            assert [one async for one in quiet] == [found[at] for at in finals]

    wait(run())


def test_blocks_of_another_rate_are_resampled(folder: Path) -> None:
    async def run() -> None:
        faster = resample(SPOKEN, RATE, 48_000)
        again = resample(faster, 48_000, RATE)
        async with await opened(folder) as task:
            wanted = [one async for one in task.listen([again], **QUICK) if one["final"]]
            assert len(wanted) == 2
            blocks = [faster[at : at + 1000] for at in range(0, len(faster), 1000)]
            told = [{"array": one, "sampling_rate": 48_000} for one in blocks]
            for given, rate in ((blocks, 48_000), (told, None)):
                heard = task.listen(given, sampling_rate=rate, **QUICK)
                assert [one async for one in heard if one["final"]] == wanted

    wait(run())


def test_closing_closes_the_source_and_frees_the_task(folder: Path) -> None:
    async def run() -> None:
        closed = asyncio.Event()

        async def endless() -> AsyncIterator[np.ndarray]:
            try:
                while True:
                    await asyncio.sleep(0)
                    yield sound(0.1)
            finally:
                closed.set()

        async with await opened(folder) as task:
            async with aclosing(task.listen(endless(), **QUICK)) as heard:
                first = await anext(heard)
                assert first["text"]
                assert not closed.is_set()
            assert closed.is_set()

            async def work() -> None:
                async for _ in task.listen(endless(), **QUICK):
                    pass

            closed.clear()
            running = asyncio.ensure_future(work())
            while not task._turn.locked():  # until it is in the middle of a phrase
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert closed.is_set()
            assert (await task(sound(0.3), **SAID))["text"]

    wait(run())


def test_a_source_that_is_faster_than_the_model_waits(folder: Path) -> None:
    async def run() -> None:
        given = 0

        async def fast() -> AsyncIterator[np.ndarray]:
            nonlocal given
            for _ in range(400):
                given += 1600
                yield sound(0.1)

        async with await opened(folder) as task:
            heard = task.listen(fast(), **QUICK)
            async with aclosing(heard):
                first = await anext(heard)
                assert first["timestamp"][1] <= 1.1
                assert given <= 3 * RATE  # a window of a second that waits, and one at work

    wait(run())


def test_faults_of_a_source_come_after_what_was_said(folder: Path) -> None:
    async def run() -> None:
        async def broken() -> AsyncIterator[np.ndarray]:
            yield SPOKEN[: 3 * RATE]
            raise SourceError("the microphone was unplugged")

        async with await opened(folder) as task:
            heard = task.listen(broken(), **QUICK)
            assert (await anext(heard))["final"]
            with pytest.raises(SourceError, match="unplugged"):
                await anext(heard)
            for blocks, options, said in (
                (["a"], {}, "NumPy array"),
                ([np.array([np.nan])], {}, "NaN"),
                ([SILENCE, {"array": SILENCE, "sampling_rate": 8000}], {}, "one sampling_rate"),
                ([SILENCE], {"voice": task}, "voice is a SpeechRecognition"),
                ([SILENCE], {"threshold": 2}, "thresholds"),
                ([SILENCE], {"speech_pad_ms": 900}, "too short"),
                ([SPOKEN], {"language": "fr"}, "'fr' is not one of"),
            ):
                given: dict[str, Any] = QUICK | options
                with pytest.raises(InputError, match=said):
                    await anext(task.listen(blocks, **given))

    wait(run())
