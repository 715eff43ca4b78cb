"""Speech to text with Whisper: windows of a sound in turn, each with an answer in tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import InputError
from webpte.llm.generation import GenerationOptions
from webpte.llm.program_signature import DECODER, ENCODER, takes_tokens
from webpte.llm.seq2seq import Seq2Seq
from webpte.program import Program
from webpte.tasks.sound.speech.log_mel import LogMel
from webpte.tasks.sound.speech.timestamps import TimestampRule, split
from webpte.tasks.sound.speech.whisper_parts import WhisperParts

_FRAMES = 2  # per timestamp: the encoder's convolutions halve their number
_POSITIONS = 448  # of tokens, in all of Whisper's decoders
# Methods that encode and decode: of exports here and by optimum-executorch, of software-mansion,
# and of models in two programs.
_PAIRS = ((ENCODER, DECODER), ("encode", "decode"), ("encoder", "decoder"))


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
        self._model = model = _model_of(program)
        if model.is_text:
            raise InputError(f"{program.name} takes tokens, not features of sounds")
        self.features: LogMel | SampleFrames = features
        if len(model.source.shape) < 3:
            self.features = SampleFrames.of(model.source, features)
        elif model.max_source != features.window_frames:
            raise InputError(
                f"{program.name} takes windows of {model.max_source} frames, but the features of a "
                f"window are {features.window_frames}"
            )
        self._start = model.start or (table.integer("decoder_start_token_id"),)
        self._ends = model.eos or frozenset({table.integer("eos_token_id")})
        self._longest = table.integer("max_length", _POSITIONS, low=1)
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
        rule = _AllowedTokens(tuple(names))
        answer = self._model.generate(window, 1, prompt=self._start, rule=rule)
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
        context = min(self._longest, self._model.max_context or self._longest)
        room = max(1, context - len(prompt))
        seconds = _FRAMES * mel.hop / mel.rate  # per timestamp
        while place < total:
            answer = self._model.generate(
                self._window(features, place),
                room if max_new_tokens is None else max_new_tokens,
                prompt=prompt,
                stop=self._ends,
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
        start = self._start
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

    def compiled(self) -> dict[str, Any] | None:
        """Return the features and the answers as a compiled program describes them.

        None for programs of other forms than Hugging Face's.
        """
        model, mel = self._model, self.features
        if not isinstance(model, Seq2Seq) or not isinstance(mel, LogMel):
            return None
        more = 2 if self.languages else 0  # language and task; then possibly: no timestamps
        prompts = {len(self._start), len(self._start) + more, len(self._start) + more + 1}
        made = model.compiled(sorted(prompts))
        decoder = {
            **made["decoder"],
            "prompt": list(self._start),
            "ends": sorted({*self._ends, *model.eos}),
            "end": min(self._ends),
            "context": min(self._longest, model.max_context or self._longest),
            "speed": None,
            "languages": self.languages,
            "tasks": self.tasks,
            "times": [self._no_times + 1, self._latest],
        }
        features = {name: getattr(mel, name) for name in ("bands", "fft", "hop")}
        given = {
            "kind": "spoken",
            "rate": self.rate,
            "longest": self.window_samples,
            "frames": None,
            "features": features,
        }
        return {**made, "input": given, "decoder": decoder}

    def _rule(self, prompt: int) -> TimestampRule:
        return TimestampRule(prompt, self._no_times + 1, min(self._ends), self._latest)

    def _window(self, features: np.ndarray, place: int) -> np.ndarray:
        """Return the features of a window, (1, bands, frames); zeros follow the end of a sound."""
        part = features[:, place : place + self.features.window_frames]
        missing = self.features.window_frames - part.shape[1]
        window = np.pad(part, ((0, 0), (0, missing)))[np.newaxis]
        return window if isinstance(self.features, LogMel) else self.features.joined(window)


@dataclass(frozen=True)
class SampleFrames:
    """Samples in frames, for a model that makes features of sounds by itself.

    shape   of the model's input
    """

    rate: int
    hop: int
    window_frames: int
    shape: tuple[int, ...]

    @classmethod
    def of(cls, source: TensorInfo, features: LogMel) -> SampleFrames:
        """Return the frames of a model's input, at most of a window of these features."""
        most = min(source.shape[-1], features.window_samples)
        frames = most // (_FRAMES * features.hop) * _FRAMES
        if not frames or (not source.dynamic and source.shape[-1] % features.hop):
            raise InputError(f"sounds of {source} are not windows of Whisper")
        shape = (*source.shape[:-1], frames * features.hop)
        return cls(features.rate, features.hop, frames, shape)

    @property
    def window_samples(self) -> int:
        return self.window_frames * self.hop

    def features(self, samples: np.ndarray) -> np.ndarray:
        """Return the frames of a sound, (hop, frames); silence fills a window."""
        sound = np.asarray(samples, np.float32).reshape(-1)
        if sound.size and not np.isfinite(sound).all():
            raise InputError("a sound has samples that are infinite or not a number")
        missing = max(self.window_samples - sound.size, -sound.size % self.hop)
        return np.pad(sound, (0, missing)).reshape(-1, self.hop).T

    def joined(self, frames: np.ndarray) -> np.ndarray:
        """Return the samples of frames (1, hop, count), as the model takes them."""
        return np.ascontiguousarray(frames[0].T).reshape(self.shape)


@dataclass(frozen=True)
class _AllowedTokens:
    """A rule that leaves the logits of some tokens."""

    tokens: tuple[int, ...]

    def __call__(self, history: Sequence[int], logits: np.ndarray) -> np.ndarray:
        found = np.full(logits.shape, -np.inf)
        found[list(self.tokens)] = logits[list(self.tokens)]
        return found


def _model_of(program: Program) -> Seq2Seq | WhisperParts:
    """Return the model of a program, by its methods for encoding and decoding."""
    methods = program.methods
    for encoder, decoder in _PAIRS:
        if encoder in methods and decoder in methods:
            taken = len(methods[decoder].inputs) - 2
            if takes_tokens(methods[decoder], True) and taken == len(methods[encoder].outputs):
                return Seq2Seq(program, encoder, decoder)
    return Seq2Seq(program) if DECODER in methods else WhisperParts(program)
