"""zero-shot-image-classification: scores of a caller's labels for a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.engine.call.info import ScalarInfo
from webpte.errors import InputError
from webpte.tasks.files import CONFIG, PREPROCESSOR, TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.form import LABELS, PICTURE, TaskForm
from webpte.tasks.scores import best, sigmoid, softmax
from webpte.tasks.task import task
from webpte.tasks.vision.pictures import PictureTask
from webpte.tasks.vision.text_vectors import TextVectors
from webpte.tasks.zero_shot_classification import candidates, filled_in

_TEMPLATE = "This is a photo of {}."


@task("zero-shot-image-classification", form=TaskForm(PICTURE, (LABELS,)))
class ZeroShotImageClassification(PictureTask):
    """Scores how well labels fit a picture, by CLIP or SigLIP.

    await task(picture, ["a cat", "two dogs"])
    # [{"score": 0.93, "label": "a cat"}, {"score": 0.07, "label": "two dogs"}]
    """

    needed = (CONFIG, PREPROCESSOR, TOKENIZER)
    wanted = (TOKENIZER_CONFIG,)
    method = "vision_encoder"

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self._texts = TextVectors(files, self.name)
        self._scale, self._bias = (self._constant(name) for name in ("logit_scale", "logit_bias"))

    def _constant(self, name: str) -> np.float32:
        info = self.program.methods.get(name)
        value = info.outputs[0] if info is not None and len(info.outputs) == 1 else None
        if not isinstance(value, ScalarInfo) or not isinstance(value.value, int | float):
            raise InputError(
                f"{self.program.name} is not a program for {self.name}: it has no constant {name}"
            )
        return np.float32(value.value)

    async def __call__(
        self, inputs: Any, candidate_labels: Any, *, hypothesis_template: str = _TEMPLATE
    ) -> Any:
        """Return the labels with scores, the best first; for a list, a list for each picture.

        candidate_labels  a list, or a text with commas between labels
        """
        labels = candidates(candidate_labels)
        texts = await self._texts(filled_in(hypothesis_template, labels))
        function = sigmoid if self._texts.siglip else softmax

        def answer(_picture: Any, vector: np.ndarray) -> Any:
            return best(labels, function(texts @ vector * self._scale + self._bias), None)

        return await self.answer_each(inputs, answer)
