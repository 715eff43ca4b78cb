"""object-detection: things in a picture, with their names and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webpte.errors import ExecutionError, InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, Slider, TaskForm
from webpte.tasks.scores import labels_of, sigmoid, softmax
from webpte.tasks.task import task
from webpte.tasks.vision.boxes import box_of, check_threshold, corners
from webpte.tasks.vision.pictures import PictureTask
from webpte.tasks.vision.vision import overlap

Array = np.ndarray
Box = tuple[float, float, float, float]
_DECODED = ((2,), (1,), (1,))  # dims of boxes, scores and classes
_ONE_LABEL = ("Detr", "Yolos")  # the last label is "nothing"
_MOST = {"ConditionalDetr": 100, "DeformableDetr": 100}  # results; others: as many as queries


@task(
    "object-detection",
    form=TaskForm(PICTURE, sliders=(Slider("threshold", "score above", 0.5),)),
)
class ObjectDetection(PictureTask):
    """Finds things in pictures, by DETR and models like it (YOLOS, RT-DETR).

    Programs may also return the boxes (N, 4) of a picture in pixels, scores (N,) and classes (N,),
    as software-mansion's models do (YOLO26, RF-DETR).

    for found in await task(picture, threshold=0.8):
        print(found["label"], found["score"], found["box"])   # box: xmin, ymin, xmax, ymax
    """

    ranks: Sequence[Sequence[int]] = ((3,), (3,))
    processors = (*_ONE_LABEL, *_MOST, "RTDetr", "Letterbox", "Stretch")

    def __init__(self, files: ModelFiles) -> None:
        info = files.program.methods.get(self.method)
        self._decoded = info is not None and len(info.outputs) == len(_DECODED)
        self.ranks = _DECODED if self._decoded else ((3,), (3,))
        super().__init__(files)
        self._one_label = self.preprocessor.name in _ONE_LABEL
        if self._decoded:
            self.labels = self._labels()
            return
        logits, boxes = (one.shape for one in self.outputs)
        if logits[1] != boxes[1] or boxes[2] != 4:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it returns "
                f"{'; '.join(map(str, self.outputs))}, which are no labels and boxes"
            )
        self.labels = labels_of(self.config, logits[2] - self._one_label)

    def result(self) -> dict[str, Any]:
        if self._decoded:
            return {"kind": "decoded", "labels": self.labels, "overlap": self._overlap}
        named = "softmax" if self._one_label else "sigmoid"
        most = _MOST.get(self.preprocessor.name)
        most = None if self._one_label else most or self.outputs[0].shape[1]
        return {"kind": "queries", "labels": self.labels, "function": named, "most": most}

    async def __call__(self, inputs: Any, *, threshold: float = 0.5) -> Any:
        """Return the things in a picture; for a list of pictures, a list for each.

        threshold   the score above which results are returned
        """
        check_threshold(threshold)
        if self._decoded:
            return await self.answer_each(
                inputs, lambda picture, *found: self._kept(picture.shape, found, threshold)
            )

        def answer(picture: Array, logits: Array, boxes: Array) -> Any:
            return self._found(logits, corners(boxes, *picture.shape[:2]), threshold)

        return await self.answer_each(inputs, answer)

    @property
    def _overlap(self) -> float:
        """The overlap of boxes above which only the likelier box stays."""
        return self.published.overlap if self.published is not None else 1.0

    def _labels(self) -> list[str]:
        """Return the names of all classes, as many as are known."""
        boxes, *others = (one.shape for one in self.outputs)
        if boxes[1:] != (4,) or any(one != boxes[:1] for one in others):
            raise InputError(
                f"{self.files.program.name} is not a program for {self.name}: it returns "
                f"{'; '.join(map(str, self.outputs))}, which are no boxes, scores and classes"
            )
        named = self.config.table("id2label", None)
        if named is not None:
            return labels_of(self.config, len(named.content))
        return list(self.published.labels) if self.published is not None else []

    async def run(self, given: Sequence[Any]) -> list[tuple[Array, ...]]:
        if not self._decoded:
            return await super().run(given)
        found: list[tuple[Array, ...]] = []
        for one in given:
            made = await self.batch([self.checked(await self.prepare(one))])
            outputs = await self.program.run(self.method, made)
            if not all(np.isfinite(output).all() for output in outputs):
                raise ExecutionError(f"{self.program.name} returned NaN or infinities")
            found.append(tuple(np.asarray(output, np.float32) for output in outputs))
        return found

    def _kept(
        self, shape: Sequence[int], found: Sequence[Array], threshold: float
    ) -> list[dict[str, Any]]:
        """Return the things above a threshold, without boxes that overlap with likelier ones."""
        boxes, scores, classes = found
        most = self._overlap
        kept: list[dict[str, Any]] = []
        sides: list[Box] = []
        for row in np.argsort(-scores, kind="stable").tolist():
            if not scores[row] > threshold:
                break
            box = self._in_picture(boxes[row], shape)
            if any(overlap(box, other) > most for other in sides):
                continue
            number = round(float(classes[row]))
            named = 0 <= number < len(self.labels)
            label = self.labels[number] if named else f"LABEL_{number}"
            sides.append(box)
            kept.append({"score": float(scores[row]), "label": label, "box": box_of(np.array(box))})
        return kept

    def _in_picture(self, box: Array, shape: Sequence[int]) -> Box:
        """Return left, top, right and bottom in a picture for a box in the model's input."""
        height, width = shape[0], shape[1]
        rule = self.preprocessor.rule
        rows, columns = rule.scaled_size(height, width)
        top, left = rule.place((rows, columns))
        moved = (box + np.array([left, top, left, top])) / np.array([columns, rows] * 2)
        inside = moved.clip(0, 1) * np.array([width, height] * 2)
        first, second, third, fourth = map(float, inside)
        return first, second, third, fourth

    def _found(self, logits: Array, boxes: Array, threshold: float) -> list[dict[str, Any]]:
        """Return results; logits are (queries, labels), boxes (queries, 4) in pixels."""
        if self._one_label:
            scores = softmax(logits)[:, :-1]
            rows = np.arange(len(scores))
            labels = scores.argmax(axis=1)
        else:
            scores = sigmoid(logits)
            most = _MOST.get(self.preprocessor.name, len(logits))
            order = np.argsort(-scores, axis=None, kind="stable")[:most]
            rows, labels = np.divmod(order, scores.shape[1])
        return [
            {
                "score": float(scores[row, label]),
                "label": self.labels[label],
                "box": box_of(boxes[row]),
            }
            for row, label in zip(rows.tolist(), labels.tolist(), strict=True)
            if scores[row, label] > threshold
        ]
