"""Examples by class, and the progress of learning them; they outlive the program."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from page.shared.npy import Array
from page.shared.outputs.pictures import png_rgb
from page.views.teach.drawings import centred

FEWEST, MOST = 2, 5  # classes
MOST_EXAMPLES = 40  # of a class: more do not help, and all are on the page
NAMES = ("A", "B", "C", "D", "E")
STEPS = 60


@dataclass(frozen=True, eq=False)
class Example:
    """A centred drawing (height, width) of 0 to 1, and its picture as a data URL."""

    drawing: Array
    picture: str


@dataclass(eq=False)
class Kind:
    """A class: its name and its examples."""

    name: str
    examples: list[Example] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, drawings: Sequence[Array]) -> Kind:
        """Return a class with centred drawings."""
        return cls(name, [Example(drawing, _picture(drawing)) for drawing in drawings])


@dataclass(eq=False)
class Lesson:
    """Classes with their examples, and the classifier learned from them.

    weights  the result of learning; None before
    losses   of every step since the last reset
    """

    kinds: list[Kind] = field(default_factory=lambda: [Kind(name) for name in NAMES[:FEWEST]])
    weights: dict[str, Array] | None = None
    losses: list[float] = field(default_factory=list)
    steps: int = STEPS  # of the next learning

    @property
    def ready(self) -> str:
        """The reason why nothing can be learned yet; empty if it can."""
        bare = [kind.name for kind in self.kinds if not kind.examples]
        return f"Draw at least one example of {' and of '.join(bare)}." if bare else ""

    def add_kind(self) -> None:
        if len(self.kinds) < MOST:
            taken = {kind.name for kind in self.kinds}
            self.kinds.append(Kind(next(name for name in NAMES if name not in taken)))

    def add(self, at: int, drawing: Array) -> None:
        examples = self.kinds[at].examples
        moved = centred(drawing)
        examples.append(Example(moved, _picture(moved)))
        del examples[:-MOST_EXAMPLES]  # drops the oldest

    def forget(self) -> None:
        """Drop the learned classifier; the examples stay."""
        self.weights = None
        self.losses = []

    def all(self) -> tuple[Array, list[int]]:
        """Return all pictures (n, 1, height, width), and the class of each."""
        pictures = [one.drawing for kind in self.kinds for one in kind.examples]
        labels = [at for at, kind in enumerate(self.kinds) for _ in kind.examples]
        return np.stack(pictures)[:, None].astype(np.float32), labels

    def likely(self, logits: Array) -> list[float]:
        """Return the probability of each class in use."""
        used = logits[: len(self.kinds)].astype(np.float64)
        powers = np.exp(used - used.max())
        return [float(share) for share in powers / powers.sum()]


def _picture(drawing: Array) -> str:
    grey = np.round(255 * drawing).astype(np.uint8)
    data = base64.b64encode(png_rgb(np.repeat(grey[..., None], 3, 2))).decode()
    return f"data:image/png;base64,{data}"
