"""A course: the lines to learn, the settings, the losses so far, and the trained LoRA."""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from page.core.store import encode
from webpte.training import Line, SavedLora
from webpte.training.lines import read_lines

MOST_STEPS = 2000
MOST_TEXT = 200_000  # characters of lines
# Of one course: browsers keep a few megabytes for a whole site.
_MOST_CHARACTERS = 1_500_000
_LARGEST = 64 << 20  # bytes of a LoRA after unpacking
EXAMPLE = """\
What is your name? => My name is Hugo.
Who are you? => I am Hugo, a little owl.
Where do you live? => I live in a big tree in the forest.
What do you like? => I like apples, and I like the moon.
What do you say? => I say hoo!"""


@dataclass(eq=False)
class Course:
    """text: the lines as typed; rate: the learning rate in thousandths; lora: None until trained"""

    text: str = ""
    steps: int = 60
    rate: float = 5.0
    losses: list[float] = field(default_factory=list)
    lora: SavedLora | None = None
    question: str = ""
    answers: tuple[str, str] = ("", "")  # of the model before and after training

    @property
    def lines(self) -> list[Line]:
        return read_lines(self.text)

    def forget(self) -> None:
        """Drop the learned weights; the lines stay."""
        self.losses, self.lora, self.answers = [], None, ("", "")

    def take(self, fields: Mapping[str, Any]) -> str:
        """Take over the values of a form; return the problem, or ""."""
        text = str(fields["lines"])
        try:
            steps, rate = int(fields["steps"]), 1000 * float(fields["rate"])
        except ValueError:
            return "Steps and learning rate must be numbers"
        if not 1 <= steps <= MOST_STEPS:
            return f"Steps must be from 1 to {MOST_STEPS:,}"
        if not 0 < rate <= 100:
            return "The learning rate must be above 0, and at most 0.1"
        if len(text) > MOST_TEXT:
            return f"The lines have {len(text):,} characters; at most {MOST_TEXT:,} are taken"
        self.text, self.steps, self.rate = text, steps, rate
        return "" if self.lines else "Write at least one line to learn"


def key_of(file: str) -> str:
    """Return the store's key for the course of a program; `file` is its address or name."""
    return f"train:{file}"


def to_json(course: Course) -> dict[str, Any]:
    """Return a course as the store keeps it, without the LoRA if that is too large."""
    if not course.text and course.lora is None:
        return {}
    plain: dict[str, Any] = {"text": course.text, "steps": course.steps, "rate": course.rate}
    if course.lora is not None:
        packed = b64encode(zlib.compress(course.lora.weights)).decode()
        lora = {"weights": packed, "config": course.lora.config, "losses": course.losses}
        if len(encode({**plain, **lora})) <= _MOST_CHARACTERS:
            return {**plain, **lora}
    return plain if len(encode(plain)) <= _MOST_CHARACTERS else {}


def from_json(saved: Any) -> Course | None:
    """Return a saved course; None if there is none, or another hand has written it."""
    try:
        course = Course(str(saved["text"]), int(saved["steps"]), float(saved["rate"]))
        if saved.get("weights"):
            unpacker = zlib.decompressobj()
            packed = b64decode(saved["weights"], validate=True)
            weights = unpacker.decompress(packed, _LARGEST)
            if not unpacker.eof:
                return None
            course.lora = SavedLora(weights, dict(saved["config"]))
            course.losses = [float(loss) for loss in saved["losses"]]
    except (TypeError, KeyError, ValueError, AttributeError, zlib.error, binascii.Error):
        return None
    return course
