"""Decodes pictures where there is something that can: the browser."""

from __future__ import annotations

from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.runtime.base.open import IN_BROWSER


async def decode_picture(source: Any) -> np.ndarray:
    """Return (height, width, 3) bytes of a picture's file: a URL, a Blob, or its bytes."""
    if not IN_BROWSER:
        raise InputError(
            f"a {type(source).__name__} is not a picture: give an array (height, width, 3) of "
            "uint8, or a picture that Pillow has opened"
        )
    from webpte.gpu.browser.pictures import decode

    return await decode(source)
