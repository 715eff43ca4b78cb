"""The steps from a picture to a model's input, as data, and their run in NumPy.

(height, width, 3) bytes  --resizes-->  bytes  --parts, colours-->  (3, rows, columns) floats

A model's files define such steps. `gpu_scaler.py` runs the same steps on a GPU, with the same
results, bit for bit: sums are integers, and floats come from a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np

from webpte.engine.ops.pictures.picture_planes import OUTSIDE, PLANES
from webpte.engine.shapes import numel
from webpte.errors import InputError
from webpte.tasks.vision.scaling.resample import check_picture, check_resize, filter_weights, resize

Array = np.ndarray
Size = tuple[int, int]  # height and width
ORDER = (1, 4, 2, 5, 0, 3, 6)  # dims of `cut`, reordered: squares, patches, floats of a patch


@dataclass(frozen=True)
class PicturePart:
    """A part of a picture that a model sees.

    stage      the number of resizes before it
    top, left  its start, which may be before the picture
    """

    stage: int = 0
    top: int = 0
    left: int = 0


@dataclass(frozen=True)
class ScalePass:
    """A dim of a resize, with the arguments of `webpte.scale_pixels`.

    stage     the number of resizes before this pass
    dim       0 scales the height, 1 the width
    size      new size along the dim
    """

    stage: int
    dim: int
    size: Size
    starts: Array
    weights: Array


@dataclass(frozen=True)
class PictureSteps:
    """The steps for pictures of the same size.

    given     the size of the picture
    resizes   sizes to scale to, in turn
    resample  the filter, by Pillow's number
    parts     the parts that the model sees, each of the size `part`
    table     the float for each byte of each channel, and last for pixels outside (3, 257)
    patches   for models that see squares of patches: the patches of a side of a square, and the
              pixels of a side of a patch; None: planes of all pixels
    """

    given: Size
    resizes: tuple[Size, ...]
    resample: int
    parts: tuple[PicturePart, ...]
    part: Size
    table: Array = field(compare=False)
    patches: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for size in self.resizes:
            check_resize(*size, self.resample)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(planes, height, width), or (squares, patches per square, floats per patch)."""
        if self.patches is None:
            return PLANES, *self.part
        merged, patch = self.patches
        return numel(self.part) // (merged * patch) ** 2, merged**2, PLANES * patch**2

    @cached_property
    def cut(self) -> tuple[int, ...]:
        """The planes of a part, each side cut into squares, patches and pixels; see `ORDER`."""
        assert self.patches is not None
        merged, patch = self.patches
        rows, columns = (side // (merged * patch) for side in self.part)
        return PLANES, rows, merged, patch, columns, merged, patch

    def passes(self) -> Iterator[ScalePass]:
        """Yield each dim of each resize that changes, the width first."""
        size = list(self.given)
        for stage, wanted in enumerate(self.resizes):
            for dim in (1, 0):
                before, after = size[dim], wanted[dim]
                if before != after:
                    size[dim] = after
                    found = filter_weights(before, after, self.resample)
                    yield ScalePass(stage, dim, (size[0], size[1]), *found)

    @cached_property
    def work(self) -> int:
        """The number of products of a pixel and a weight in all resizes."""
        return sum(one.size[0] * one.size[1] * one.weights.shape[1] for one in self.passes())

    def digest(self, pixels: Array) -> bytes:
        """Return a hash of everything that decides a picture's result."""
        settings = (self.given, self.resizes, self.resample, self.parts, self.part, self.patches)
        found = blake2b(repr(settings).encode(), digest_size=32)
        found.update(self.table.tobytes())
        found.update(np.ascontiguousarray(pixels).data)
        return found.digest()

    def check(self, pixels: Array) -> None:
        """Raise InputError for a picture that does not fit the steps."""
        check_picture(pixels)
        if pixels.shape != (*self.given, PLANES):
            raise InputError(
                f"a picture {[*self.given, PLANES]} was to be prepared, not {list(pixels.shape)}"
            )


def colour_table(values: Array, outside: Array | None = None) -> Array:
    """Return the table for floats (256, 1 or 3) and pixels outside, which default to black."""
    after = values[:1] if outside is None else outside
    table = np.empty((PLANES, OUTSIDE + 1), np.float32)
    table[:, :OUTSIDE] = values.T
    table[:, OUTSIDE] = after
    return table


def prepare_on_host(steps: PictureSteps, pixels: Array) -> list[Array]:
    """Return the parts of a picture (height, width, 3), each (3, rows, columns), float32."""
    steps.check(pixels)
    stages = [pixels]
    for size in steps.resizes:
        stages.append(resize(stages[-1], *size, steps.resample))
    return [_planes(stages[one.stage], one, steps) for one in steps.parts]


def _planes(pixels: Array, part: PicturePart, steps: PictureSteps) -> Array:
    """Look up the colours of a part; pixels outside of the picture have the table's last column."""
    made = np.empty((PLANES, *steps.part), np.float32)
    taken, filled = [], []
    for first, count, size in zip((part.top, part.left), steps.part, pixels.shape, strict=False):
        begin, end = min(max(first, 0), size), min(max(first + count, 0), size)
        taken.append(slice(begin, end))
        filled.append(slice(begin - first, end - first))
    whole = all(one.stop - one.start == n for one, n in zip(taken, steps.part, strict=True))
    if not whole:
        made[...] = steps.table[:, OUTSIDE, None, None]
    inside = pixels[taken[0], taken[1]]
    for plane in range(PLANES):
        made[plane, filled[0], filled[1]] = steps.table[plane].take(inside[:, :, plane])
    if steps.patches is None:
        return made
    patches = made.reshape(steps.cut).transpose(ORDER).reshape(steps.shape)
    return np.ascontiguousarray(patches)
