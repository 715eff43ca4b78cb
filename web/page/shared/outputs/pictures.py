"""Tensors as small PNGs: an image where it looks like one, else a heat map.

A PNG in a data URL is one string in the HTML: no canvas, no pixel loop on the main thread, and it
can be tested without a browser.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from page.shared.npy import Array

MAX_SIDE = 256  # pixels; larger planes are thinned out by whole steps
LARGEST_SIDE = 1 << 14  # pixels of a picture that browsers show
MAX_TILES = 16
_MISSING = 255  # palette entry of NaN and infinities

_Stops = tuple[tuple[float, int, int, int], ...]

# (position, red, green, blue): dark to bright for values of one sign, two hues around zero else.
_SEQUENTIAL: _Stops = (
    (0.0, 10, 34, 48),
    (0.35, 14, 96, 104),
    (0.7, 72, 178, 140),
    (1.0, 246, 240, 170),
)
_DIVERGING: _Stops = (
    (0.0, 22, 70, 140),
    (0.25, 104, 158, 206),
    (0.5, 246, 244, 238),
    (0.75, 230, 142, 92),
    (1.0, 158, 46, 24),
)
_MISSING_COLOUR = (214, 0, 170)


@dataclass(frozen=True)
class Picture:
    """A PNG and its description."""

    kind: str  # "image" or "heat map"
    caption: str
    width: int
    height: int
    png: bytes
    low: float
    high: float
    bottom: float = 0.0  # of the colours' scale, which is even around zero for both signs
    top: float = 0.0
    diverging: bool = False

    @property
    def url(self) -> str:
        return data_url(self.png)


def picture(array: Array) -> Picture | None:
    """Return the picture of a tensor, or None where a picture would say nothing."""
    if array.dtype.kind not in "fiub" or array.size < 16:
        return None
    planes = array
    while planes.ndim > 2 and planes.shape[0] == 1:
        planes = planes[0]
    if planes.ndim == 3 and planes.shape[0] == 3 and min(planes.shape[1:]) >= 8:
        return _image(np.moveaxis(planes, 0, -1))
    if planes.ndim == 3 and planes.shape[-1] == 3 and min(planes.shape[:2]) >= 8:
        return _image(planes)
    if planes.ndim > 2:
        planes = planes.reshape(-1, *planes.shape[-2:])
        if min(planes.shape[1:]) < 2:
            return None
        return _tiles(planes)
    if planes.ndim == 2 and min(planes.shape) >= 2:
        return heat_map(planes)
    return None


def seen(array: Array, layout: str) -> str:
    """Return an input picture as a data URL: its lowest value is black, its highest white.

    `layout` has a letter per dim, such as NCHW.
    """
    return data_url(png_rgb(seen_pixels(array, layout)))


def seen_pixels(
    array: Array,
    layout: str,
    side: int = MAX_SIDE,
    scale: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Array:
    """Return an input picture as (height, width, 3) uint8, no side over `side`.

    `scale`: the mean and std that pixels of 0 to 1 were normalized by, which is undone. Without it,
    the lowest value is black and the highest white.
    """
    planes = array[0] if layout.startswith("N") else array
    letters = layout.removeprefix("N")
    pixels = planes[:, :, None] if "C" not in letters else planes
    if "C" in letters:
        pixels = np.transpose(planes, [letters.index(letter) for letter in "HWC"])
    pixels = shrunk(pixels, side)
    if scale is None:
        return levels(pixels, stretch=True)
    if pixels.dtype.kind in "iu":
        return levels(pixels, (0.0, 255.0))
    mean, std = (
        np.array(values or (default,), np.float32)
        for values, default in zip(scale, (0.0, 1.0), strict=True)
    )
    return levels(pixels * std + mean, (0.0, 1.0))


def levels(pixels: Array, ends: tuple[float, float] | None = None, stretch: bool = False) -> Array:
    """Convert (height, width, channels) to (height, width, 3) uint8.

    `ends` are the values of black and white: by default 0 to 1 or 0 to 255, if the values fit.
    Others, or with `stretch` all, are stretched from the lowest to the highest.
    """
    if pixels.dtype == np.uint8 and not stretch and ends in (None, (0.0, 255.0)):
        return np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    wide = pixels.astype(np.float32)  # a copy, which the steps below change in place
    low, high = float(wide.min(initial=np.inf)), float(wide.max(initial=-np.inf))
    finite = bool(np.isfinite(low) and np.isfinite(high))
    if not finite:
        low, high = _limits(wide)
    if ends is None:
        ends = (low, high)
        if not stretch and low >= 0 and high <= 255:
            ends = (0.0, 1.0 if high <= 1 and pixels.dtype.kind != "u" else 255.0)
    with np.errstate(invalid="ignore"):
        wide -= np.float32(ends[0])
        wide *= np.float32(255 / ((ends[1] - ends[0]) or 1.0))
    if not finite:
        np.nan_to_num(wide, copy=False, nan=0.0, posinf=255.0, neginf=0.0)
    np.rint(wide, out=wide).clip(0, 255, out=wide)
    return np.broadcast_to(wide.astype(np.uint8), (*wide.shape[:2], 3))


def data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def thinning(shape: Sequence[int], side: int = MAX_SIDE) -> tuple[int, int]:
    """Return the steps (down, across) at which a large plane is sampled."""
    down, across = (max(1, -(-size // side)) for size in shape[:2])
    return down, across


def thinned(plane: Array, side: int = MAX_SIDE) -> Array:
    down, across = thinning(plane.shape, side)
    return plane[::down, ::across]


def shrunk(pixels: Array, side: int = MAX_SIDE) -> Array:
    """Return a picture with no side over `side`, in its proportions: every nth pixel each way."""
    step = max(thinning(pixels.shape, side))
    return pixels[::step, ::step]


def heat_map(plane: Array, side: int = MAX_SIDE) -> Picture:
    """Return a plane (rows, columns) in colours."""
    return _heat(thinned(plane, side), "rows down, columns across")


def scale_url(diverging: bool) -> str:
    """Return the colours of a heat map, from left to right."""
    palette = _palette(_DIVERGING if diverging else _SEQUENTIAL)
    return data_url(png_indexed(np.arange(255, dtype=np.uint8)[None], palette))


def _limits(values: Array) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 0.0
    return float(finite.min()), float(finite.max())


def _image(pixels: Array) -> Picture:  # (height, width, 3)
    pixels = shrunk(pixels).astype(np.float64)
    low, high = _limits(pixels)
    if low >= 0 and high <= 1:
        scaled, how = pixels * 255, "red, green and blue, 0 to 1"
    elif low >= 0 and high <= 255:
        scaled, how = pixels, "red, green and blue, 0 to 255"
    else:
        scaled = (pixels - low) * (255 / ((high - low) or 1.0))
        how = "red, green and blue, stretched from the lowest to the highest value"
    rgb = np.nan_to_num(scaled, nan=0.0, posinf=255.0, neginf=0.0).clip(0, 255).astype(np.uint8)
    height, width = rgb.shape[:2]
    return Picture("image", how, width, height, png_rgb(rgb), low, high)


def _tiles(planes: Array) -> Picture:  # (planes, height, width)
    shown = planes[:MAX_TILES]
    columns = int(np.ceil(np.sqrt(len(shown))))
    rows = -(-len(shown) // columns)
    side = max(8, MAX_SIDE // max(rows, columns))
    tiles = [thinned(plane, side).astype(np.float64) for plane in shown]
    height, width = tiles[0].shape
    sheet = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    gap = np.ones(sheet.shape, bool)
    for index, tile in enumerate(tiles):
        top, left = (index // columns) * (height + 1), (index % columns) * (width + 1)
        sheet[top : top + height, left : left + width] = tile
        gap[top : top + height, left : left + width] = False
    if len(planes) == 1:
        caption = "rows down, columns across"
    elif len(shown) == len(planes):
        caption = f"all {len(planes)} planes, from the upper left"
    else:
        caption = f"the first {len(shown)} of {len(planes)} planes, from the upper left"
    return _heat(sheet, caption, gap)


def _heat(plane: Array, caption: str, gap: Array | None = None) -> Picture:  # (height, width)
    plane = plane.astype(np.float64)
    low, high = _limits(plane)
    if low < 0 < high:
        reach = max(-low, high)
        bottom, span, stops = -reach, 2 * reach, _DIVERGING
    else:
        bottom, span, stops = low, high - low, _SEQUENTIAL
    with np.errstate(invalid="ignore"):
        level = (plane - bottom) * (254 / (span or 1.0))
    index = np.where(np.isfinite(level), level, _MISSING).clip(0, 255).astype(np.uint8)
    palette = _palette(stops)
    transparent: tuple[int, ...] = ()
    if gap is not None:
        # The palette has no room to spare, so the gaps share the last level with the highest value.
        index = np.where(index == 254, 253, index).astype(np.uint8)
        index[gap] = 254
        transparent = (254,)
    height, width = index.shape
    png = png_indexed(index, palette, transparent)
    ends = (bottom, bottom + span)
    return Picture(
        "heat map", caption, width, height, png, low, high, *ends, diverging=stops is _DIVERGING
    )


def _palette(stops: _Stops) -> Array:
    at = np.linspace(0, 1, 255)
    where = [stop[0] for stop in stops]
    colours = [np.interp(at, where, [stop[channel] for stop in stops]) for channel in (1, 2, 3)]
    return np.vstack([np.stack(colours, axis=1), _MISSING_COLOUR]).round().astype(np.uint8)


def bmp(pixels: Array) -> bytes:
    """Encode (height, width, 3) uint8 as a bitmap file, which takes no time to compress."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, -(-3 * width // 4) * 4), np.uint8)
    rows[:, : 3 * width] = pixels[::-1, :, ::-1].reshape(height, -1)  # upwards, and as BGR
    head = struct.pack("<2sIHHI", b"BM", 54 + rows.nbytes, 0, 0, 54)
    size = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, rows.nbytes, 0, 0, 0, 0)
    return head + size + rows.tobytes()


