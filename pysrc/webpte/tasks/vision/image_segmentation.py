"""image-segmentation: a label for each pixel of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.scores import labels_of
from webpte.tasks.task import task
from webpte.tasks.vision.interpolate import strips
from webpte.tasks.vision.pictures import PictureTask

Array = np.ndarray
_SUBTASK = "semantic"


@task("image-segmentation", form=TaskForm(PICTURE))
class ImageSegmentation(PictureTask):
    """Names every pixel of pictures, by SegFormer and models like it.

    for found in await task(picture):
        found["label"], found["mask"]      # mask: (height, width) of bytes, 255 inside
    """

    ranks = ((4,),)
    processors = ("Segformer", "Beit", "DPT", "MobileNetV2", "Stretch")

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        known = self.published.labels if self.published is not None else ()
        count = self.outputs[0].shape[1]
        self._one = count == 1  # of the thing; where its logit is below 0, there is another label
        self.labels = labels_of(self.config, count + self._one, known)

    def result(self) -> dict[str, Any]:
        return {"kind": "labels", "labels": self.labels, "one": self._one}

    async def __call__(self, inputs: Any, *, subtask: str | None = None) -> Any:
        """Return a mask for each label that a picture shows; for a list of pictures, a list each.

        subtask   "semantic", the only choice; "score" is None, as in the pipeline
        """
        if subtask not in (None, _SUBTASK):
            raise InputError(f"subtask is {subtask!r}; models here are for {_SUBTASK!r}")
        return await self.answer_each(inputs, self._masks)

    def _masks(self, picture: Array, logits: Array) -> list[dict[str, Any]]:
        if self._one:
            logits = np.concatenate([np.zeros_like(logits), logits])
        chosen = best_labels(logits, *picture.shape[:2])
        return [
            {
                "score": None,
                "label": self.labels[label],
                "mask": np.where(chosen == label, 255, 0).astype(np.uint8),
            }
            for label in np.unique(chosen).tolist()
        ]


def best_labels(logits: Array, height: int, width: int) -> Array:
    """Return the best label of each pixel (height, width), for logits (labels, rows, columns)."""
    chosen = np.zeros((height, width), np.int64)
    for start, strip in strips(logits, height, width):
        chosen[start : start + strip.shape[1]] = strip.argmax(axis=0)
    return chosen
