"""Tasks of text encoders: texts become sequences of tokens, which go through a program.

The program's inputs are tokens, then possibly their mask (0 for padding), then possibly their
types, each (texts, length); `serve.py export --task` makes such programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import InputError, UnsupportedError, VocabularyError
from webpte.llm.text import Tokenizer
from webpte.llm.text.batches import RowBatches
from webpte.llm.text.sequences import (
    LONGEST,
    EncodedText,
    TokenSequence,
    cut_texts,
    encode_text,
    join_texts,
    room_for,
)
from webpte.tasks.files import CONFIG, TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.task import Task

Array = np.ndarray
METHOD = "forward"
_MOST_INPUTS = 3


class TextTask(Task):
    """A task of an encoder of text.

    ranks   the allowed numbers of dims of its outputs
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, TOKENIZER)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG,)
    ranks: ClassVar[Sequence[Sequence[int]]] = ((2,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # always there: it is needed
        self.tokenizer: Tokenizer = files.tokenizer
        self.config = files.table(CONFIG)
        self._batches = RowBatches(files.program, METHOD)
        self.outputs = self._outputs()
        if self._batches.inputs > _MOST_INPUTS:
            self.refuse("it must take tokens, their mask and their types, or fewer of them")
        words = self.config.integer("vocab_size", None)
        if words is not None and self.tokenizer.vocabulary > words:
            raise VocabularyError(
                f"the tokenizer's tokens go up to {self.tokenizer.vocabulary - 1}, but the model "
                f"knows only {words}: they do not belong together"
            )
        self._pad = self.tokenizer.id_of(self.tokenizer.special.get("pad_token", "[PAD]")) or 0
        self.longest = self._longest()

    def _outputs(self) -> list[TensorInfo]:
        found = [
            one
            for one in self.program.methods[METHOD].outputs
            if isinstance(one, TensorInfo) and "float" in one.dtype
        ]
        ranks = [len(one.shape) for one in found]
        fit = len(ranks) == len(self.ranks) and all(
            rank in allowed for rank, allowed in zip(ranks, self.ranks, strict=True)
        )
        if not fit:
            told = "; ".join(map(str, self.program.methods[METHOD].outputs)) or "nothing"
            self.refuse(f"it returns {told}")
        return found

    def refuse(self, why: str) -> NoReturn:
        """Raise InputError: the program does not fit the task."""
        raise InputError(f"{self.program.name} is not a program for {self.name}: {why}")

    def _longest(self) -> int:
        stated = self.files.table(TOKENIZER_CONFIG).number("model_max_length", None)
        # Tokenizers without a limit state a huge number.
        return self._batches.longest if stated is None else int(min(stated, self._batches.longest))

    def sequence(
        self,
        texts: Sequence[str],
        *,
        cut: str | None = None,
        length: int | None = None,
        places: bool = False,
    ) -> TokenSequence:
        """Return the sequence of a text or two.

        cut     how long texts are cut: see `cut_texts`; None raises InputError
        length  the largest number of tokens; by default the model's
        """
        encoded = [self.encode(text, places) for text in texts]
        longest = self.longest if length is None else min(length, self.longest)
        room = room_for(self.tokenizer, len(texts), longest)
        if cut is not None:
            encoded = cut_texts(encoded, room, cut)
        count = sum(len(text.tokens) for text in encoded)
        if count > room:
            raise InputError(
                f"{texts[0][:40]!r} has {count + longest - room} tokens; {self.program.name} takes "
                f"{longest}: give a shorter text, or truncation=True to cut it"
            )
        return join_texts(self.tokenizer, encoded)

    def described(self, result: Mapping[str, Any], pairs: bool = False) -> dict[str, Any]:
        """Return the task of single texts as a compiled program describes it.

        result  how results follow from the output
        pairs   whether the task takes pairs of texts, too

        Raises UnsupportedError for a program whose results would depend on padding.
        """
        (output,), info = self.outputs, self.program.methods[METHOD]
        first = info.inputs[0]
        assert isinstance(first, TensorInfo)  # as all of its inputs are
        shortest, longest = first.bounds[1]
        if len(output.shape) == 3 and len(info.inputs) == 1 and shortest < longest:
            raise UnsupportedError(
                f"{self.name} of {self.program.name} cannot be compiled: calls are padded, and the "
                "program takes no mask of the padding; export it with a mask, as `serve.py export "
                "--task` does, or compile the program alone"
            )
        frame = [[part.token, part.kind] for part in self.tokenizer.frame()]
        given: dict[str, Any] = {
            "kind": "sentences",
            "frame": frame,
            "pad": self._pad,
            "longest": self.longest,
        }
        if pairs:
            parts = self.tokenizer.frame(pair=True)
            given["pair"] = [[part.token, part.kind, part.text] for part in parts]
        outputs = [{**result, "outputs": [info.outputs.index(output)]}]
        return {"name": self.name, "method": METHOD, "input": given, "outputs": outputs}

    def encode(self, text: str, places: bool = False) -> EncodedText:
        """Return the tokens of a text; raise InputError for other values."""
        return encode_text(self.tokenizer, checked_text(text), places)

    async def run(self, sequences: Sequence[TokenSequence]) -> list[tuple[Array, ...]]:
        """Return the program's outputs for each sequence, without the rows of padding."""
        columns: list[Sequence[Sequence[int]]] = [
            [one.tokens for one in sequences],
            [[1] * len(one) for one in sequences],
            [one.kinds for one in sequences],
        ]
        count = self._batches.inputs
        found = await self._batches.run(columns[:count], (self._pad, 0, 0)[:count])
        by_token = [len(info.shape) > 2 for info in self.outputs]
        return [
            tuple(
                (out[: len(one)] if each else out).astype(np.float32, copy=False)
                for out, each in zip(outputs, by_token, strict=True)
            )
            for outputs, one in zip(found, sequences, strict=True)
        ]


def checked_text(text: Any) -> str:
    """Return a text; raise InputError for other values."""
    if not isinstance(text, str):
        raise InputError(f"a text is a str, not a {type(text).__name__}")
    return text


def cutting(truncation: Any) -> str | None:
    """Return the way in which texts are cut, for the option `truncation` of pipelines."""
    if truncation is False or truncation is None:
        return None
    if truncation is True:
        return LONGEST
    raise InputError(f"truncation is {truncation!r}; give True to cut long texts, or False")
