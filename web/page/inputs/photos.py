"""Pictures and drawings as inputs: cropped or scaled to the input's size, then normalized.

pixels (height, width, 3) uint8  --fit, resize-->  0 to 1  --mean, std-->  the input's layout
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from page.cards.cards import CardValue
from page.npy import Array

LARGEST = 2048  # pixels a side of a loaded picture
LARGEST_PAD = 256
SMALLEST = 8

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


def natural_size(pixels: Array, rows: tuple[int, int], columns: tuple[int, int]) -> tuple[int, int]:
    """Return the picture's own (height, width), as far as the bounds allow it."""
    height, width = pixels.shape[:2]
    scale = min(1.0, rows[1] / height, columns[1] / width)
    return (
        min(max(round(height * scale), rows[0]), rows[1]),
        min(max(round(width * scale), columns[0]), columns[1]),
    )


def prepare(
    pixels: Array, form: Form, settings: PhotoSettings, dims: Sequence[int], dtype: str
) -> Array:
    """Convert a picture (height, width, 3) or a drawing (height, width), uint8, to the input's
    array."""
    height, width = dims[form.rows], dims[form.columns]
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    fitted = _fitted(pixels, height, width, settings.fit) / np.float32(255)  # (height, width, 3)
    if form.channels == 1:
        fitted = (fitted @ _GREY)[:, :, None]
    elif settings.order == "BGR":
        fitted = fitted[:, :, ::-1]
    mean, std = settings.mean_std
    if np.dtype(dtype).kind in "iu":
        values = np.rint(fitted * 255).clip(0, np.iinfo(dtype).max)
    else:
        values = (fitted - _row(mean or (0,))) / _row(std or (1,))
    letters = form.layout.replace("N", "")
    moved = np.transpose(values if "C" in letters else values[:, :, 0], _axes(letters))
    return np.ascontiguousarray(moved.reshape(tuple(dims)), dtype=dtype)


def _row(values: Sequence[float]) -> Array:
    return np.array(values, np.float32)


def _axes(letters: str) -> list[int]:
    """Return the axes that turn (height, width[, channels]) into the layout."""
    return ["HWC".index(letter) for letter in letters]


def _fitted(pixels: Array, height: int, width: int, fit: str) -> Array:
    given_height, given_width = pixels.shape[:2]
    if fit == "crop":
        scale = min(given_height / height, given_width / width)
        rows = min(given_height, max(1, round(height * scale)))
        columns = min(given_width, max(1, round(width * scale)))
        top, left = (given_height - rows) // 2, (given_width - columns) // 2
        return resized(pixels[top : top + rows, left : left + columns], height, width)
    if fit == "pad":
        scale = min(height / given_height, width / given_width)
        rows = min(height, max(1, round(given_height * scale)))
        columns = min(width, max(1, round(given_width * scale)))
        top, left = (height - rows) // 2, (width - columns) // 2
        canvas = np.zeros((height, width, 3), np.float32)
        canvas[top : top + rows, left : left + columns] = resized(pixels, rows, columns)
        return canvas
    return resized(pixels, height, width)


def resized(pixels: Array, height: int, width: int) -> Array:
    """Resize (h, w, channels) linearly, averaging where it gets smaller."""
    given_height, given_width, channels = pixels.shape
    flat = pixels.reshape(given_height, -1).astype(np.float32)
    tall = _weights(given_height, height) @ flat  # (height, w * channels)
    tall = tall.reshape(height, given_width, channels).transpose(1, 0, 2)
    wide = _weights(given_width, width) @ tall.reshape(given_width, -1)
    made: Array = wide.reshape(width, height, channels).transpose(1, 0, 2)
    return made


def _weights(given: int, wanted: int) -> Array:
    """Return the weights (wanted, given) of old pixels in new ones, as triangles."""
    step = given / wanted
    reach = max(1.0, step)
    weights = np.zeros((wanted, given), np.float32)
    for at in range(wanted):
        centre = (at + 0.5) * step - 0.5
        first, last = max(0, floor(centre - reach)), min(given, floor(centre + reach) + 2)
        near = np.arange(first, last)
        weights[at, first:last] = np.maximum(0, 1 - np.abs(near - centre) / reach)
    return weights / weights.sum(axis=1, keepdims=True)
