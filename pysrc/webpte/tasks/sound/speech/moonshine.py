"""Speech to text with Moonshine: a sound of any length up to a window is an answer in tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Unpack

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError
from webpte.llm.generation import GenerationOptions
from webpte.llm.seq2seq import Seq2Seq
from webpte.program import Program
from webpte.tasks.sound.speech.whisper import SpokenSegment
from webpte.tasks.sound.speech.windows import check_one_language, windows_of

# Samples per frame, additional samples of the first frame, and the least number of frames: shorter
# sounds are padded with silence.
_FRAME_SAMPLES, _FIRST_SAMPLES, _LEAST_FRAMES = 384, 511, 4
_TOKENS_A_SECOND = 6.5  # above this rate a model repeats itself


class Moonshine:
    """A Moonshine program that turns sounds into segments of text.

    rate            samples of a second
    window_samples  the longest sound per answer
    languages       empty: the model knows a single language
    """

    languages: Mapping[str, int] = {}

    def __init__(self, program: Program, settings: Table) -> None:
        """`settings` is the content of preprocessor_config.json."""
        self._model = Seq2Seq(program)
        self.rate = settings.integer("sampling_rate", 16_000, low=1)
        if settings.flag("do_normalize", False):
            raise InputError(f"{settings.name}: sounds that are normalized are not known")
        self.window_samples = self._model.max_source
        if self._model.is_text or self.window_samples < _whole(1):
            raise InputError(f"{program.name} takes no samples: it is not a program of Moonshine")

    async def transcribe(
        self,
        samples: np.ndarray,
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = True,
        max_new_tokens: int | None = None,
        **options: Unpack[GenerationOptions],
    ) -> AsyncIterator[SpokenSegment]:
        """Yield the text of a sound: samples from -1 to 1, `rate` a second.

        A sound longer than a window is cut at quiet places, and each part is a segment.
        `max_new_tokens` is for a window; by default 6.5 a second. Other options go to
        `Generator.generate`.
        """
        check_one_language(self._model.program.name, language, task)
        sound = np.asarray(samples, np.float32).reshape(-1)
        for start, end in windows_of(sound, self.window_samples, self.rate):
            part = sound[start:end]
            missing = _whole(len(part)) - len(part)
            answer = self._model.generate(
                np.pad(part, (0, missing))[np.newaxis],
                max_new_tokens or self._most_tokens(len(part)),
                **options,
            )
            tokens = tuple([token async for token in answer])
            yield SpokenSegment(start / self.rate, end / self.rate, tokens, tokens)

    def _most_tokens(self, count: int) -> int:
        """Return the most tokens for a sound of this many samples."""
        most = max(1, int(count / self.rate * _TOKENS_A_SECOND) + 1)
        context = self._model.max_context
        return most if context is None else min(most, context - len(self._model.start))

    def compiled(self) -> dict[str, Any]:
        """Return the preparation of sounds and the answers as a compiled program describes them."""
        model = self._model
        made = model.compiled([len(model.start) + len(model.forced)])
        given = {
            "kind": "spoken",
            "rate": self.rate,
            "longest": self.window_samples,
            "frames": [_FRAME_SAMPLES, _FIRST_SAMPLES, _LEAST_FRAMES],
            "features": None,
        }
        return {**made, "input": given, "decoder": {**made["decoder"], "speed": _TOKENS_A_SECOND}}


def _whole(count: int) -> int:
    """Return the samples of the whole frames in a number of samples."""
    frames = max(_LEAST_FRAMES, -(-(count - _FIRST_SAMPLES) // _FRAME_SAMPLES))
    return frames * _FRAME_SAMPLES + _FIRST_SAMPLES
