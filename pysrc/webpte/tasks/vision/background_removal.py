"""background-removal: a picture with only its foreground visible."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.scores import sigmoid
from webpte.tasks.task import task
from webpte.tasks.vision.interpolate import interpolate
from webpte.tasks.vision.pictures import PictureTask

Array = np.ndarray


@task("background-removal", form=TaskForm(PICTURE))
class BackgroundRemoval(PictureTask):
    """Makes the background of pictures transparent, by models that return a logit per pixel.

    cut = await task(picture)        # (height, width, 4) of bytes: the last is 0 where transparent
    """

    ranks = ((4,),)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        if self.outputs[0].shape[1] != 1:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it returns "
                f"{self.outputs[0]}, not one number for each pixel"
            )

    def result(self) -> dict[str, Any]:
        return {"kind": "cutout"}

    async def __call__(self, inputs: Any) -> Any:
        """Return a picture with transparency, or a list of them."""

        def answer(picture: Array, logits: Array) -> Array:
            share = interpolate(sigmoid(logits[0]), *picture.shape[:2])
            return np.dstack([picture, (share * 255).round().astype(np.uint8)])

        return await self.answer_each(inputs, answer)
