"""The task of a compiled program: how inputs are prepared, and how results follow from outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.compiling.card_task import card_task
from webpte.engine.call.info import TensorInfo
from webpte.engine.call.options import Options
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.errors import InputError
from webpte.loading import load
from webpte.program import Program
from webpte.tasks import open as open_task
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG
from webpte.tasks.vision.scaling.rule import FIT, STRETCH

Table = dict[str, Any]
SIDES = (128, 256, 512)  # of pictures that keep their proportions


@dataclass(frozen=True)
class Opener:
    """A program to compile, and its task: the arguments of `webpte.compile`."""

    source: Any
    data: Sequence[Any]
    name: str | None
    task: str | Mapping[str, Any] | None
    labels: Sequence[str]
    more: frozenset[str]

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
                return made.program, made.compiled()
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
        info = program.methods.get("forward") or next(iter(program.methods.values()))
        return program, card_task(self.task, info, self.labels)

    def text_task(self, card: Table | None) -> Table | None:
        """Return the task of a language model: texts, if there is a tokenizer."""
        if TOKENIZER not in self.more:
            return None
        config = TOKENIZER_CONFIG if TOKENIZER_CONFIG in self.more else None
        named = {key: one for key, one in (card or {}).items() if key in ("title", "about")}
        given = {"kind": "text", "tokenizer": TOKENIZER, "config": config}
        return {**named, "input": given, "outputs": [{"kind": "text"}]}


def task_examples(task: Table, program: Program) -> dict[str, list[list[Any]]]:
    """Return example calls for a single picture, in each size that the program is to take."""
    name, given = task["method"], task["input"]
    if given["kind"] not in ("picture", "drawing"):
        return {}
    (info,) = program.methods[name].inputs
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
