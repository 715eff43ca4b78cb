"""object-detection: things in a picture, with their names and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, Slider, TaskForm
from webpte.tasks.scores import labels_of, sigmoid, softmax
from webpte.tasks.task import task
from webpte.tasks.vision.boxes import box_of, check_threshold, corners
from webpte.tasks.vision.pictures import PictureTask

Array = np.ndarray
_ONE_LABEL = ("Detr", "Yolos")  # the last label is "nothing"
_MOST = {"ConditionalDetr": 100, "DeformableDetr": 100}  # results; others: as many as queries


@task(
    "object-detection",
    form=TaskForm(PICTURE, sliders=(Slider("threshold", "score above", 0.5),)),
)
class ObjectDetection(PictureTask):
    """Finds things in pictures, by DETR and models like it (YOLOS, RT-DETR).

    for found in await task(picture, threshold=0.8):
        print(found["label"], found["score"], found["box"])   # box: xmin, ymin, xmax, ymax
    """

    ranks = ((3,), (3,))
    processors = (*_ONE_LABEL, *_MOST, "RTDetr")

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        logits, boxes = (one.shape for one in self.outputs)
        if logits[1] != boxes[1] or boxes[2] != 4:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it returns "
                f"{'; '.join(map(str, self.outputs))}, which are no labels and boxes"
            )
        self._one_label = self.preprocessor.name in _ONE_LABEL
        self.labels = labels_of(self.config, logits[2] - self._one_label)

    async def __call__(self, inputs: Any, *, threshold: float = 0.5) -> Any:
        """Return the things in a picture; for a list of pictures, a list for each.

        threshold   the score above which results are returned
        """
        check_threshold(threshold)

        def answer(picture: Array, logits: Array, boxes: Array) -> Any:
            return self._found(logits, corners(boxes, *picture.shape[:2]), threshold)

        return await self.answer_each(inputs, answer)

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