def png_rgb(pixels: Array) -> bytes:
    """Encode (height, width, 3) uint8 as PNG."""
    height, width = pixels.shape[:2]
    return _png(width, height, 2, pixels.reshape(height, -1), b"")


def png_rgba(pixels: Array) -> bytes:
    """Encode (height, width, 4) uint8, with alpha, as PNG."""
    height, width = pixels.shape[:2]
    return _png(width, height, 6, pixels.reshape(height, -1), b"")


def png_grey(pixels: Array) -> bytes:
    """Encode (height, width) uint8 as PNG."""
    height, width = pixels.shape
    return _png(width, height, 0, pixels, b"")


def png_indexed(index: Array, palette: Array, transparent: tuple[int, ...] = ()) -> bytes:
    """Encode (height, width) uint8 with a (256, 3) uint8 palette as PNG."""
    height, width = index.shape
    extra = _chunk(b"PLTE", palette.tobytes())
    if transparent:
        alpha = bytearray([255]) * (max(transparent) + 1)
        for entry in transparent:
            alpha[entry] = 0
        extra += _chunk(b"tRNS", bytes(alpha))
    return _png(width, height, 3, index, extra)


def _png(width: int, height: int, colour_type: int, rows: Array, extra: bytes) -> bytes:
    lines = np.zeros((height, rows.shape[1] + 1), np.uint8)  # each row starts with filter type 0
    lines[:, 1:] = rows
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + extra
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
