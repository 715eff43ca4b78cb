"""Pictures to a model's input, by its preprocessor_config.json.

(height, width, 3) bytes  --resize, crop-->  bytes  --scale, mean, std-->  (3, height, width) f32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError
from webpte.tasks.vision.scaling.resample import BICUBIC, BILINEAR
from webpte.tasks.vision.scaling.steps import (
    PicturePart,
    PictureSteps,
    Size,
    colour_table,
    prepare_on_host,
)

Array = np.ndarray
_MOST_PIXELS = 1 << 14  # per side
_NOTHING = np.zeros((1, 3), np.float32)  # colour of padding
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
        given = size = (height, width)
        resizes = list[Size]()
        cropped: Size | None = None
        if self._does("resize", not self._kind.free):
            size, cropped = self._resized(size)
            resizes.append(size)
        if self.name != "ConvNext" and self._does("center_crop", self._kind.crop):
            cropped = self._size("crop_size", square=True, picture=size)
        place, outside = PicturePart(len(resizes)), None
        if cropped is not None:
            top, left = ((old - new) // 2 for old, new in zip(size, cropped, strict=True))
            place, size = PicturePart(len(resizes), top, left), cropped
        if self._kind.fits:
            (top, left), size = self.fitted(*given)[1], self._both("size", self._content_size)
            place, outside = PicturePart(1, -top, -left), self._colours()[:1]
        if self._kind.longest and self._does("pad"):
            if min(np.subtract(self.padded_size, size)) < 0:
                raise InputError(
                    f"{self.settings.name}: pad_size is smaller than size, the longest side"
                )
            size, outside = self.padded_size, _NOTHING
        table = colour_table(self._colours(), outside)
        return PictureSteps(given, tuple(resizes), self._resample, (place,), size, table)

    def _colours(self) -> Array:
        """Return the float for each byte (256, 1), or for each byte and channel (256, 3)."""
        levels = np.arange(256)[:, None]
        values = levels.astype(np.float32)
        if self._does("rescale"):
            values = (levels.astype(np.float64) * self._scale).astype(np.float32)
        if self._does("normalize", self._kind.normalizes):
            values = (values - self._mean) / self._std
        return values

    @property
    def padded_size(self) -> Size:
        """The height and width to which pictures are padded."""
        return self._both("pad_size", self.settings.content.get("pad_size"))

    def scaled_size(self, height: int, width: int) -> Size:
        """Return the height and width of a picture with its longest side scaled."""
        size = self.settings.content.get("size")
        side = self._checked("size", size.get("longest_edge") if isinstance(size, dict) else None)
        scale = side / max(height, width)
        return max(int(height * scale + 0.5), 1), max(int(width * scale + 0.5), 1)

    @property
    def _content_size(self) -> Any:
        return self.settings.content.get("size")

    def fitted(self, height: int, width: int) -> tuple[Size, Size]:
        """Return the size of a picture that is scaled to fit, and its place: top and left."""
        whole = self._both("size", self._content_size)
        scale = min(whole[0] / height, whole[1] / width)
        rows, columns = (max(int(side * scale + 0.5), 1) for side in (height, width))
        return (rows, columns), ((whole[0] - rows) // 2, (whole[1] - columns) // 2)

    def _resized(self, size: Size) -> tuple[Size, Size | None]:
        """Return the size to scale a picture to, and the size of its center crop, if any."""
        if self._kind.fits:
            return self.fitted(*size)[0], None
        if self._kind.longest:
            return self.scaled_size(*size), None
        if self.name != "ConvNext":
            wanted = self._size("size", square=self._kind.square, picture=size)
            whole = self.settings.integer("ensure_multiple_of", 1, low=1, high=_MOST_PIXELS)
            height, width = (max(round(side / whole), 1) * whole for side in wanted)
            return (height, width), None
        side = self._side("size")
        if side >= _WHOLE:
            return (side, side), None
        share = self.settings.number("crop_pct", None) or 224 / 256
        return _fitted(size, int(side / share)), (side, side)

    def _side(self, key: str) -> int:
        size = self.settings.content.get(key)
        side = size.get("shortest_edge") if isinstance(size, dict) else size
        return self._checked(key, side)

    def _size(self, key: str, *, square: bool, picture: Size) -> Size:
        """Return a height and a width."""
        size = self.settings.content.get(key)
        if isinstance(size, dict) and size.keys() == {"height", "width"}:
            return self._both(key, size)
        side = self._side(key)
        if square and not isinstance(size, dict):
            return side, side
        if isinstance(size, dict) and size.keys() != {"shortest_edge"}:
            raise UnsupportedError(
                f"{self.settings.name}: a {key} of {', '.join(size)} is not supported"
            )
        return _fitted(picture, side)

    def _both(self, key: str, size: Any) -> Size:
        height, width = (
            self._checked(key, size.get(side) if isinstance(size, dict) else None)
            for side in ("height", "width")
        )
        return height, width

    def _checked(self, key: str, side: Any) -> int:
        if type(side) is not int or not 1 <= side <= _MOST_PIXELS:
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


def _fitted(size: Size, side: int) -> Size:
    """Return the size with a shorter side of this many pixels, and the same proportions."""
    height, width = size
    longer = int(side * max(height, width) / min(height, width))
    if longer > _MOST_PIXELS:
        raise InputError(f"a picture of {width} by {height} pixels is too long to be resized")
    return (longer, side) if width <= height else (side, longer)
