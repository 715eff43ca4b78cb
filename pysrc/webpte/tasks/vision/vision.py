"""Results of vision models, decoded from their output tensors: faces and lines of text.

boxes, scores = await program.forward(picture)              # MediaPipe's face detection
for face in webpte.vision.faces(boxes[0], scores[0, :, 0], anchors, side=128):
    print(face.score, face.box)

(letters,) = await program.forward(line)                    # PP-OCR's recognition
print(webpte.vision.line_of(letters[0], labels).text)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.errors import InputError

Array = np.ndarray
Box = tuple[float, float, float, float]

LEAST_SCORE, MOST_OVERLAP = 0.5, 0.3
__all__ = ["Face", "Letter", "Line", "faces", "line_of", "overlap"]

_BOX = 4  # numbers of a box; points follow


@dataclass(frozen=True)
class Face:
    """A detected face; coordinates are fractions of the picture's width and height.

    score   probability, 0 to 1
    box     left, top, right, bottom
    points  (x, y): eyes, nose, mouth and ears
    """

    score: float
    box: Box
    points: tuple[tuple[float, float], ...] = ()


def faces(
    boxes: Array,
    scores: Array,
    anchors: Array,
    side: int,
    *,
    least_score: float = LEAST_SCORE,
    most_overlap: float = MOST_OVERLAP,
) -> list[Face]:
    """Return the faces, the likeliest first; only the likeliest of overlapping boxes is kept.

    boxes    (anchors, 4 + 2 * points): x, y, width and height, then points, in pixels from the
             anchor
    scores   (anchors,): logits
    anchors  (anchors, 2): x and y as fractions of the picture
    side     width and height of the model's input picture, in pixels
    """
    count = len(anchors)
    points = boxes.shape[-1] - _BOX if boxes.ndim == 2 else -1
    fitting = boxes.shape[:1] == scores.shape == (count,) and anchors.shape == (count, 2)
    if not fitting or points < 0 or points % 2 or side < 1:
        raise InputError(
            f"boxes {list(boxes.shape)} and scores {list(scores.shape)} are not those of "
            f"{count} anchors {list(anchors.shape)} in a picture of {side} pixels"
        )
    likely = 1 / (1 + np.exp(-scores.astype(np.float64).clip(-100, 100)))
    order = np.argsort(-likely, kind="stable")
    found: list[Face] = []
    for at in order[likely[order] >= least_score]:
        face = _face(float(likely[at]), boxes[at].astype(np.float64) / side, anchors[at])
        if all(overlap(face.box, other.box) <= most_overlap for other in found):
            found.append(face)
    return found


def _face(score: float, numbers: Array, anchor: Array) -> Face:
    x, y = numbers[:2] + anchor
    width, height = numbers[2:_BOX]
    points = numbers[_BOX:].reshape(-1, 2) + anchor
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    left, top, right, bottom = map(float, box)
    return Face(
        score, (left, top, right, bottom), tuple((float(px), float(py)) for px, py in points)
    )


def overlap(one: Box, other: Box) -> float:
    """Return the intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    common = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    together = sum(areas) - common
    return common / together if together > 0 else 0.0


@dataclass(frozen=True)
class Letter:
    """A letter, its confidence (0 to 1), and its place as a fraction of the line's length."""

    text: str
    score: float
    at: float


@dataclass(frozen=True)
class Line:
    """A line of text, letter by letter."""

    letters: tuple[Letter, ...]

    @property
    def text(self) -> str:
        return "".join(letter.text for letter in self.letters)

    @property
    def score(self) -> float:
        """The mean score of its letters; 0 for an empty line."""
        return float(np.mean([one.score for one in self.letters])) if self.letters else 0.0


def line_of(letters: Array, labels: Sequence[str]) -> Line:
    """Decode a line of text from probabilities (places, letters), by CTC.

    Label 0 is "no letter"; a letter repeated from place to place counts once.
    """
    if letters.ndim != 2 or not 0 < letters.shape[1] <= len(labels):
        raise InputError(f"letters {list(letters.shape)} do not belong to {len(labels)} labels")
    best = letters.argmax(axis=1)
    before = np.concatenate([[0], best[:-1]])
    starts = np.flatnonzero((best != 0) & (best != before))
    return Line(
        tuple(
            Letter(labels[best[at]], float(letters[at, best[at]]), (at + 0.5) / len(letters))
            for at in starts.tolist()
        )
    )
