"""text-to-speech: a text is spoken."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.tasks.encoder import checked_text
from webpte.tasks.files import CONFIG, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.sound.speech.vits_tokens import VitsTokens
from webpte.tasks.task import Task, task

Array = np.ndarray
Draw = Callable[[tuple[int, ...]], Array]
VOCABULARY = "vocab.json"
_ENCODER, _DECODER = "text_encoder", "decoder"
# Words in the names of programs of Kokoro, Supertonic and Phonon.
_OTHERS = ("duration_predictor", "synthesizer", "kokoro", "supertonic", "phonon", "mimi", "vocoder")
_SENTENCE = re.compile(r"[^.!?…。！？\n]*[.!?…。！？\n]*\s*")


@task("text-to-speech", view="speech")
class TextToSpeech(Task):
    """Speaks texts, by VITS (MMS-TTS).

    await task("Good morning.")                      # {"audio": samples, "sampling_rate": 16000}
    async for part in task.stream(long_text): ...    # sentence by sentence

    The program's `text_encoder` takes tokens and noise, and returns how long each token lasts, and
    means and variances of the speech; `decoder` turns these, with noise, into samples.
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, VOCABULARY, TOKENIZER_CONFIG)

    @classmethod
    def refusal(cls, paths: Collection[str]) -> str:
        if not any(word in path.lower() for path in paths for word in _OTHERS):
            return ""
        return (
            "its voice takes phonemes or is made of audio frames, and webpte speaks with VITS "
            "alone (MMS-TTS): load it by webpte.load, and call its methods "
            f"({', '.join(sorted(PurePosixPath(path).stem for path in paths))})"
        )

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        config = files.table(CONFIG)
        self.rate = config.integer("sampling_rate", 16_000, low=1)
        self._noise = config.number("noise_scale", 0.667)
        self._duration_noise = config.number("noise_scale_duration", 0.8)
        self._speed = config.number("speaking_rate", 1.0)
        self._tokens = VitsTokens(files.table(VOCABULARY), files.table(TOKENIZER_CONFIG))
        tokens, *noise = self._shapes(_ENCODER)
        (latents,) = self._shapes(_DECODER)
        if len(tokens) != 2 or [len(one) for one in noise] not in ([], [3]) or len(latents) != 3:
            raise InputError(f"{files.program.name} is not a program for {self.name}")
        self._draws, self._most_tokens, self._most_frames = bool(noise), tokens[1], latents[2]

    def _shapes(self, method: str) -> list[Sequence[int]]:
        """Return the largest shapes that a method takes."""
        info = self.program.methods.get(method)
        if info is None:
            raise InputError(
                f"{self.program.name} is not a program for {self.name}: it has no {method!r}"
            )
        found: list[Sequence[int]] = []
        found += [one.shape for one in info.inputs if isinstance(one, TensorInfo)]
        return found or [()]

    async def __call__(
        self,
        inputs: Any,
        *,
        speaking_rate: float | None = None,
        noise_scale: float | None = None,
        noise_scale_duration: float | None = None,
        seed: int | None = None,
        draw: Draw | None = None,
    ) -> Any:
        """Return {"audio": samples (count,) from -1 to 1, "sampling_rate"}, or a list of them.

        inputs                a text, or a list of texts
        speaking_rate         larger is faster; by default the model's, as the next two
        noise_scale           how much the voice varies; 0: not at all
        noise_scale_duration  how much the lengths of letters vary; 0: not at all
        seed                  the same seed gives the same speech
        draw                  a function that returns normal noise of a shape, in place of `seed`
        """
        speed = _positive(self._speed if speaking_rate is None else speaking_rate, "speaking_rate")
        noise = _finite(self._noise if noise_scale is None else noise_scale, "noise_scale")
        varied = self._duration_noise if noise_scale_duration is None else noise_scale_duration
        varied = _finite(varied, "noise_scale_duration")
        if draw is None:
            draw = np.random.default_rng(seed).standard_normal
        many = isinstance(inputs, list | tuple)
        found = [
            {
                "audio": await self._speak(checked_text(text), speed, noise, varied, draw),
                "sampling_rate": self.rate,
            }
            for text in (inputs if many else [inputs])
        ]
        return found if many else found[0]

    async def stream(self, text: str, **options: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the speech of each sentence: {"audio", "sampling_rate", "text"}.

        options   options of a call
        """
        for sentence in _SENTENCE.findall(checked_text(text)):
            if self._tokens.letters(sentence):
                yield {**await self(sentence, **options), "text": sentence.strip()}

    async def _speak(
        self, text: str, speed: float, noise: float, varied: float, draw: Draw
    ) -> Array:
        tokens = self._tokens.encode(text)
        if not 2 <= len(tokens) <= self._most_tokens:
            raise InputError(
                f"{text[:40]!r} has {len(tokens)} tokens; {self.program.name} speaks 2 to "
                f"{self._most_tokens} at once"
                + ("" if len(tokens) < 2 else ": give shorter texts, or use stream()")
            )
        given = [np.asarray([tokens], np.int64)]
        if self._draws:
            given.append((draw((1, 2, len(tokens))) * varied).astype(np.float32))
        logs, means, variances = await self.program.run(_ENCODER, *given)
        if not np.isfinite(logs).all():
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        lengths = np.maximum(np.ceil(np.exp(logs[0].astype(np.float64)) / speed), 1)
        frames = float(lengths.sum())
        if frames > self._most_frames:
            raise InputError(
                f"the speech of {text[:40]!r} would have {frames:.0f} frames; {self.program.name} "
                f"makes {self._most_frames} at most: give shorter texts, or use stream()"
            )
        times = lengths.astype(np.intp)  # int32 in a browser
        spread = np.exp(np.repeat(variances[0], times, axis=0).T[None])  # (1, width, frames)
        latents = np.repeat(means[0], times, axis=0).T[None]
        latents = latents + draw(latents.shape) * spread * noise
        given = [np.ascontiguousarray(latents.astype(np.float32))]
        (samples,) = await self.program.run(_DECODER, *given)
        if not np.isfinite(samples).all():
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        return np.asarray(samples).reshape(-1)


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{name} is {value!r}; it is a number from 0 on")
    return float(value)


def _positive(value: Any, name: str) -> float:
    if not _finite(value, name):
        raise InputError(f"{name} is 0; it is a number above 0")
    return float(value)
