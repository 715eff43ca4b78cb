"""The way from pictures of any size to a model's input, as data: compiled programs have it, too.

Its JavaScript half is compiling/runtime/task/pictures.js, which gives the same bytes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.tasks.vision.scaling.steps import PicturePart, PictureSteps, Size, colour_table

AS_IT_IS, STRETCH, SHORTER, LONGER, FIT = "", "stretch", "shorter", "longer", "fit"
MOST_PIXELS = 1 << 14  # per side


@dataclass(frozen=True)
class PictureRule:
    """Scaling of pictures, the part of a picture that a model sees, and its colours.

    scaled    "stretch" to `size`; "shorter" or "longer" scales this side to size[0]; "fit" scales
              both to fit into `size`; "" keeps the size
    multiple  each side of stretched pictures, and of pictures scaled by their shorter side, is a
              multiple of it
    part      the size of the model's input; None for the whole scaled picture. The middle is kept
              or surrounded; after "longer" the picture is at the top left
    resample  the filter, by Pillow's number
    scale     by which each byte is multiplied; then `mean` is subtracted, and `std` divides: for
              each channel a number, or a single number for all
    empty     whether floats outside of the picture are 0, not black
    """

    scaled: str
    size: Size
    multiple: int
    part: Size | None
    resample: int
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    empty: bool = False

    @cached_property
    def table(self) -> np.ndarray:
        """The float of each byte, as in PictureSteps."""
        levels = (np.arange(256)[:, None] * self.scale).astype(np.float32)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        values = (levels - mean) / std
        return colour_table(values, np.zeros((1, 1), np.float32) if self.empty else None)

    def table_of_fields(self) -> dict[str, Any]:
        """Return the fields as a table, which a compiled program has."""
        return asdict(self)

    def steps(self, height: int, width: int) -> PictureSteps:
        """Return the steps for pictures of a size."""
        size = self.scaled_size(height, width)
        resizes = (size,) if self.scaled else ()
        top, left = self.place(size)
        part = PicturePart(len(resizes), top, left)
        wanted = self.part or size
        return PictureSteps((height, width), resizes, self.resample, (part,), wanted, self.table)

    def scaled_size(self, height: int, width: int) -> Size:
        """Return the height and width to which a picture is scaled."""
        if self.scaled == AS_IT_IS:
            return height, width
        if self.scaled in (LONGER, FIT):
            scale = min(self.size[0] / height, self.size[1] / width)
            return max(int(height * scale + 0.5), 1), max(int(width * scale + 0.5), 1)
        rows, columns = self.size
        if self.scaled == SHORTER:
            longer = int(rows * max(height, width) / min(height, width))
            if longer > MOST_PIXELS:
                raise InputError(
                    f"a picture of {width} by {height} pixels is too long to be resized"
                )
            rows, columns = (longer, rows) if width <= height else (rows, longer)
        rows, columns = (
            max(round(one / self.multiple), 1) * self.multiple for one in (rows, columns)
        )
        return rows, columns

    def place(self, size: Size) -> Size:
        """Return the top and left of the part in a scaled picture of a size."""
        if self.part is None or self.scaled == LONGER:
            return 0, 0
        rows, columns = (old - new for old, new in zip(size, self.part, strict=True))
        if self.scaled == FIT:
            return -(-rows // 2), -(-columns // 2)
        return rows // 2, columns // 2
