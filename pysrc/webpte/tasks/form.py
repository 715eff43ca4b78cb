"""The form of a task: its inputs with an example, and the options that a page offers.

Each task declares its own: `@task("fill-mask", form=TaskForm(TEXT, (...)))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PICTURE, SOUND, TEXT = "picture", "sound", "text"


@dataclass(frozen=True)
class Field:
    """A text that a task is called with.

    name     of the argument
    label    on the page
    start    the text that is there at first
    rows     of the field; 1: one line
    split    between items, if the argument is a list
    named    it is given by its name, not by its place
    """

    name: str
    label: str
    start: str = ""
    rows: int = 3
    split: str = ""
    named: bool = False

    def value(self, text: str) -> Any:
        """Return the argument for a typed text."""
        if not self.split:
            return text
        return [item.strip() for item in text.split(self.split) if item.strip()]


@dataclass(frozen=True)
class Slider:
    """An option of a task that is a number."""

    name: str
    label: str
    start: float
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01


@dataclass(frozen=True)
class TaskForm:
    """The inputs and options of a task.

    kind     PICTURE, SOUND, or TEXT if it takes nothing but texts
    fields   texts that it is called with, each with an example
    sliders  options that are numbers
    fixed    options that are always the same
    points   whether the call takes points, which are clicked in the picture
    progress whether the call takes progress(done, total), for work that takes seconds
    """

    kind: str
    fields: Sequence[Field] = ()
    sliders: Sequence[Slider] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    points: bool = False
    progress: bool = False


SENTENCE = "What a lovely day in Turin, said Ada."
PASSAGE = "Ada Lovelace was born in London in 1815. She wrote the first program for a machine."
LABELS = Field("labels", "labels, with commas between", "a cat, a dog, a tree", 1, ",")


def text_form(start: str = SENTENCE, rows: int = 3, **fixed: Any) -> TaskForm:
    """Return the form of a task that takes one text; `fixed` are options for the page."""
    return TaskForm(TEXT, (Field("text", "text", start, rows),), fixed=fixed)
