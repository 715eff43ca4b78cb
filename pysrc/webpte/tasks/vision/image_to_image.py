"""image-to-image: enlarges a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from webpte.errors import InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import PICTURE, TaskForm
from webpte.tasks.task import task
from webpte.tasks.vision.pictures import PictureTask, picture_of

Array = np.ndarray
_MULTIPLE = 8  # transformers pads pictures to the next multiple, unless their file has another rule
_SHARE = 8  # neighbouring tiles have this part of a tile in common


class _TileSpan(NamedTuple):
    """A tile along a dim: its start, and the part of it to keep."""

    start: int
    first: int
    end: int


@task("image-to-image", form=TaskForm(PICTURE))
class ImageToImage(PictureTask):
    """Makes pictures larger, by Swin2SR.

    larger = await task(picture)        # (height * 2, width * 2, 3) of bytes, say

    Pictures larger than the program's input are enlarged in overlapping tiles.
    """

    ranks = ((4,),)
    processors = ("Swin2SR",)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self._tile = self.bounds[2][1], self.bounds[3][1]
        made = self.outputs[0].shape
        factors = {new / old for new, old in zip(made[2:], self._tile, strict=True)}
        self.factor = int(max(factors))
        if made[1] != 3 or factors != {self.factor}:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it makes "
                f"{list(made[1:])} of {[3, *self._tile]}, which is no picture made larger"
            )
        settings = self.preprocessor.settings
        key = "pad_size" if "pad_size" in settings else "size_divisor"
        self._multiple = settings.integer(key, _MULTIPLE, low=1, high=1 << 10)

    def result(self) -> dict[str, Any]:
        return {"kind": "picture", "factor": self.factor, "multiple": self._multiple}

    async def __call__(self, inputs: Any) -> Any:
        """Return an enlarged picture, or a list of pictures."""
        many = isinstance(inputs, list | tuple)
        pictures = [await picture_of(one) for one in (inputs if many else [inputs])]
        found = [await self._enlarged(picture) for picture in pictures]
        return found if many else found[0]

    async def _enlarged(self, picture: Array) -> Array:
        height, width = picture.shape[:2]
        sides = [
            max(tile, (side // self._multiple + 1) * self._multiple)
            for side, tile in zip((height, width), self._tile, strict=True)
        ]
        filled = np.pad(
            picture, ((0, sides[0] - height), (0, sides[1] - width), (0, 0)), mode="symmetric"
        )
        rows, columns = (spans(side, tile) for side, tile in zip(sides, self._tile, strict=True))
        made = np.zeros((sides[0] * self.factor, sides[1] * self.factor, 3), np.uint8)
        for row in rows:
            for column in columns:
                tile = filled[
                    row.start : row.start + self._tile[0],
                    column.start : column.start + self._tile[1],
                ]
                ((values,),) = await self.run([tile])
                pixels = np.moveaxis((values.clip(0, 1) * 255).round().astype(np.uint8), 0, 2)
                made[self._kept(row, row.start), self._kept(column, column.start)] = pixels[
                    self._kept(row), self._kept(column)
                ]
        return made[: height * self.factor, : width * self.factor]

    def _kept(self, span: _TileSpan, start: int = 0) -> slice:
        return slice((start + span.first) * self.factor, (start + span.end) * self.factor)


def spans(side: int, tile: int) -> Sequence[_TileSpan]:
    """Return tiles that cover a side; neighbours divide their overlap between them."""
    common = min(max(tile // _SHARE * 2, 2), tile - 1) if tile > 1 else 0
    starts = [*range(0, side - tile, tile - common), side - tile]
    found, covered = [], 0
    for at, start in enumerate(starts):
        last = at == len(starts) - 1
        end = side if last else start + tile - common // 2
        found.append(_TileSpan(start, covered - start, end - start))
        covered = end
    return found
