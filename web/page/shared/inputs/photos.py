"""Pictures and drawings as inputs: cropped or scaled to the input's size, then normalized.

photo  --fit, scaled by the browser-->  (height, width, 3) uint8  --mean, std-->  the input's layout
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.npy import Array
from webpte.engine.dtypes import array_dtype

LARGEST = 4096  # pixels a side of a loaded picture
LARGEST_PAD = 256
SMALLEST = 8
MOST_PIXELS = 6_000_000  # of a picture in tiles: Python keeps the whole answer

FITS = {"crop": "crop to fit", "pad": "letterbox", "stretch": "stretch"}
ORDERS = ("RGB", "BGR")
SCALES = {
    "unit": "0 to 1",
    "signed": "-1 to 1",
    "bytes": "0 to 255",
    "imagenet": "ImageNet mean and std",
    "own": "mean and std",
}
_MEAN_STD = {
    "unit": ((), ()),
    "signed": ((0.5,), (0.5,)),
    "bytes": ((), (1 / 255,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
_GREY = np.array([0.299, 0.587, 0.114], np.float32)  # how bright red, green and blue are


class PhotoPart(NamedTuple):
    """A part of a picture, in its pixels."""

    top: int
    left: int
    rows: int
    columns: int


class Photo(Protocol):
    """A decoded picture. The browser holds its pixels, and scales them."""

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    def part(self, box: PhotoPart, height: int, width: int) -> Array:
        """Return a part of the picture, scaled to (height, width, 3) uint8."""

    def close(self) -> None:
        """Release the pixels at once, instead of when nothing refers to them any more."""


@dataclass(frozen=True)
class Form:
    """The layout of an input that can hold a picture."""

    layout: str  # a letter per dim, such as NCHW
    channels: int

    @property
    def rows(self) -> int:
        return self.layout.index("H")

    @property
    def columns(self) -> int:
        return self.layout.index("W")


@dataclass(frozen=True)
class PhotoSettings:
    """Settings of the conversion to numbers. `mean` and `std` are per channel, or one for all."""

    fit: str = "crop"
    order: str = "RGB"
    scale: str = "unit"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return _MEAN_STD.get(self.scale, (self.mean, self.std))


def form_of(bounds: Sequence[tuple[int, int]], layout: str = "") -> Form | None:
    """Return the layout in which an input of these dims holds a picture; None if it cannot. A card
    may give the `layout`."""
    by_rank = {4: ("NCHW", "NHWC"), 3: ("CHW", "HWC")}
    for one in (layout,) if layout else by_rank.get(len(bounds), ()):
        if len(one) != len(bounds):
            continue
        sizes = dict(zip(one, bounds, strict=True))
        # A program with any dynamic dim offers all of them: the highest number is the real one.
        channels = sizes.get("C", (1, 1))[1]
        single = sizes.get("N", (1, 1))[0] <= 1
        large = min(sizes["H"][1], sizes["W"][1]) >= SMALLEST
        if channels in (1, 3) and single and large:
            return Form(one, channels)
    return None


def settings_of(value: CardValue | None) -> PhotoSettings:
    if value is None:
        return PhotoSettings()
    for name, (mean, std) in _MEAN_STD.items():
        if _alike(value.mean, mean, 0.0) and _alike(value.std, std, 1.0):
            return PhotoSettings(order=value.order, scale=name)
    return PhotoSettings("crop", value.order, "own", value.mean, value.std)


def _alike(given: tuple[float, ...], known: tuple[float, ...], default: float) -> bool:
    """Tell whether both are the same for every channel; () stands for the default."""
    one, other = given or (default,), known or (default,)
    if len(one) != len(other) and 1 not in (len(one), len(other)):
        return False
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-9))  # a range has been rounded


def whole_of(photo: Photo) -> PhotoPart:
    return PhotoPart(0, 0, photo.height, photo.width)


def natural_size(photo: Photo, rows: tuple[int, int], columns: tuple[int, int]) -> tuple[int, int]:
    """Return the picture's own (height, width), as far as the bounds allow it."""
    height, width = photo.height, photo.width
    scale = min(1.0, rows[1] / height, columns[1] / width)
    return (
        min(max(round(height * scale), rows[0]), rows[1]),
        min(max(round(width * scale), columns[0]), columns[1]),
    )


def tiled_size(photo: Photo) -> tuple[int, int]:
    """Return the (height, width) in which a picture is answered in tiles."""
    scale = min(1.0, (MOST_PIXELS / (photo.height * photo.width)) ** 0.5)
    return max(1, int(photo.height * scale)), max(1, int(photo.width * scale))


def prepare(
    source: Photo | Array, form: Form, settings: PhotoSettings, dims: Sequence[int], dtype: str
) -> Array:
    """Convert a picture, or a drawing (height, width) uint8, to the input's array."""
    height, width = dims[form.rows], dims[form.columns]
    if isinstance(source, np.ndarray):
        pixels = np.repeat(_sampled(source, height, width)[:, :, None], 3, axis=2)
    else:
        pixels = _fitted(source, height, width, settings.fit)
    return numbers_of(pixels, form, settings, dims, dtype)


def numbers_of(
    pixels: Array, form: Form, settings: PhotoSettings, dims: Sequence[int], dtype: str
) -> Array:
    """Convert pixels (height, width, 3) uint8 to an input's array of these dims."""
    fitted = pixels / np.float32(255)  # (height, width, 3)
    if form.channels == 1:
        fitted = (fitted @ _GREY)[:, :, None]
    elif settings.order == "BGR":
        fitted = fitted[:, :, ::-1]
    mean, std = settings.mean_std
    if array_dtype(dtype).kind in "iu":
        values = np.rint(fitted * 255).clip(0, np.iinfo(dtype).max)
    else:
        values = fitted - _row(mean) if mean else fitted
        values = values / _row(std) if std else values
    letters = form.layout.replace("N", "")
    moved = np.transpose(values if "C" in letters else values[:, :, 0], _axes(letters))
    return np.ascontiguousarray(moved.reshape(tuple(dims)), dtype=array_dtype(dtype))


def _row(values: Sequence[float]) -> Array:
    return np.array(values, np.float32)


def _axes(letters: str) -> list[int]:
    """Return the axes that turn (height, width[, channels]) into the layout."""
    return ["HWC".index(letter) for letter in letters]


def _fitted(photo: Photo, height: int, width: int, fit: str) -> Array:
    """Return the picture as (height, width, 3) uint8."""
    if fit == "crop":
        scale = min(photo.height / height, photo.width / width)
        rows = min(photo.height, max(1, round(height * scale)))
        columns = min(photo.width, max(1, round(width * scale)))
        box = PhotoPart((photo.height - rows) // 2, (photo.width - columns) // 2, rows, columns)
        return photo.part(box, height, width)
    if fit == "pad":
        scale = min(height / photo.height, width / photo.width)
        rows = min(height, max(1, round(photo.height * scale)))
        columns = min(width, max(1, round(photo.width * scale)))
        top, left = (height - rows) // 2, (width - columns) // 2
        canvas = np.zeros((height, width, 3), np.uint8)
        canvas[top : top + rows, left : left + columns] = photo.part(whole_of(photo), rows, columns)
        return canvas
    return photo.part(whole_of(photo), height, width)


def _sampled(grey: Array, height: int, width: int) -> Array:
    """Return a drawing in another size. It only differs after the input's size was changed."""
    if grey.shape == (height, width):
        return grey
    rows, columns = (
        np.arange(wanted) * given // wanted
        for wanted, given in zip((height, width), grey.shape, strict=True)
    )
    sampled: Array = grey[rows[:, None], columns]
    return sampled
