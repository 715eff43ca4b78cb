"""Encodes screenshots as small PNG files with at most 256 colours."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

COLOURS = 256
Pixels = NDArray[np.uint8]  # (height, width, 3)


def encode(pixels: Pixels, colours: int = COLOURS) -> bytes:
    """Encode a PNG with a palette; colours beyond its size are replaced by near colours."""
    height, width, _ = pixels.shape
    palette, indices = quantize(pixels, colours)
    # The byte before each row selects no filter, which compresses palettes best.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.tobytes()),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def quantize(pixels: Pixels, most: int) -> tuple[Pixels, Pixels]:
    """Return the palette (colours, 3) and every pixel's index in it (height, width)."""
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found, where, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16 & 255, found >> 8 & 255, found & 255], axis=1).astype(float)
    groups = _groups(colours, counts, most)
    palette = np.zeros((len(groups), 3), np.uint8)
    place = np.zeros(len(found), np.uint8)
    for index, members in enumerate(groups):
        mean = np.average(colours[members], axis=0, weights=counts[members])
        palette[index], place[members] = np.round(mean), index
    return palette, place[where.reshape(packed.shape)]


def _groups(
    colours: NDArray[np.float64], counts: NDArray[np.intp], most: int
) -> list[NDArray[np.intp]]:
    """Split the group whose pixels are furthest from their mean, repeatedly."""
    groups = [np.arange(len(colours))]
    errors = [_error(colours, counts, groups[0])]
    while len(groups) < most and max(errors) > 0:
        worst = int(np.argmax(errors))
        members = groups[worst]
        mean, spread = _moments(colours[members], counts[members])
        axis = int(np.argmax(spread))
        low = colours[members, axis] <= mean[axis]
        groups[worst : worst + 1] = [members[low], members[~low]]
        errors[worst : worst + 1] = [_error(colours, counts, part) for part in groups[worst:][:2]]
    return groups


def _moments(
    colours: NDArray[np.float64], counts: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean = np.average(colours, axis=0, weights=counts)
    return mean, np.average((colours - mean) ** 2, axis=0, weights=counts)


def _error(
    colours: NDArray[np.float64], counts: NDArray[np.intp], members: NDArray[np.intp]
) -> float:
    """Return a group's error along its split axis, damped so that large plain areas do not win."""
    _, spread = _moments(colours[members], counts[members])
    return float(spread.max() * counts[members].sum() ** 0.5) if len(members) > 1 else 0.0
