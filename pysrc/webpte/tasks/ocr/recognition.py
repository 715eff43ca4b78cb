"""optical-character-recognition: the lines of text in a picture, with their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, Slider, TaskForm
from webpte.tasks.ocr.crops import (
    cut_out,
    line_width,
    normalized,
    padded,
    resized,
    to_multiple,
    within_bounds,
)
from webpte.tasks.ocr.text_regions import TextRegion, find_regions
from webpte.tasks.task import Task, task
from webpte.tasks.vision.boxes import check_threshold
from webpte.tasks.vision.pictures import picture_of

Array = np.ndarray
LABELS = "labels.txt"
_DETECTOR, _CLASSIFIER, _RECOGNIZER = "detector", "classifier", "recognizer"
_LEAST_SIDE, _MOST_SIDE = 30, 2000  # sides of a picture
_SHORT_SIDE = 736  # seen by the detector, if the longer side has room
_LEAST_SEEN = 64  # sides that the detector takes are multiples of it
_WIDEST = 8.0  # times its height; wider pictures get margins above and below
_MAP_THRESHOLD = 0.3
_TURNED, _SURELY = 1, 0.9  # the label of upside-down lines, and the least score to turn them
_ALIKE = 6  # lines that are padded to the widest of them
_USUAL_WIDTH = 320  # pixels of a line, at least: shorter lines are padded


@task(
    "optical-character-recognition",
    form=TaskForm(PICTURE, sliders=(Slider("text_score", "score of lines above", 0.5),)),
)
class OpticalCharacterRecognition(Task):
    """Reads the text of a picture, by PP-OCR (`serve.py models add ocr`).

    for line in await task(picture):
        print(line["text"], line["score"], line["box"])    # box: four corners (x, y)

    The program's methods are a detector of regions, an optional classifier of upside-down lines,
    and a recognizer of lines; `labels.txt` has a letter in each line.
    """

    needed: ClassVar[Sequence[str]] = (LABELS,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self.labels = files.texts[LABELS].removesuffix("\n").split("\n")
        self._detector = self._bounds(_DETECTOR, 1)
        self._recognizer = self._bounds(_RECOGNIZER, 2)
        has_classifier = _CLASSIFIER in files.program.methods
        self._classifier = self._bounds(_CLASSIFIER, 1) if has_classifier else None

    def _bounds(self, method: str, outputs: int) -> Sequence[tuple[int, int]]:
        """Return the bounds of a method's input (pictures, 3, height, width)."""
        info = self.program.methods.get(method)
        given = () if info is None else info.inputs
        if info is None or len(given) != 1 or len(info.outputs) != outputs:
            self._refuse(f"it needs a method {method!r} of one input and {outputs} outputs")
        taken = given[0]
        if not isinstance(taken, TensorInfo) or len(taken.shape) != 4 or taken.shape[1] != 3:
            self._refuse(f"{method} must take pictures (count, 3, height, width), not {taken}")
        return taken.bounds

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.program.name} is not a program for {self.name}: {why}")

    async def __call__(
        self,
        inputs: Any,
        *,
        text_score: float = 0.5,
        box_thresh: float = 0.5,
        unclip_ratio: float = 1.6,
    ) -> Any:
        """Return the lines of text in a picture, from top to bottom; for a list, a list per
        picture.

        text_score    lines with a lower score are left out
        box_thresh    regions with a lower mean probability are left out
        unclip_ratio  how much regions grow, since the detector marks the middle of lines
        """
        for value in (text_score, box_thresh):
            check_threshold(value)
        if not 0 <= unclip_ratio <= 10:
            raise InputError(f"unclip_ratio is {unclip_ratio!r}; give a number from 0 to 10")
        many = isinstance(inputs, list | tuple)
        found = []
        for given in inputs if many else [inputs]:
            picture = await picture_of(given)
            found.append(await self._read(picture, text_score, box_thresh, unclip_ratio))
        return found if many else found[0]

    async def _read(
        self, picture: Array, text_score: float, box_thresh: float, growth: float
    ) -> list[dict[str, Any]]:
        seen = within_bounds(picture, _LEAST_SIDE, _MOST_SIDE, 32)
        page, above = padded(seen, _WIDEST, _LEAST_SIDE)
        regions = await self.find(page, box_thresh, growth)
        lines = await self._upright([cut_out(page, region.corners) for region in regions])
        texts = await self.recognize(lines)
        scale = np.array(picture.shape[1::-1]) / np.array(seen.shape[1::-1])
        return [
            {"text": text, "score": score, "box": _corners(region, above, scale, picture)}
            for region, (text, score) in zip(regions, texts, strict=True)
            if text.strip() and score >= text_score
        ]

    async def find(self, picture: Array, box_thresh: float, growth: float) -> list[TextRegion]:
        """Return the regions of text in a picture (height, width, 3)."""
        height, width = picture.shape[:2]
        scale = max(1.0, _SHORT_SIDE / min(height, width))
        (_, most_rows), (_, most_columns) = self._detector[2:]
        scale = min(scale, most_rows / height, most_columns / width)
        rows, columns = (
            min(max(to_multiple(side * scale, 32), _LEAST_SEEN, low), high)
            for side, (low, high) in zip((height, width), self._detector[2:], strict=True)
        )
        given = normalized(resized(picture, rows, columns))[None]
        (likely,) = await self._run(_DETECTOR, given)
        return find_regions(
            likely.reshape(rows, columns),
            height,
            width,
            threshold=_MAP_THRESHOLD,
            least_score=box_thresh,
            growth=growth,
        )

    async def _upright(self, lines: Sequence[Array]) -> list[Array]:
        """Return lines, with upside-down lines turned."""
        if self._classifier is None or not lines:
            return list(lines)
        (_, most), _, (_, height), (_, width) = self._classifier
        found = []
        for start in range(0, len(lines), most):
            group = lines[start : start + most]
            filled = np.zeros((len(group), 3, height, width), np.float32)
            for at, line in enumerate(group):
                wide = line_width(line, height, width)
                filled[at, :, :, :wide] = normalized(resized(line, height, wide))
            (shares,) = await self._run(_CLASSIFIER, filled)
            found += [
                line[::-1, ::-1] if row.argmax() == _TURNED and row.max() > _SURELY else line
                for line, row in zip(group, shares, strict=True)
            ]
        return found

    async def recognize(self, lines: Sequence[Array]) -> list[tuple[str, float]]:
        """Return the text and the score of each line, a picture (height, width, 3).

        Six lines of similar proportions are made as wide as the widest, as rapidocr does: the
        padding after a line changes its letters a little.
        """
        (_, most), _, (_, height), (least_width, most_width) = self._recognizer
        ratios = np.array([line.shape[1] / line.shape[0] for line in lines])
        order = np.argsort(ratios, kind="stable")
        found: list[tuple[str, float]] = [("", 0.0)] * len(lines)
        for start in range(0, len(lines), _ALIKE):
            group = order[start : start + _ALIKE].tolist()
            widest = max(_USUAL_WIDTH, int(height * float(ratios[group].max())))
            width = min(max(-(-widest // 8) * 8, least_width), most_width)
            filled = np.zeros((len(group), 3, height, width), np.float32)
            for row, at in enumerate(group):
                wide = line_width(lines[at], height, width)
                filled[row, :, :, :wide] = normalized(resized(lines[at], height, wide))
            for first in range(0, len(group), most):
                part = slice(first, first + most)
                scores, letters = await self._run(_RECOGNIZER, filled[part])
                for row, at in enumerate(group[part]):
                    found[at] = self._text(letters[row], scores[row])
        return found

    def _text(self, letters: Array, scores: Array) -> tuple[str, float]:
        """Return the text of the likeliest letters at each place; a repeated letter counts once."""
        starts = np.append(True, letters[1:] != letters[:-1]) & (letters != 0)
        numbers = letters[starts].tolist()
        if any(not 0 <= number < len(self.labels) for number in numbers):
            raise InputError(
                f"{self.program.name} returned letter {max(numbers)}, but {LABELS} has "
                f"{len(self.labels)}: they do not belong together"
            )
        text = "".join(self.labels[number] for number in numbers)
        return text, float(scores[starts].mean()) if numbers else 0.0

    async def _run(self, method: str, given: Array) -> Sequence[Array]:
        outputs = await self.program.run(method, given)
        if not all(np.isfinite(one).all() for one in outputs):
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        return outputs


def _corners(region: TextRegion, above: int, scale: Array, picture: Array) -> list[list[float]]:
    """Return a region's corners in pixels of the whole picture."""
    moved = (region.corners - (0, above)) * scale
    within: list[list[float]] = np.clip(moved, 0, picture.shape[1::-1]).tolist()
    return within
