"""Transcripts of a small Whisper equal transformers', with times and over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.small_seq2seq import SPOKEN, kept, program_of, sound, whisper_settings
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.tasks.sound.speech import LogMel, SpokenSegment, Whisper


async def whisper(device: Any = "numpy", **changed: Any) -> Whisper:
    program = await webpte.load(program_of("whisper"), device=device, strict=True)
    features, generation = whisper_settings()
    return Whisper(program, LogMel.of(features), {**generation, **changed})


def expected(number: int) -> list[tuple[float, float, tuple[int, ...]]]:
    """Return start, end and text of the segments that transformers finds."""
    found, texts, first = kept("whisper"), [], 0
    for length in found[f"lengths{number}"].tolist():
        texts.append(tuple(found[f"texts{number}"][first : first + length].tolist()))
        first += length
    times = zip(found[f"starts{number}"].tolist(), found[f"ends{number}"].tolist(), strict=True)
    return [
        (round(start, 6), round(end, 6), text)
        for (start, end), text in zip(times, texts, strict=True)
    ]


async def segments(model: Whisper, number: int, **options: Any) -> list[SpokenSegment]:
    case = SPOKEN[number]
    given = {"language": case.language, "timestamps": case.timestamps, **options}
    return [one async for one in model.transcribe(sound(case.seconds), **given)]


@pytest.mark.parametrize(
    ("number", "device"),
    extent.some(
        [(1, "numpy"), (2, "numpy"), (0, "simulated")],
        *[(0, "numpy"), (1, "simulated")],
    ),
)
def test_segments_are_those_of_transformers(number: int, device: str) -> None:
    async def run() -> None:
        model = await whisper(SimulatedDevice() if device == "simulated" else device)
        found = await segments(model, number)
        shown = [(round(one.start, 6), round(one.end, 6), one.text_tokens) for one in found]
        assert shown == expected(number)

    wait(run())


def test_what_cannot_be_is_refused() -> None:
    async def run() -> None:
        model = await whisper()
        assert model.languages == {"en": 22, "de": 23}
        assert await model.language_of(sound(0.7)) in model.languages
        with pytest.raises(InputError, match="the language 'xx' is not one of en, de"):
            await segments(model, 0, language="xx")
        with pytest.raises(InputError, match="the task 'sing' is not one of translate"):
            await segments(model, 0, task="sing")
        english = await whisper(lang_to_id={}, task_to_id={})
        with pytest.raises(InputError, match="one language alone"):
            await segments(english, 0)
        with pytest.raises(InputError, match="one language alone"):
            await english.language_of(np.zeros(3))
        assert await segments(english, 0, language=None)
        program, (_, generation) = model._model.program, whisper_settings()
        with pytest.raises(InputError, match=r"takes windows of 100 frames, .* are 3000"):
            Whisper(program, LogMel(bands=8), generation)
        text = await webpte.load(program_of("bart"), device="numpy")
        with pytest.raises(InputError, match="takes tokens, not features"):
            Whisper(text, LogMel(), generation)

    wait(run())
