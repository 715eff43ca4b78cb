"""The task of a compiled program: how inputs are prepared, and how results follow from outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.compiling.card_task import card_task, titles
from webpte.engine.call.info import TensorInfo
from webpte.engine.call.options import Options
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.errors import InputError
from webpte.llm.text import encodes_sentences
from webpte.loading import load
from webpte.program import Program
from webpte.tasks import bind
from webpte.tasks import open as open_task
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG
from webpte.tasks.vision.scaling.rule import FIT, STRETCH

Table = dict[str, Any]
SIDES = (128, 256, 512)  # of pictures that keep their proportions
_SHORTEST_POWER, _LONGEST = 3, 512  # tokens of texts: the least power of two, and the most
_ROWS = 8  # texts of a call
_SOUNDS = 6  # lengths of sounds
_TEXTS = ("text", "sentences", "spoken")  # kinds of input with a tokenizer
_TOKENIZERS = (TOKENIZER, TOKENIZER_CONFIG)


@dataclass(frozen=True)
class Opener:
    """A program to compile, and its task: the arguments of `webpte.compile`."""

    source: Any
    data: Sequence[Any]
    name: str | None
    task: str | Mapping[str, Any] | None
    labels: Sequence[str]
    more: Mapping[str, bytes]

    async def open(self, device: RecordingDevice) -> tuple[Program, Table | None]:
        """Load the program on a device; return it with the table of its task, if it has one."""
        options = Options(tuned=False)
        if isinstance(self.task, str):
            if self.data or self.name:
                raise InputError(f"{self.task}: a task has its own files: leave out data and name")
            made = await open_task(
                self.task, self.source, device=device, options=options, strict=True
            )
            try:
                return made.program, self._with_tokenizer(made.compiled())
            except BaseException:
                made.close()
                raise
        program = await load(
            self.source,
            data=self.data,
            strict=True,
            name=self.name,
            device=device,
            options=options,
        )
        if self.task is None:
            return program, None
        if TOKENIZER in self.more and encodes_sentences(program.methods):
            return program, await self._sentences(program, self.task)
        info = program.methods.get("forward") or next(iter(program.methods.values()))
        return program, card_task(self.task, info, self.labels)

    async def _sentences(self, program: Program, card: Mapping[str, Any]) -> Table:
        """Return the task of a sentence encoder with a tokenizer, as its card calls it."""
        files = {name: self.more[name] for name in _TOKENIZERS if name in self.more}
        made = (await bind("feature-extraction", program, files)).compiled()
        made["input"] |= {"pad": 0, "examples": list(card.get("questions") or ())[:1]}
        return self._with_tokenizer({**titles(card), **made})

    def text_task(self, card: Table | None) -> Table | None:
        """Return the task of a language model: texts, if there is a tokenizer."""
        if TOKENIZER not in self.more:
            return None
        task = {**titles(card or {}), "input": {"kind": "text"}, "outputs": [{"kind": "text"}]}
        return self._with_tokenizer(task)

    def _with_tokenizer(self, task: Table) -> Table:
        """Return a task with the files of its tokenizer, if it takes texts."""
        given = task["input"]
        if given["kind"] not in _TEXTS:
            return task
        if TOKENIZER not in self.more:
            raise InputError(
                f"{task['name']} takes texts: give its {TOKENIZER} as one of `more`, or use "
                "`serve.py compile`, which finds it"
            )
        config = TOKENIZER_CONFIG if TOKENIZER_CONFIG in self.more else None
        return {**task, "input": {**given, "tokenizer": TOKENIZER, "config": config}}


def task_examples(task: Table, program: Program) -> dict[str, list[list[Any]]]:
    """Return example calls: a picture, or rows of tokens, in each size that a program takes."""
    name, given = task["method"], task["input"]
    infos = program.methods[name].inputs
    if given["kind"] == "sentences":
        return {name: _token_examples(given["longest"], infos)}
    if given["kind"] == "spoken" and given["frames"] is not None:
        return {name: _sound_examples(given["longest"], given["frames"], infos[0])}
    if given["kind"] not in ("picture", "drawing"):
        return {}
    (info,) = infos
    assert isinstance(info, TensorInfo)
    rule = given["rule"]
    if rule["part"] or rule["scaled"] in (STRETCH, FIT):
        wanted = [tuple(rule["part"] or rule["size"])]
    else:
        wanted = [(side, side) for side in SIDES]
    examples = []
    for height, width in wanted:
        sizes = {"N": 1, "C": given["channels"], "H": height, "W": width}
        shape = tuple(sizes[dim] for dim in given["layout"])
        limits = zip(shape, info.bounds, strict=True)
        if all(low <= size <= high for size, (low, high) in limits):
            examples.append([np.zeros(shape, info.array_dtype)])
    return {name: examples} if examples else {}


def _sound_examples(longest: int, rule: Sequence[int], info: Any) -> list[list[Any]]:
    """Return example calls of whole frames: the longest sound, half of it, and so on."""
    frame, first, least = rule
    frames, found = (longest - first) // frame, list[list[Any]]()
    while frames >= least and len(found) < _SOUNDS:
        found.append([np.zeros((1, frames * frame + first), info.array_dtype)])
        frames //= 2
    return found


def _token_examples(longest: int, infos: Sequence[Any]) -> list[list[Any]]:
    """Return example calls with few rows and with many, of lengths that are powers of two."""
    (fewest, most), (shortest, _) = infos[0].bounds
    longest = min(longest, _LONGEST)
    powers = [1 << power for power in range(_SHORTEST_POWER, longest.bit_length() + 1)]
    lengths = sorted({max(shortest, min(length, longest)) for length in [*powers, longest]})
    counts = sorted({fewest, max(fewest, min(most, _ROWS))})
    return [
        [np.zeros((rows, length), one.array_dtype) for one in infos]
        for rows in counts
        for length in lengths
    ]


def fitted(task: Table, examples: Mapping[str, Any]) -> Table:
    """Return a task whose texts are no longer than the longest example calls."""
    given = task["input"]
    if given["kind"] != "sentences":
        return task
    longest = max(call[0].shape[1] for call in examples[task["method"]])
    return {**task, "input": {**given, "longest": min(given["longest"], longest)}}
