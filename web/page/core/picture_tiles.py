"""A picture larger than a model's input, in overlapping tiles: a card says by how much.

picture  --tiles-->  call 1, call 2, ...  --middles of the answers put together-->  results

With an overlap of at least twice the reach of the model's filters each pixel is the same as with
an input of the picture's size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.inputs import photos
from page.shared.inputs.inputs import Input, TensorInput
from page.shared.inputs.photos import Form, PhotoPart
from page.shared.npy import Array

SIDE = 512  # pixels a side of a tile; fewer if the input has a smaller bound
Call = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True)
class PictureTiles:
    """The calls that a picture takes.

    state   the input that gets the tiles
    size    (height, width) of the whole picture
    parts   the tiles, all of one size, in pixels of the picture
    forms   of the outputs, where the card gives the layout of a picture
    """

    state: TensorInput
    size: tuple[int, int]
    parts: Sequence[PhotoPart]
    forms: Sequence[str]

    async def run(self, arrays: Sequence[Any], call: Call) -> tuple[Any, ...]:
        """Make all calls; return the outputs, put together."""
        state = self.state
        assert state.form is not None
        assert state.photo is not None
        pixels = state.photo.part(photos.whole_of(state.photo), *self.size)
        given, dims = list(arrays), list(state.dims)
        wholes: list[Any] = []
        for part in self.parts:
            tile = pixels[part.top : part.top + part.rows, part.left : part.left + part.columns]
            dims[state.form.rows], dims[state.form.columns] = part.rows, part.columns
            given[state.index] = photos.numbers_of(
                tile, state.form, state.settings, dims, state.dtype
            )
            values = list(await call(given))
            wholes = wholes or [self._whole(one, at) for at, one in enumerate(values)]
            for at, value in enumerate(values):
                if wholes[at] is None or not self._put(wholes[at], value, at, part):
                    wholes[at] = None  # it is no picture, or not of the tile's proportions
        last = tuple(values)
        return tuple(
            one if whole is None else whole for whole, one in zip(wholes, last, strict=True)
        )

    def _form(self, value: Any, at: int) -> Form | None:
        """Return the layout of an output that is a picture."""
        if not isinstance(value, np.ndarray):
            return None
        bounds = [(size, size) for size in value.shape]
        return photos.form_of(bounds, self.forms[at] if at < len(self.forms) else "")

    def _whole(self, value: Any, at: int) -> Array | None:
        """Return an empty picture that takes the tiles of an output; None for any other output."""
        form, part = self._form(value, at), self.parts[0]
        if form is None:
            return None
        times = value.shape[form.rows] // part.rows
        shape = list(value.shape)
        if not times or (shape[form.rows], shape[form.columns]) != (
            times * part.rows,
            times * part.columns,
        ):
            return None
        shape[form.rows], shape[form.columns] = (times * side for side in self.size)
        return np.empty(shape, value.dtype)

    def _put(self, whole: Array, value: Array, at: int, part: PhotoPart) -> bool:
        """Put the tile of an output into its place, but for half of the overlap at inner edges."""
        form = self._form(value, at)
        if form is None or value.ndim != whole.ndim:
            return False
        times = whole.shape[form.rows] // self.size[0]
        inner, outer = [slice(None)] * value.ndim, [slice(None)] * value.ndim
        for dim, start, count in (
            (form.rows, part.top, part.rows),
            (form.columns, part.left, part.columns),
        ):
            margin = self.state.overlap // 2 if start else 0
            inner[dim] = slice(times * margin, None)
            outer[dim] = slice(times * (start + margin), times * (start + count))
        whole[tuple(outer)] = value[tuple(inner)]
        return True


def tiles_of(inputs: Sequence[Input], outputs: Sequence[CardValue]) -> PictureTiles | None:
    """Return the calls for the picture that is set; None if there is none, or one call is all."""
    for state in inputs:
        size = state.tiled_size if isinstance(state, TensorInput) else None
        if size is None or not isinstance(state, TensorInput) or state.form is None:
            continue
        rows, columns = (
            list(_starts(whole, min(SIDE, state.bounds[dim][1]), state.overlap))
            for whole, dim in zip(size, (state.form.rows, state.form.columns), strict=True)
        )
        parts = [PhotoPart(top, left, high, wide) for top, high in rows for left, wide in columns]
        return PictureTiles(state, size, parts, [one.layout for one in outputs])
    return None


def _starts(whole: int, side: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield (start, length) of tiles along a side; the last one ends at the picture's edge."""
    if whole <= side:
        yield 0, whole
        return
    for start in range(0, whole - side, side - overlap):
        yield start, side
    yield whole - side, side
