"""Decodes pictures where there is something that can: the browser, or Pillow."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.runtime.base.libraries import python_package
from webpte.runtime.base.open import IN_BROWSER


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
    from webpte.gpu.browser.pictures import decode

    return await decode(source)


async def _decode_by_pillow(data: bytes) -> np.ndarray:
    await python_package("PIL", "pictures")
    image = import_module("PIL.Image")
    try:
        with image.open(BytesIO(data)) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise InputError(f"a file of {len(data):,} bytes is no picture: {error}") from error
