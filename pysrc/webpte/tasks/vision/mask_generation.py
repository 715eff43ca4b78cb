"""mask-generation: a mask of the thing at given points or in a box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.errors import ExecutionError, InputError
from webpte.program import Program
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.task import HeldResult, task
from webpte.tasks.vision.interpolate import interpolate
from webpte.tasks.vision.mask_prompts import NOTHING, MaskDecoder, PromptTables
from webpte.tasks.vision.pictures import PictureTask, picture_of

Array = np.ndarray
Size = tuple[int, int]  # height and width
# Methods of exports here, and of models in two programs.
_ENCODERS, _DECODERS = ("vision_encoder", "image_encoder", "encoder"), ("mask_decoder", "decoder")
_CORNERS = (2, 3)  # labels of a box's corners
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@dataclass(frozen=True)
class EncodedPicture(HeldResult):
    """An encoded picture, for any number of prompts.

    program      the encoder's program, whose decoder alone understands the embeddings
    embeddings   the encoder's outputs, on the GPU if there is a GPU
    """

    fields = ("height", "width")

    program: Program
    embeddings: tuple[Any, ...]
    height: int
    width: int

    def close(self) -> None:
        """Free its memory on the GPU."""
        for one in self.embeddings:
            if isinstance(one, GpuTensor):
                one.destroy()


@task("mask-generation", form=TaskForm(PICTURE, points=True))
class MaskGeneration(PictureTask):
    """Finds the mask of a thing at a point, by SAM and SAM 2.

    found = await task(picture, points=[(120, 80)])
    found["masks"], found["scores"]     # (height, width) of bools each; the best first

    with await task.look(picture) as seen:                  # the larger part of the work
        await task(seen, box=(10, 20, 90, 60))
        await task(seen, points=[(30, 40), (80, 50)], labels=[1, 0])
    """

    patterns = ("prompt_*.bin",)
    processors = ("Sam", "Sam2")
    calls = ("look",)

    def __init__(self, files: ModelFiles) -> None:
        methods = files.program.methods
        self.method = next((one for one in _ENCODERS if one in methods), _ENCODERS[0])
        found = methods.get(self.method)
        self.ranks = ((4,),) * max(1, len(found.outputs) if found is not None else 1)
        super().__init__(files)
        self._method = next((one for one in _DECODERS if one in methods), "")
        info = methods.get(self._method)
        decoder = None if info is None else MaskDecoder.of(info, self.outputs)
        if decoder is None:
            taken = "nothing" if info is None else "; ".join(map(str, info.inputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it has no method "
                f"{_DECODERS[0]!r} that takes an embedding, points and labels, but {taken}"
            )
        self._decoder = decoder
        self.most_points = decoder.bounds[1]
        tokens = decoder.labels is None
        self._tables = PromptTables.of(files.arrays, decoder.width) if tokens else None

    def default_settings(self) -> dict[str, Any]:
        """Return the settings of a model without preprocessor_config.json.

        SAM 2 stretches pictures, and has several embeddings; SAM pads them.
        """
        height, width = (high for _, high in self.bounds[2:])
        size = {"height": height, "width": width}
        common = {"image_mean": _MEAN, "image_std": _STD}
        if len(self.outputs) > 1:
            return {"image_processor_type": "Sam2ImageProcessor", "size": size, **common}
        longest = {"longest_edge": max(height, width)}
        kind = {"image_processor_type": "SamImageProcessor"}
        return {**kind, "size": longest, "pad_size": size, **common}

    async def look(self, picture: Any) -> EncodedPicture:
        """Encode a picture, so that prompts about it take little time."""
        pixels = await picture_of(picture)
        made = await self.batch([self.checked(await self.prepare(pixels))])
        place = "numpy" if self.program.device_info.kind == "numpy" else "gpu"
        embeddings = await self.program.run(self.method, made, output=place)
        return EncodedPicture(self.program, embeddings, *pixels.shape[:2])

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
        size, whole = self._sizes(seen)
        scale = np.array([size[1] / seen.width, size[0] / seen.height])
        given = self._decoder.inputs(seen.embeddings, places * scale, kinds, self._tables, whole)
        masks, scores = (await self.program.run(self._method, *given))[:2]
        masks, scores = masks.reshape(1, -1, *masks.shape[-2:]), scores.reshape(1, -1)
        if not (np.isfinite(masks).all() and np.isfinite(scores).all()):
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        order = np.argsort(-scores[0], kind="stable").tolist()
        return {
            "masks": [self._mask(masks[0, at], size, whole, seen) > threshold for at in order],
            "scores": [float(scores[0, at]) for at in order],
        }

    def _sizes(self, seen: EncodedPicture) -> tuple[Size, Size]:
        """Return the size that a picture is scaled to, and the size with its padding."""
        if self.preprocessor.name == "Sam":
            scaled = self.preprocessor.rule.scaled_size(seen.height, seen.width)
            return scaled, self.preprocessor.padded_size
        height, width = (high for _, high in self.bounds[2:])
        return (height, width), (height, width)

    def _mask(self, values: Array, size: Size, whole: Size, seen: EncodedPicture) -> Array:
        """Return a mask at the picture's size, without the padding."""
        if size == whole:
            return interpolate(values, seen.height, seen.width)
        padded = interpolate(values, *whole)
        return interpolate(padded[: size[0], : size[1]], seen.height, seen.width)

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
        fixed, most = self._decoder.bounds
        if box is None and not fixed == most == len(places):  # as in training, instead of a box
            places.append([0.0, 0.0])
            kinds.append(NOTHING)
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
