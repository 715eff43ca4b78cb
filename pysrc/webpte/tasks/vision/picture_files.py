"""Decodes pictures by the browser, or by Pillow."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Any, TypeVar

import numpy as np

from webpte.engine.browser import IN_BROWSER
from webpte.engine.open.libraries import python_package
from webpte.engine.open.threads import in_thread
from webpte.errors import InputError

T = TypeVar("T")

# Pillow's formats to allow: the formats of browsers, and TIFF. Others start programs (EPS), or hold
# pictures of another size than their files name (ICO).
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
_BROKEN = (OSError, ValueError, SyntaxError)


async def decode_picture(source: Any) -> np.ndarray:
    """Return (height, width, 3) bytes of a picture's file: its bytes, in the browser also a URL or
    a Blob."""
    if not IN_BROWSER and isinstance(source, bytes):
        return await _decode_by_pillow(source)
    if not IN_BROWSER:
        raise InputError(
            f"a {type(source).__name__} is not a picture: give an array (height, width, 3) of "
            "uint8, or a picture that Pillow has opened"
        )
    from webpte.engine.browser.pictures import decode

    return await decode(source)


async def measure_picture(data: bytes) -> tuple[int, int]:
    """Return the height and width that a picture's file names; it is not decoded. Not in the
    browser."""
    width, height = await _by_pillow(data, lambda picture: picture.size)
    return height, width


async def _decode_by_pillow(data: bytes) -> np.ndarray:
    return await _by_pillow(data, lambda picture: np.asarray(picture.convert("RGB")))


async def _by_pillow(data: bytes, work: Callable[[Any], T]) -> T:
    """Return `work(picture)` of an opened picture."""
    await python_package("PIL", "pictures")
    return await in_thread(_opened, import_module("PIL.Image"), data, work)


def _opened(image: Any, data: bytes, work: Callable[[Any], T]) -> T:
    image.init()
    known = [name for name in _FORMATS if name in image.OPEN]
    try:
        with image.open(BytesIO(data), formats=known) as picture:
            return work(picture)
    except (*_BROKEN, image.DecompressionBombError, image.DecompressionBombWarning) as error:
        unknown = isinstance(error, image.UnidentifiedImageError)
        why = f"it is not {', '.join(known)}" if unknown else str(error)
        raise InputError(f"a file of {len(data):,} bytes is no picture: {why}") from error
