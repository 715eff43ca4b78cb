"""Speech to text with Whisper: windows of a sound in turn, each with an answer in tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import InputError
from webpte.llm.constrain.constraint import OneOf
from webpte.llm.generation import GenerationOptions
from webpte.llm.seq2seq import Seq2Seq
from webpte.program import Program
from webpte.tasks.sound.speech.log_mel import LogMel
from webpte.tasks.sound.speech.timestamps import TimestampRule, split

_FRAMES = 2  # per timestamp: the encoder's convolutions halve their number


@dataclass(frozen=True)
class SpokenSegment:
    """A spoken segment, from `start` to `end` seconds.

    tokens       with the timestamps before and after, if any
    text_tokens  without them
    """

    start: float
    end: float
    tokens: tuple[int, ...]
    text_tokens: tuple[int, ...]


class Whisper:
    """A Whisper program that turns sounds into segments of text.

    features   makes the encoder's input from sounds
    languages  by name ("en"), the tokens of the languages that the model knows; empty if it knows a
               single language
    tasks      by name ("transcribe", "translate"), their tokens
    """

    def __init__(
        self,
        program: Program,
        features: LogMel,
        settings: str | bytes | Mapping[str, Any],
    ) -> None:
        """`settings` is the content of generation_config.json."""
        name = "generation_config.json"
        table = (
            Table(dict(settings), name, InputError)
            if isinstance(settings, Mapping)
            else parse_table(settings, name, InputError)
        )
        self.features = features
        self._model = model = Seq2Seq(program)
        if model.is_text:
            raise InputError(f"{program.name} takes tokens, not features of sounds")
        if model.max_source != features.window_frames:
            raise InputError(
                f"{program.name} takes windows of {model.max_source} frames, but the features of a "
                f"window are {features.window_frames}"
            )
        self._no_times = table.integer("no_timestamps_token_id")
        self._latest = table.integer("max_initial_timestamp_index", None)
        empty = Table({}, name, InputError)
        spoken = table.table("lang_to_id", empty).content
        self.languages = {key.strip("<|>"): int(token) for key, token in spoken.items()}
        tasks = table.table("task_to_id", empty).content
        self.tasks = {key: int(token) for key, token in tasks.items()}

    @property
    def rate(self) -> int:
        """The samples of a second."""
        return self.features.rate

    @property
    def window_samples(self) -> int:
        """The longest sound per window."""
        return self.features.window_samples

    async def language_of(self, samples: np.ndarray) -> str:
        """Return the language that the model finds in the first window of a sound."""
        if not self.languages:
            raise InputError(f"{self._model.program.name} knows one language alone")
        window = self._window(self.features.features(samples), 0)
        names = {token: name for name, token in self.languages.items()}
        choices = OneOf([[token] for token in names])
        answer = self._model.generate(window, 1, prompt=self._model.start, constraint=choices)
        return names[await anext(answer)]

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
        """Yield the segments of a sound: samples from -1 to 1 at the rate of the `features`.

        `language` is a member of `languages`; by default it is detected in the first window.
        Without `timestamps`, a sound up to the length of a window is a single segment; a longer
        sound needs them. `max_new_tokens` is for a window. Other options go to
        `Generator.generate`.
        """
        sound = np.asarray(samples).reshape(-1)
        mel = self.features
        prompt = await self._prompt(sound, language, task)
        features = mel.features(sound)
        total, place = features.shape[1], 0
        with_times = timestamps or total > mel.window_frames
        if not with_times:
            prompt = (*prompt, self._no_times)
        seconds = _FRAMES * mel.hop / mel.rate  # per timestamp
        while place < total:
            answer = self._model.generate(
                self._window(features, place),
                max_new_tokens,
                prompt=prompt,
                rule=self._rule(len(prompt)) if with_times else None,
                **options,
            )
            tokens = [token async for token in answer]
            length = min(mel.window_frames, total - place) // _FRAMES
            spans, understood = split(tokens, self._no_times + 1, length)
            start = place / _FRAMES
            for span in spans:
                yield SpokenSegment(
                    (start + span.start) * seconds,
                    (start + span.end) * seconds,
                    span.tokens,
                    tuple(token for token in span.tokens if token <= self._no_times),
                )
            if 0 < understood < length:
                place += understood * _FRAMES
            else:  # the whole window; an empty answer would not change with another try
                place += mel.window_frames

    async def _prompt(self, sound: np.ndarray, language: str | None, task: str) -> tuple[int, ...]:
        """Return the tokens for language and task, if the model has several."""
        start = self._model.start
        if not self.languages:
            if language is not None or task != "transcribe":
                raise InputError(
                    f"{self._model.program.name} transcribes one language alone: give neither a "
                    "language nor a task"
                )
            return start
        if task not in self.tasks:
            raise InputError(f"the task {task!r} is not one of {', '.join(self.tasks)}")
        if language is None:
            language = await self.language_of(sound)
        if language not in self.languages:
            raise InputError(f"the language {language!r} is not one of {', '.join(self.languages)}")
        return (*start, self.languages[language], self.tasks[task])

    def _rule(self, prompt: int) -> TimestampRule:
        return TimestampRule(prompt, self._no_times + 1, min(self._model.eos), self._latest)

    def _window(self, features: np.ndarray, place: int) -> np.ndarray:
        """Return the features of a window, (1, bands, frames); zeros follow the end of a sound."""
        part = features[:, place : place + self.features.window_frames]
        missing = self.features.window_frames - part.shape[1]
        return np.pad(part, ((0, 0), (0, missing)))[np.newaxis]
