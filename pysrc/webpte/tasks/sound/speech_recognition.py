"""automatic-speech-recognition: the text of a sound, with times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from webpte.speech import LogMel, Whisper
from webpte.tasks.files import (
    CONFIG,
    GENERATION,
    PREPROCESSOR,
    TOKENIZER,
    TOKENIZER_CONFIG,
    ModelFiles,
)
from webpte.tasks.sound.samples import samples_of
from webpte.tasks.task import Task, task
from webpte.text import Tokenizer


@task("automatic-speech-recognition")
class SpeechRecognition(Task):
    """Turns sounds into text, by Whisper.

    await task(samples)                                # {"text": ...}
    await task(samples, return_timestamps=True)        # also "chunks", with their times
    async for chunk in task.stream(samples): ...       # chunks as they are understood
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, TOKENIZER, PREPROCESSOR, GENERATION)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # it is needed
        self.tokenizer: Tokenizer = files.tokenizer
        features = LogMel.of(files.table(PREPROCESSOR).content)
        self._model = Whisper(files.program, features, files.table(GENERATION).content)
        self._turn = asyncio.Lock()  # the program's state belongs to one window at a time

    @property
    def rate(self) -> int:
        """The samples of a second that sounds must have."""
        return self._model.features.rate

    @property
    def languages(self) -> list[str]:
        """The languages that can be asked for; empty if the model knows one alone."""
        return list(self._model.languages)

    async def __call__(
        self,
        inputs: Any,
        *,
        return_timestamps: bool = False,
        language: str | None = None,
        task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> Any:
        """Return the text of a sound, or of each in a list.

        inputs   samples (count,) of floats, `rate` a second, or {"array" (or "raw"),
                 "sampling_rate"}, or a list of those
        return_timestamps   also return "chunks": {"timestamp": (start, end), "text"}
        language            one of `languages`; by default the sound's first window tells
        task                "transcribe", or "translate" into English
        max_new_tokens      tokens of a window
        """
        many = isinstance(inputs, list | tuple)
        found = []
        for sound in inputs if many else [inputs]:
            chunks = [
                chunk
                async for chunk in self.stream(
                    sound,
                    language=language,
                    task=task,
                    max_new_tokens=max_new_tokens,
                    return_timestamps=return_timestamps,
                )
            ]
            result: dict[str, Any] = {"text": "".join(chunk["text"] for chunk in chunks)}
            found.append(result | ({"chunks": chunks} if return_timestamps else {}))
        return found if many else found[0]

    async def stream(
        self,
        sound: Any,
        *,
        return_timestamps: bool = True,
        language: str | None = None,
        task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield chunks of a sound as they are understood: {"timestamp": (start, end), "text"}."""
        samples = samples_of(sound, self.rate)
        segments = self._model.transcribe(
            samples,
            language=language,
            task=task,
            timestamps=return_timestamps,
            max_new_tokens=max_new_tokens,
        )
        while True:
            async with self._turn:  # a window at a time: another sound may come in between
                one = await anext(segments, None)
            if one is None:
                return
            times = (round(one.start, 2), round(one.end, 2))
            yield {"timestamp": times, "text": self.tokenizer.decode(one.text_tokens)}
