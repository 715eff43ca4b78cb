"""Pictures for the networks of OCR: scaled, padded, and cut out along four corners."""

from __future__ import annotations

import math

import numpy as np

from webpte.tasks.vision.interpolate import interpolate

Array = np.ndarray
_TALL = 1.5  # a crop with a larger height / width is turned by a quarter
_SHARPNESS = -0.75  # of the cubic curve


def resized(picture: Array, height: int, width: int) -> Array:
    """Return a picture (rows, columns, 3) uint8 in another size, by the four nearest pixels."""
    if picture.shape[:2] == (height, width):
        return picture
    planes = np.moveaxis(picture, -1, 0).astype(np.float32)
    made = interpolate(planes, height, width)
    return np.moveaxis(np.rint(made).astype(np.uint8), 0, -1)


def normalized(picture: Array) -> Array:
    """Return a picture as (3, rows, columns) float32 of -1 to 1: blue, green, red."""
    planes = np.moveaxis(picture[:, :, ::-1], -1, 0).astype(np.float32)
    return planes / np.float32(127.5) - np.float32(1)


def cut_out(picture: Array, corners: Array) -> Array:
    """Return the flattened part of a picture within four corners, clockwise from upper left."""
    edges = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)  # from the upper corner
    width, height = (max(1, int(max(edges[at], edges[at + 2]))) for at in (0, 1))
    flat = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)
    back = _perspective(flat, corners.astype(np.float64))
    crop = _sampled(picture, back, height, width)
    return np.rot90(crop) if height / width >= _TALL else crop


def _perspective(before: Array, after: Array) -> Array:
    """Return the matrix (3, 3) that maps four points to four others."""
    rows, values = [], []
    for (x, y), (u, v) in zip(before.tolist(), after.tolist(), strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    found = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    return np.append(found, 1).reshape(3, 3)


def _sampled(picture: Array, back: Array, height: int, width: int) -> Array:
    """Return a picture of a size; a matrix maps its pixels to places between another's pixels."""
    y, x = np.mgrid[:height, :width].astype(np.float64)
    u, v, w = (a * x + b * y + c for a, b, c in back)
    across, down = u / w, v / w
    left, top = np.floor(across).astype(int), np.floor(down).astype(int)
    columns = [np.clip(left + at, 0, picture.shape[1] - 1) for at in range(-1, 3)]
    rows = [np.clip(top + at, 0, picture.shape[0] - 1) for at in range(-1, 3)]
    wide, high = _cubic(across - left), _cubic(down - top)
    made = np.zeros((height, width, picture.shape[2]), np.float32)
    for row, tall in zip(rows, high, strict=True):
        line = sum(
            picture[row, column] * weight[:, :, None]
            for column, weight in zip(columns, wide, strict=True)
        )
        made += line * tall[:, :, None]
    return np.clip(np.rint(made), 0, 255).astype(np.uint8)


def _cubic(part: Array) -> list[Array]:
    """Return the weights of the four pixels around places between the second and the third."""
    a = _SHARPNESS
    near, far = part, 1 - part

    def outer(t: Array) -> Array:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    def inner(t: Array) -> Array:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    return [
        one.astype(np.float32) for one in (outer(near + 1), inner(near), inner(far), outer(far + 1))
    ]


def within_bounds(picture: Array, least: int, most: int, multiple: int) -> Array:
    """Return a picture with a longer side of at most `most`, and a shorter of at least `least`."""
    height, width = picture.shape[:2]
    if max(height, width) > most:
        picture = _scaled(picture, most / max(height, width), multiple)
    height, width = picture.shape[:2]
    if min(height, width) < least:
        picture = _scaled(picture, least / min(height, width), multiple)
    return picture


def _scaled(picture: Array, ratio: float, multiple: int) -> Array:
    return resized(picture, *(to_multiple(side * ratio, multiple) for side in picture.shape[:2]))


def to_multiple(size: float, multiple: int) -> int:
    """Return the multiple that is nearest to a size, but not 0."""
    return max(multiple, round(int(size) / multiple) * multiple)


def padded(picture: Array, ratio: float, least: int) -> tuple[Array, int]:
    """Return a picture with black margins above and below if it is wide or low, and the margins."""
    height, width = picture.shape[:2]
    if height > least and width / height <= ratio:
        return picture, 0
    wanted = 2 * max(int(width / ratio), least)
    more = int(abs(wanted - height) / 2)
    return np.pad(picture, ((more, more), (0, 0), (0, 0))), more


def line_width(picture: Array, height: int, most: int) -> int:
    """Return the width of a line scaled to a height."""
    return min(math.ceil(height * picture.shape[1] / picture.shape[0]), most)
