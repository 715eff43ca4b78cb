"""Speech to text with models that give letters for each frame of a sound (CTC): wav2vec 2.0."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.files.json_reader import Table
from webpte.errors import ExecutionError, InputError
from webpte.llm.text import Tokenizer
from webpte.program import Program
from webpte.tasks.sound.speech.whisper import SpokenSegment
from webpte.tasks.sound.speech.windows import check_one_language, windows_of

_METHOD = "forward"
_BLANK, _SPACE = "<pad>", "|"
_LEAST_VARIANCE = 1e-7
_LEAST_STEP = 20  # samples of a frame: a telephone's sound has 160 in one of 20 ms


def hears_letters(methods: Mapping[str, MethodInfo]) -> bool:
    """Return whether `forward` takes samples (1, count) and returns logits (1, frames, letters)."""
    info = methods.get(_METHOD)
    shapes = [
        one.shape
        for one in (() if info is None else (*info.inputs, *info.outputs))
        if isinstance(one, TensorInfo) and one.dtype.startswith("float")
    ]
    if info is None or [len(shape) for shape in shapes] != [2, 3] or len(info.inputs) != 1:
        return False
    (sounds, samples), (texts, frames, _) = shapes
    return sounds == texts == 1 and samples >= _LEAST_STEP * frames and len(info.outputs) == 1


class Ctc:
    """A program whose `forward` takes samples (1, count) and returns logits (1, frames, letters).

    rate            samples of a second
    window_samples  the longest sound per call
    languages       empty: the model knows a single language
    """

    languages: Mapping[str, int] = {}

    def __init__(self, program: Program, settings: Table, tokenizer: Tokenizer) -> None:
        """`settings` is the content of preprocessor_config.json."""
        self._program, self._tokenizer = program, tokenizer
        self.rate = settings.integer("sampling_rate", 16_000, low=1)
        self._normalizes = settings.flag("do_normalize", True)
        info = program.methods[_METHOD]
        (taken,), (letters,) = info.inputs, info.outputs
        assert isinstance(taken, TensorInfo)  # see hears_letters
        assert isinstance(letters, TensorInfo)
        self._dtype = taken.array_dtype
        self._shortest, self.window_samples = taken.bounds[1]
        self._letters = letters.shape[2]
        blank = self._id_of("pad_token", _BLANK)
        if blank is None:
            raise InputError("the tokenizer has no pad_token, which stands for no letter")
        self._blank, self._space = blank, self._id_of("word_delimiter_token", _SPACE)

    def _id_of(self, role: str, usual: str) -> int | None:
        return self._tokenizer.id_of(self._tokenizer.special.get(role, usual))

    async def transcribe(
        self,
        samples: np.ndarray,
        *,
        language: str | None = None,
        task: str = "transcribe",
        **_: Any,
    ) -> AsyncIterator[SpokenSegment]:
        """Yield the text of a sound: samples from -1 to 1, `rate` a second.

        A sound longer than a window is cut at quiet places, and each part is a segment.
        """
        check_one_language(self._program.name, language, task)
        sound = np.asarray(samples, np.float32).reshape(-1)
        said = False
        for start, end in windows_of(sound, self.window_samples, self.rate):
            tokens = await self._tokens(sound[start:end])
            if said and tokens and self._space is not None:
                tokens = (self._space, *tokens)
            said = said or bool(tokens)
            yield SpokenSegment(start / self.rate, end / self.rate, tokens, tokens)

    async def _tokens(self, part: np.ndarray) -> tuple[int, ...]:
        """Return the letters of a part of a sound: repeated numbers once, without the blank."""
        size = max(len(part), self._shortest)
        if self._normalizes:
            part = (part - part.mean()) / np.sqrt(part.var() + _LEAST_VARIANCE)
        given = np.pad(part, (0, size - len(part)))[np.newaxis].astype(self._dtype)
        (logits,) = await self._program.run(_METHOD, given)
        if not np.isfinite(logits).all():
            raise ExecutionError(f"{self._program.name} returned NaN or infinities")
        frames = -(-logits.shape[1] * len(part) // size)  # the others are of the padding
        numbers = logits[0, :frames].argmax(axis=1)
        starts = np.append(True, numbers[1:] != numbers[:-1]) & (numbers != self._blank)
        found = numbers[starts].tolist()
        while found and found[0] == self._space:
            found.pop(0)
        while found and found[-1] == self._space:
            found.pop()
        return tuple(found)

    def compiled(self) -> dict[str, Any]:
        """Return the preparation of sounds and the texts as a compiled program describes them."""
        labels = [self._tokenizer.decode([number]) for number in range(self._letters)]
        given = {"kind": "speech", "rate": self.rate, "normalizes": self._normalizes}
        result = {"kind": "letters", "labels": labels, "blank": self._blank, "outputs": [0]}
        return {"method": _METHOD, "input": given, "outputs": [result]}
