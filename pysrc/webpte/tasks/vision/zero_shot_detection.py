"""zero-shot-object-detection: boxes of things in a picture, for labels from the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.files import CONFIG, PREPROCESSOR, TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.form import LABELS, PICTURE, Slider, TaskForm
from webpte.tasks.scores import check_top, sigmoid
from webpte.tasks.task import task
from webpte.tasks.vision.boxes import box_of, check_threshold, corners
from webpte.tasks.vision.pictures import PictureTask
from webpte.tasks.vision.text_vectors import TextVectors
from webpte.tasks.zero_shot_classification import candidates

Array = np.ndarray


@task(
    "zero-shot-object-detection",
    form=TaskForm(PICTURE, (LABELS,), (Slider("threshold", "score above", 0.1),)),
)
class ZeroShotObjectDetection(PictureTask):
    """Finds things by their names, by OWL-ViT.

    for found in await task(picture, ["a cat", "a remote control"]):
        print(found["label"], found["score"], found["box"])   # box: xmin, ymin, xmax, ymax
    """

    needed = (CONFIG, PREPROCESSOR, TOKENIZER)
    wanted = (TOKENIZER_CONFIG,)
    method = "vision_encoder"
    ranks = ((3,), (3,), (3,))
    processors = ("OwlViT",)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self._texts = TextVectors(files, self.name)

    async def __call__(
        self,
        inputs: Any,
        candidate_labels: Any,
        *,
        threshold: float = 0.1,
        top_k: int | None = None,
    ) -> Any:
        """Return the things in a picture, the likeliest first; for a list of pictures, a list for
        each.

        candidate_labels  a list, or a text with commas between labels
        threshold         the score above which results are returned
        """
        check_threshold(threshold)
        check_top(top_k)
        labels = candidates(candidate_labels)
        if not labels:
            raise InputError("give a label or more to look for")
        texts = await self._texts(labels)

        def answer(picture: Array, vectors: Array, changes: Array, boxes: Array) -> Any:
            sides = corners(boxes, *picture.shape[:2])
            shift, scale = changes[:, :1], changes[:, 1:]
            scores = sigmoid((vectors @ texts.T + shift) * scale)  # (places, labels)
            places = [np.flatnonzero(scores[:, at] > threshold) for at in range(len(labels))]
            found: list[dict[str, Any]] = [
                {
                    "score": float(scores[place, at]),
                    "label": label,
                    "box": box_of(sides[place]),
                }
                for at, label in enumerate(labels)
                for place in places[at].tolist()
            ]
            return sorted(found, key=lambda one: -one["score"])[:top_k]

        return await self.answer_each(inputs, answer)
