"""Screenshots as PNG files of 256 colours."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from webpte_host.site.small_png import COLOURS, Pixels, encode, quantize

RNG = np.random.default_rng(5)


def decoded(png: bytes) -> Pixels:
    """Decode the one kind of PNG that is written here, and check its checksums."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(name + data),)
        chunks[name], at = data, at + 12 + length
    width, height, depth, kind = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    assert (depth, kind) == (8, 3)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    pixels: Pixels = palette[rows[:, 1:]]
    return pixels


def test_few_colours_stay_as_they_are() -> None:
    palette = RNG.integers(0, 256, (COLOURS, 3), dtype=np.uint8)
    pixels = palette[RNG.integers(0, COLOURS, (37, 41))]
    np.testing.assert_array_equal(decoded(encode(pixels)), pixels)


def test_many_colours_become_near_ones() -> None:
    ramp = np.linspace(0, 255, 89).astype(np.uint8)
    pixels = np.stack([*np.meshgrid(ramp, ramp[::-1]), np.full((89, 89), 90, np.uint8)], axis=2)
    pixels[:, :40] = (243, 246, 245)  # plain, as most of a page is
    palette, _ = quantize(pixels, COLOURS)
    assert len(palette) == COLOURS
    found = decoded(encode(pixels))
    np.testing.assert_array_equal(found[:, :40], pixels[:, :40])
    off = np.abs(found.astype(int) - pixels)
    assert off.max() <= 24
    assert off.mean() < 4
