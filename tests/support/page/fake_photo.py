"""A picture without a browser, scaled by NumPy."""

from __future__ import annotations

import struct
import zlib
from math import floor
from typing import Any

import numpy as np

from page.shared.inputs.photos import PhotoPart


class FakePhoto:
    """Pixels (height, width, 3) uint8 as a picture of the page."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels
        self.closed = False
        self.height, self.width = pixels.shape[:2]

    def part(self, box: PhotoPart, height: int, width: int) -> np.ndarray:
        top, left, rows, columns = box
        part = self.pixels[top : top + rows, left : left + columns]
        if part.shape[:2] == (height, width):
            return part
        return _scaled(part, height, width).round().astype(np.uint8)

    def close(self) -> None:
        self.closed = True


def pixels_of_png(data: bytes) -> np.ndarray:
    """Decode a PNG of colours as the page writes it: in one chunk, without filters."""
    width, height = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + size]), np.uint8)
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3).copy()


def _scaled(pixels: np.ndarray, height: int, width: int) -> Any:
    """Scale (rows, columns, 3) linearly, averaging where it gets smaller."""
    tall = np.tensordot(_weights(pixels.shape[0], height), pixels, 1)
    return np.einsum("wc,hcd->hwd", _weights(pixels.shape[1], width), tall)


def _weights(given: int, wanted: int) -> np.ndarray:
    """Return the weights (wanted, given) of old pixels in new pixels, as triangles."""
    step = given / wanted
    reach = max(1.0, step)
    weights = np.zeros((wanted, given))
    for at in range(wanted):
        centre = (at + 0.5) * step - 0.5
        first, last = max(0, floor(centre - reach)), min(given, floor(centre + reach) + 2)
        weights[at, first:last] = np.maximum(0, 1 - np.abs(np.arange(first, last) - centre) / reach)
    return weights / weights.sum(axis=1, keepdims=True)
