"""Pictures that the browser decodes: PNG, JPEG, WebP and its other formats."""

from __future__ import annotations

from typing import Any

import numpy as np
from js import Blob, OffscreenCanvas, createImageBitmap, fetch
from pyodide.ffi import JsException, to_js

from webpte.errors import InputError, SourceError


async def decode(source: Any) -> np.ndarray:
    """Return (height, width, 3) bytes of a picture: a URL, a Blob, or the bytes of a file.

    The picture is turned upright by its file's orientation.
    """
    try:
        # Keep the file's colours, because models were trained with them.
        bitmap = await createImageBitmap(await _blob(source), colorSpaceConversion="none")
    except JsException as error:
        raise SourceError(f"the browser cannot read the picture: {error.message}") from error
    try:
        height, width = int(bitmap.height), int(bitmap.width)
        context = OffscreenCanvas.new(width, height).getContext("2d")
        context.drawImage(bitmap, 0, 0)
        data = context.getImageData(0, 0, width, height).data.to_bytes()
    finally:
        bitmap.close()
    return np.frombuffer(data, np.uint8).reshape(height, width, 4)[:, :, :3].copy()


async def _blob(source: Any) -> Any:
    if isinstance(source, str):
        reply = await fetch(source)
        if not reply.ok:
            raise SourceError(f"{source}: the server answered {reply.status}")
        return await reply.blob()
    if isinstance(source, bytes | bytearray | memoryview):
        return Blob.new([to_js(bytes(source))])
    if hasattr(source, "arrayBuffer"):
        return source
    raise InputError(
        f"a {type(source).__name__} is not a picture: give an array (height, width, 3) of "
        "uint8, a URL, a Blob, or the bytes of a file"
    )
