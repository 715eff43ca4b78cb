"""mask-generation: a mask of the thing at given points or in a box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.program import Program
from webpte.tasks.files import CONFIG, PREPROCESSOR, ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.task import HeldResult, task
from webpte.tasks.vision.interpolate import interpolate
from webpte.tasks.vision.pictures import PictureTask, picture_of

Array = np.ndarray
_DECODER = "mask_decoder"
_NOTHING, _CORNERS = -1, (2, 3)  # labels of absent points, and of a box's corners


@dataclass(frozen=True)
class EncodedPicture(HeldResult):
    """An encoded picture, for any number of prompts.

    program     the encoder's program, whose decoder alone understands the embedding
    embedding   the encoder's output, on the GPU if there is a GPU
    """

    fields = ("height", "width")

    program: Program
    embedding: Any
    height: int
    width: int

    def close(self) -> None:
        """Free its memory on the GPU."""
        if isinstance(self.embedding, GpuTensor):
            self.embedding.destroy()


@task("mask-generation", form=TaskForm(PICTURE, points=True))
class MaskGeneration(PictureTask):
    """Finds the mask of a thing at a point, by SAM.

    found = await task(picture, points=[(120, 80)])
    found["masks"], found["scores"]     # (height, width) of bools each; the best first

    with await task.look(picture) as seen:                  # the larger part of the work
        await task(seen, box=(10, 20, 90, 60))
        await task(seen, points=[(30, 40), (80, 50)], labels=[1, 0])
    """

    needed = (PREPROCESSOR,)
    wanted = (CONFIG,)
    method = "vision_encoder"
    ranks = ((4,),)
    processors = ("Sam",)
    calls = ("look",)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        info = files.program.methods.get(_DECODER)
        inputs = [] if info is None else [one for one in info.inputs if isinstance(one, TensorInfo)]
        if [len(one.shape) for one in inputs] != [4, 3, 2]:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it has no method "
                f"{_DECODER!r} that takes an embedding, points and labels"
            )
        self.most_points = inputs[1].bounds[1][1]
        self._label_type = np.dtype(inputs[2].dtype)

    async def look(self, picture: Any) -> EncodedPicture:
        """Encode a picture, so that prompts about it take little time."""
        pixels = await picture_of(picture)
        made = await self.batch([self.checked(await self.prepare(pixels))])
        place = "numpy" if self.program.device_info.kind == "numpy" else "gpu"
        (embedding,) = await self.program.run(self.method, made, output=place)
        return EncodedPicture(self.program, embedding, *pixels.shape[:2])

    async def __call__(
        self,
        inputs: Any,
        *,
        points: Sequence[Sequence[float]] = (),
        labels: Sequence[int] | None = None,
        box: Sequence[float] | None = None,
        mask_threshold: float = 0.0,
    ) -> Any:
        """Return masks for a prompt, with the model's estimate of their quality.

        inputs    a picture, or a result of `look`; a list gives a list of results
        points    (x, y) in pixels of the picture
        labels    for each point 1 if it belongs to the thing, or 0; by default 1
        box       left, top, right and bottom of the thing in pixels
        """
        prompt = (*self._prompt(points, labels, box), mask_threshold)
        if isinstance(inputs, list | tuple):
            return [await self._asked(one, *prompt) for one in inputs]
        return await self._asked(inputs, *prompt)

    async def _asked(self, given: Any, *prompt: Any) -> dict[str, Any]:
        if isinstance(given, EncodedPicture):
            if given.program is not self.program:
                raise InputError(
                    f"this picture was read by another task ({given.program.name}): give it to "
                    "that one, or call look of this one"
                )
            return await self._answer(given, *prompt)
        with await self.look(given) as seen:
            return await self._answer(seen, *prompt)

    async def _answer(
        self, seen: EncodedPicture, places: Array, kinds: list[int], threshold: float
    ) -> dict[str, Any]:
        size = self.preprocessor.scaled_size(seen.height, seen.width)
        scale = np.array([size[1] / seen.width, size[0] / seen.height])
        masks, scores = await self.program.run(
            _DECODER,
            seen.embedding,
            (places * scale).astype(np.float32)[None],
            np.array([kinds], self._label_type),
        )
        if not (np.isfinite(masks).all() and np.isfinite(scores).all()):
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        order = np.argsort(-scores[0], kind="stable").tolist()
        return {
            "masks": [self._mask(masks[0, at], size, seen) > threshold for at in order],
            "scores": [float(scores[0, at]) for at in order],
        }

    def _mask(self, values: Array, size: tuple[int, int], seen: EncodedPicture) -> Array:
        """Return a mask at the picture's size, without the padding."""
        whole = interpolate(values, *self.preprocessor.padded_size)
        return interpolate(whole[: size[0], : size[1]], seen.height, seen.width)

    def _prompt(self, points: Any, labels: Any, box: Any) -> tuple[Array, list[int]]:
        """Return the points (count, 2) of a prompt, and their labels."""
        listed = points if isinstance(points, list | tuple | np.ndarray) else [points]
        places = [_numbers(point, 2, "a point is (x, y)") for point in listed]
        kinds = [1] * len(places) if labels is None else list(labels)
        if len(kinds) != len(places) or any(kind not in (0, 1) for kind in kinds):
            raise InputError(f"labels are {labels!r}; give 1 or 0 for each of the points")
        if box is not None:
            corners = _numbers(box, 4, "a box is (left, top, right, bottom)")
            places += [corners[:2], corners[2:]]
            kinds += _CORNERS
        if not places:
            raise InputError(
                "say where to look: points=[(x, y)], or box=(left, top, right, bottom)"
            )
        if box is None:  # as in training: an absent point instead of a box
            places.append([0.0, 0.0])
            kinds.append(_NOTHING)
        if len(places) > self.most_points:
            raise InputError(
                f"a prompt of {len(places)} points, corners included, is too long: "
                f"{self.program.name} takes {self.most_points}"
            )
        return np.array(places, np.float64), kinds


def _numbers(values: Any, count: int, said: str) -> list[float]:
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        found = []
    if len(found) != count or not all(map(math.isfinite, found)):
        raise InputError(f"{said} in pixels, not {values!r}")
    return found
