"""Pictures to a model's input, by its preprocessor_config.json.

(height, width, 3) bytes  --resize, crop-->  bytes  --scale, mean, std-->  (3, height, width) f32
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError
from webpte.tasks.vision.scaling.resample import BICUBIC, BILINEAR
from webpte.tasks.vision.scaling.rule import (
    AS_IT_IS,
    FIT,
    LONGER,
    MOST_PIXELS,
    SHORTER,
    STRETCH,
    PictureRule,
)
from webpte.tasks.vision.scaling.steps import PictureSteps, Size, prepare_on_host

Array = np.ndarray
_WHOLE = 384  # ConvNeXt: pictures of at least this size are not cropped


@dataclass(frozen=True)
class _Processor:
    """A processor of transformers: its default settings.

    square      a single number as size is for both sides, not for the shorter
    crop        it crops the center
    normalizes  it subtracts means and divides by deviations
    pads        it makes pictures of a call equally large: a single picture is unchanged
    longest     it scales the longer side to a size, and pads to `pad_size`, right and below
    free        it takes pictures at their own size, which the task pads
    fits        it scales pictures to fit into a size, in the middle, and pads the rest
    """

    square: bool = True
    crop: bool = False
    resample: int = BILINEAR
    normalizes: bool = True
    pads: bool = False
    longest: bool = False
    free: bool = False
    fits: bool = False


# By the class name without its ending. Other classes have steps that are not implemented.
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
    "Detr": _Processor(square=False, pads=True),
    "Yolos": _Processor(square=False, pads=True),
    "ConditionalDetr": _Processor(square=False, pads=True),
    "DeformableDetr": _Processor(square=False, pads=True),
    "RTDetr": _Processor(square=False, normalizes=False),
    "DPT": _Processor(resample=BICUBIC),
    "Segformer": _Processor(),
    "OwlViT": _Processor(resample=BICUBIC),
    "Sam": _Processor(longest=True),
    "Sam2": _Processor(),
    # Not of transformers: see published.py.
    "Stretch": _Processor(),
    "Letterbox": _Processor(fits=True),
    "Swin2SR": _Processor(normalizes=False, free=True),
}
_ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")


class Preprocessor:
    """Prepares pictures for a model, by its preprocessor_config.json.

    name      the class name in transformers, without its ending: "ViT"
    settings  the file's
    """

    def __init__(self, settings: Table) -> None:
        self.settings = settings
        self.name, self._kind = _kind_of(settings)
        self._resample = settings.integer("resample", self._kind.resample)
        self._scale = settings.number("rescale_factor", 1 / 255)
        self._mean, self._std = (self._channels(key) for key in ("image_mean", "image_std"))
        if not np.all(self._std):
            raise InputError(f"{settings.name}: image_std has a 0, by which nothing can be divided")
        filled = settings.content.get("pad_size") or (
            not self._kind.pads and self._does("pad", False)
        )
        if filled and not (self._kind.longest or self._kind.free):
            raise UnsupportedError(f"{settings.name} pads pictures (do_pad), which webpte does not")
        if settings.content.get("keep_aspect_ratio"):
            raise UnsupportedError(
                f"{settings.name} keeps the proportions of pictures (keep_aspect_ratio), but a "
                "program takes pictures of one size: set it to false"
            )

    def _channels(self, key: str) -> Array:
        """Return a number for each channel, or a single number for all."""
        values = self.settings.content.get(key, None if self._kind.normalizes else 1)
        listed = values if isinstance(values, list) else [values]
        numbers = [one for one in listed if isinstance(one, int | float)]
        if len(numbers) != len(listed) or len(numbers) not in (1, 3):
            raise InputError(f"{self.settings.name}: {key} must have 3 numbers, got {values!r}")
        return np.array(numbers, np.float32)

    def _does(self, step: str, default: bool = True) -> bool:
        found = self.settings.content.get(f"do_{step}")
        return default if found is None else bool(found)

    def __call__(self, pixels: Array) -> Array:
        """Return a picture (height, width, 3) of bytes as (3, rows, columns), float32."""
        (made,) = prepare_on_host(self.steps(*pixels.shape[:2]), pixels)
        return made

    def steps(self, height: int, width: int) -> PictureSteps:
        """Return the steps for pictures of a size."""
        return self.rule.steps(height, width)

    @cached_property
    def rule(self) -> PictureRule:
        """The way from pictures of any size to the model's input."""
        scaled, size = self._scaled()
        part, empty = None, False
        if self._kind.fits:
            part = size
        elif self._kind.longest and self._does("pad"):
            part, empty = self.padded_size, True
            if min(np.subtract(part, size)) < 0:
                raise InputError(
                    f"{self.settings.name}: pad_size is smaller than size, the longest side"
                )
        elif self.name == "ConvNext":
            part = (self._side("size"),) * 2 if scaled == SHORTER else None
        elif self._does("center_crop", self._kind.crop):
            part = self._size("crop_size")
        whole = self.settings.integer("ensure_multiple_of", 1, low=1, high=MOST_PIXELS)
        made = PictureRule(scaled, size, whole, part, self._resample, empty=empty)
        if self._does("rescale"):
            made = replace(made, scale=self._scale)
        if self._does("normalize", self._kind.normalizes):
            made = replace(made, mean=tuple(self._mean.tolist()), std=tuple(self._std.tolist()))
        return made

    @property
    def padded_size(self) -> Size:
        """The height and width to which pictures are padded."""
        return self._both("pad_size", self.settings.content.get("pad_size"))

    def _scaled(self) -> tuple[str, Size]:
        """Return how pictures are scaled, and to which size."""
        if not self._does("resize", not self._kind.free):
            return AS_IT_IS, (0, 0)
        size = self.settings.content.get("size")
        if self._kind.fits:
            return FIT, self._both("size", size)
        if self._kind.longest:
            side = size.get("longest_edge") if isinstance(size, dict) else None
            return LONGER, (self._checked("size", side),) * 2
        if self.name == "ConvNext":
            side = self._side("size")
            if side >= _WHOLE:
                return STRETCH, (side, side)
            share = self.settings.number("crop_pct", None) or 224 / 256
            return SHORTER, (int(side / share),) * 2
        by_shorter = isinstance(size, dict) and size.keys() == {"shortest_edge"}
        if by_shorter or not (self._kind.square or isinstance(size, dict)):
            return SHORTER, (self._side("size"),) * 2
        return STRETCH, self._size("size")

    def _side(self, key: str) -> int:
        size = self.settings.content.get(key)
        side = size.get("shortest_edge") if isinstance(size, dict) else size
        return self._checked(key, side)

    def _size(self, key: str) -> Size:
        """Return a height and a width; a single number is both."""
        size = self.settings.content.get(key)
        if isinstance(size, dict) and size.keys() == {"height", "width"}:
            return self._both(key, size)
        side = self._side(key)
        if isinstance(size, dict):
            raise UnsupportedError(
                f"{self.settings.name}: a {key} of {', '.join(size)} is not supported"
            )
        return side, side

    def _both(self, key: str, size: Any) -> Size:
        height, width = (
            self._checked(key, size.get(side) if isinstance(size, dict) else None)
            for side in ("height", "width")
        )
        return height, width

    def _checked(self, key: str, side: Any) -> int:
        if type(side) is not int or not 1 <= side <= MOST_PIXELS:
            raise InputError(
                f"{self.settings.name}: {key} is {self.settings.content.get(key)!r}, which is no "
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
