"""The inputs of each task: a picture, a sound or texts, and the options that the view offers.

`FORMS` has a row for each task of `webpte.tasks` but those with a view of their own; how a result
is shown follows from its fields.
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
    fixed    options that are always the same
    points   whether the call takes points, which are clicked in the picture
    """

    kind: str
    fields: Sequence[Field] = ()
    sliders: Sequence[Slider] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    points: bool = False


_SENTENCE = "What a lovely day in Turin, said Ada."
_LONG = "Ada Lovelace was born in London in 1815. She wrote the first program for a machine."
_TEXT = Field("text", "text", _SENTENCE)
_LABELS = Field("labels", "labels, with commas between", "a cat, a dog, a tree", 1, ",")
_ANY = {"top_k": None, "truncation": True}
_CUT = {"truncation": True}


def _answered(start: str) -> TaskForm:
    return TaskForm(TEXT, (Field("text", "text", start, 5),), fixed=_CUT)


FORMS: Mapping[str, TaskForm] = {
    "text-classification": TaskForm(TEXT, (_TEXT,), fixed=_ANY),
    "token-classification": TaskForm(TEXT, (_TEXT,), fixed={"aggregation_strategy": "simple"}),
    "question-answering": TaskForm(
        TEXT,
        (
            Field("question", "question", "Where was Ada born?", 1, named=True),
            Field("context", "text", _LONG, 5, named=True),
        ),
    ),
    "zero-shot-classification": TaskForm(
        TEXT, (_TEXT, Field("labels", _LABELS.label, "weather, money, travel", 1, ","))
    ),
    "fill-mask": TaskForm(TEXT, (Field("text", "text with [MASK]", "Rome is a [MASK].", 2),)),
    "feature-extraction": TaskForm(TEXT, (_TEXT,), fixed={"pooling": "mean", **_CUT}),
    "reranking": TaskForm(
        TEXT,
        (
            Field("query", "query", "animals that live with people", 1),
            Field(
                "documents",
                "texts, one in each line",
                "A cat sleeps on the sofa.\nThe shop opens at nine.\nWolves hunt in packs.",
                6,
                "\n",
            ),
        ),
    ),
    "text2text-generation": _answered(_LONG),
    "summarization": _answered(_LONG),
    "translation": _answered(_SENTENCE),
    "image-classification": TaskForm(PICTURE, fixed={"top_k": 10}),
    "image-feature-extraction": TaskForm(PICTURE),
    "object-detection": TaskForm(PICTURE, sliders=(Slider("threshold", "score above", 0.5),)),
    "depth-estimation": TaskForm(PICTURE),
    "image-segmentation": TaskForm(PICTURE),
    "mask-generation": TaskForm(PICTURE, points=True),
    "zero-shot-image-classification": TaskForm(PICTURE, (_LABELS,)),
    "zero-shot-object-detection": TaskForm(
        PICTURE, (_LABELS,), (Slider("threshold", "score above", 0.1),)
    ),
    "image-to-image": TaskForm(PICTURE),
    "background-removal": TaskForm(PICTURE),
    "image-text-to-text": TaskForm(
        PICTURE,
        (Field("text", "question", "What is in the picture?", 2, named=True),),
        fixed={"return_full_text": False},
    ),
    "optical-character-recognition": TaskForm(
        PICTURE, sliders=(Slider("text_score", "score of lines above", 0.5),)
    ),
    "audio-classification": TaskForm(SOUND, fixed={"top_k": 10}),
    "voice-activity-detection": TaskForm(
        SOUND,
        sliders=(Slider("threshold", "probability of speech above", 0.5),),
        fixed={"return_seconds": True},
    ),
    "audio-to-midi": TaskForm(
        SOUND,
        sliders=(
            Slider("onset_threshold", "probability of a note's start above", 0.5, 0.05, 0.95),
            Slider("frame_threshold", "probability of a note above", 0.3, 0.05, 0.95),
            Slider("minimum_note_length", "shortest note in ms", 127.7, 30, 500, 0.1),
        ),
    ),
}
# Tasks that other views show, by the name of the view.
ELSEWHERE = {
    "automatic-speech-recognition": "speech",
    "text-to-speech": "speech",
    "retrieval": "documents",
    "text-generation": "chat",
}
