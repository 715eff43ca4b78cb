"""Reads and writes PNG files without a library, as arrays (height, width, channels) of bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 6: 4}  # grey, RGB, RGBA
_COLOURS = {channels: kind for kind, channels in _CHANNELS.items()}


def read_png(data: bytes) -> Array:
    """Decode a PNG with eight bits per channel, grey or colour, not interlaced."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("this is not a PNG file")
    chunks = list(_chunks(data))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError(f"cannot read a PNG of {depth} bits, kind {kind}, interlaced {interlaced}")
    channels = _CHANNELS[kind]
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.uint8)
    rows = []
    for line in lines:
        above = _unfiltered(int(line[0]), line[1:].reshape(width, channels), above)
        rows.append(above)
    return np.stack(rows)


def write_png(picture: Array) -> bytes:
    height, width, channels = picture.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # filter 0: unchanged
    lines[:, 1:] = picture.reshape(height, -1)
    body = zlib.compress(lines.tobytes(), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _unfiltered(kind: int, line: Array, above: Array) -> Array:
    """Undo the filter of one line (width, channels); sums are modulo 256."""
    if kind == 0:
        return line
    if kind == 1:  # minus the left neighbour
        return np.cumsum(line, 0, dtype=np.uint8)
    if kind == 2:  # minus the upper neighbour
        return line + above
    made = np.zeros_like(line)
    left = corner = [0] * line.shape[1]
    for at, (given, up) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
        if kind == 3:
            guess = [(a + b) // 2 for a, b in zip(left, up, strict=True)]
        else:
            guess = [_paeth(*three) for three in zip(left, up, corner, strict=True)]
        left = [(value + add) & 255 for value, add in zip(given, guess, strict=True)]
        corner = up
        made[at] = left
    return made


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbour nearest to left + up - corner."""
    distances = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    return (left, up, corner)[distances.index(min(distances))]
