"""Pictures to a model's input, as its preprocessor_config.json says.

(height, width, 3) bytes  --resize, crop-->  bytes  --scale, mean, std-->  (3, height, width) f32
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.errors import InputError, UnsupportedError
from webpte.json_reader import Table
from webpte.tasks.resample import BICUBIC, BILINEAR, resize

Array = np.ndarray
_MOST_PIXELS = 1 << 14  # of a side
_WHOLE = 384  # ConvNeXt: pictures as large as this are not cropped


@dataclass(frozen=True)
class _Processor:
    """A processor of transformers: the settings that hold where its file does not say.

    square   a size of one number is that of both sides, not of the shorter one
    crop     it crops the center
    """

    square: bool = True
    crop: bool = False
    resample: int = BILINEAR


# By the name of the class without its ending. Others have steps that are not written here.
_KINDS = {
    "ViT": _Processor(),
    "DeiT": _Processor(crop=True, resample=BICUBIC),
    "Beit": _Processor(crop=True, resample=BICUBIC),
    "Siglip": _Processor(resample=BICUBIC),
    "CLIP": _Processor(square=False, crop=True, resample=BICUBIC),
    "Bit": _Processor(square=False, crop=True, resample=BICUBIC),
    "ConvNext": _Processor(square=False),
    "MobileNetV1": _Processor(square=False, crop=True),
    "MobileNetV2": _Processor(square=False, crop=True),
}
_ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")


class Preprocessor:
    """Prepares pictures for a model, by its preprocessor_config.json."""

    def __init__(self, settings: Table) -> None:
        self._settings = settings
        self._name, self._kind = _kind_of(settings)
        self._resample = settings.integer("resample", self._kind.resample)
        self._scale = settings.number("rescale_factor", 1 / 255)
        self._mean, self._std = (self._channels(key) for key in ("image_mean", "image_std"))
        if not np.all(self._std):
            raise InputError(f"{settings.name}: image_std has a 0, by which nothing can be divided")
        if settings.flag("do_pad", None):
            raise UnsupportedError(f"{settings.name} pads pictures (do_pad), which webpte does not")

    def _channels(self, key: str) -> Array:
        """Return a number for each channel, or one for all."""
        values = self._settings.content.get(key)
        listed = values if isinstance(values, list) else [values]
        numbers = [one for one in listed if isinstance(one, int | float)]
        if len(numbers) != len(listed) or len(numbers) not in (1, 3):
            raise InputError(f"{self._settings.name}: {key} must have 3 numbers, got {values!r}")
        return np.array(numbers, np.float32)

    def _does(self, step: str, default: bool = True) -> bool:
        found = self._settings.content.get(f"do_{step}")
        return default if found is None else bool(found)

    def __call__(self, pixels: Array) -> Array:
        """Return a picture (height, width, 3) of bytes as (3, rows, columns), float32."""
        if self._does("resize"):
            pixels = self._resized(pixels)
        if self._name != "ConvNext" and self._does("center_crop", self._kind.crop):
            pixels = _cropped(pixels, *self._size("crop_size", square=True, picture=pixels))
        values = pixels.astype(np.float32)
        if self._does("rescale"):
            values = (pixels.astype(np.float64) * self._scale).astype(np.float32)
        if self._does("normalize"):
            values = (values - self._mean) / self._std
        return np.ascontiguousarray(np.moveaxis(values, 2, 0))

    def _resized(self, pixels: Array) -> Array:
        if self._name != "ConvNext":
            size = self._size("size", square=self._kind.square, picture=pixels)
            return resize(pixels, *size, self._resample)
        side = self._side("size")
        if side >= _WHOLE:
            return resize(pixels, side, side, self._resample)
        share = self._settings.number("crop_pct", None) or 224 / 256
        larger = _fitted(pixels, int(side / share))
        return _cropped(resize(pixels, *larger, self._resample), side, side)

    def _side(self, key: str) -> int:
        size = self._settings.content.get(key)
        side = size.get("shortest_edge") if isinstance(size, dict) else size
        return self._checked(key, side)

    def _size(self, key: str, *, square: bool, picture: Array) -> tuple[int, int]:
        """Return a height and a width."""
        size = self._settings.content.get(key)
        if isinstance(size, dict) and size.keys() == {"height", "width"}:
            return self._checked(key, size["height"]), self._checked(key, size["width"])
        side = self._side(key)
        if square and not isinstance(size, dict):
            return side, side
        if isinstance(size, dict) and size.keys() != {"shortest_edge"}:
            raise UnsupportedError(
                f"{self._settings.name}: a {key} of {', '.join(size)} is not supported"
            )
        return _fitted(picture, side)

    def _checked(self, key: str, side: Any) -> int:
        if type(side) is not int or not 1 <= side <= _MOST_PIXELS:
            raise InputError(
                f"{self._settings.name}: {key} is {self._settings.content.get(key)!r}, which is no "
                "size of a picture"
            )
        return side


def _kind_of(settings: Table) -> tuple[str, _Processor]:
    named = settings.text("image_processor_type", None) or settings.text(
        "feature_extractor_type", "ViTImageProcessor"
    )
    name = str(named)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    if name not in _KINDS:
        raise UnsupportedError(
            f"{settings.name}: webpte does not know what a {named} does; it knows those of "
            + ", ".join(_KINDS)
        )
    return name, _KINDS[name]


def _fitted(pixels: Array, side: int) -> tuple[int, int]:
    """Return the size with a shorter side of this many pixels, and the same proportions."""
    height, width = pixels.shape[:2]
    longer = int(side * max(height, width) / min(height, width))
    if longer > _MOST_PIXELS:
        raise InputError(f"a picture of {width} by {height} pixels is too long to be resized")
    return (longer, side) if width <= height else (side, longer)


def _cropped(pixels: Array, height: int, width: int) -> Array:
    """Return the center of a picture, with black around it where that is smaller."""
    rows, columns = pixels.shape[:2]
    canvas = np.zeros((max(height, rows), max(width, columns), 3), np.uint8)
    top, left = math.ceil((len(canvas) - rows) / 2), math.ceil((canvas.shape[1] - columns) / 2)
    canvas[top : top + rows, left : left + columns] = pixels
    top += (rows - height) // 2
    left += (columns - width) // 2
    return canvas[top : top + height, left : left + width]
