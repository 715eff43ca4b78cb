"""depth-estimation: the distance of each pixel of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.task import task
from webpte.tasks.vision.interpolate import interpolate
from webpte.tasks.vision.pictures import PictureTask

Array = np.ndarray


@task("depth-estimation", form=TaskForm(PICTURE))
class DepthEstimation(PictureTask):
    """Estimates the depth of every pixel, by DPT and models like it (Depth Anything).

    found = await task(picture)
    found["predicted_depth"]      # (height, width), float32, in the model's unit
    found["depth"]                # the same as a picture of bytes: 0 is the least, 255 the most
    """

    ranks = ((3,),)
    processors = ("DPT",)

    def result(self) -> dict[str, Any]:
        return {"kind": "depth"}

    async def __call__(self, inputs: Any) -> Any:
        """Return the depth of a picture, or a list of depths for a list."""

        def answer(picture: Array, values: Array) -> Any:
            height, width = picture.shape[:2]
            depth = interpolate(values, height, width, "bicubic")
            return {"predicted_depth": depth, "depth": levels(depth)}

        return await self.answer_each(inputs, answer)


def levels(depth: Array) -> Array:
    """Return a depth as bytes; all 0 for a constant depth."""
    low, high = depth.min(), depth.max()
    share = (depth - low) / (high - low) if high > low else np.zeros_like(depth)
    return (share * 255).astype(np.uint8)
