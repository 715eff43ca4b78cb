from __future__ import annotations

import numpy as np
import pytest

from page.shared.outputs.pictures import MAX_SIDE, picture, png_indexed, png_rgb
from support.write.pngs import read_png


def test_png_round_trip() -> None:
    rgb = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert (read_png(png_rgb(rgb)) == rgb).all()
    index = np.array([[0, 1], [2, 255]], np.uint8)
    palette = np.arange(256 * 3, dtype=np.int64).astype(np.uint8).reshape(256, 3)
    assert (read_png(png_indexed(index, palette, (2,))) == palette[index]).all()


def test_an_image() -> None:
    pixels = np.random.default_rng(1).random((1, 3, 12, 10), np.float32)
    made = picture(pixels)
    assert made is not None
    assert (made.kind, made.width, made.height) == ("image", 10, 12)
    wanted = (np.moveaxis(pixels[0], 0, -1) * 255).astype(np.uint8)
    assert np.abs(read_png(made.png).astype(int) - wanted).max() <= 1
    assert made.url.startswith("data:image/png;base64,")


def test_channels_last_and_bytes() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (9, 8, 3)).astype(np.uint8)
    made = picture(pixels)
    assert made is not None
    assert (read_png(made.png) == pixels).all()


def test_an_image_out_of_range_is_stretched() -> None:
    made = picture(np.linspace(-2, 2, 3 * 8 * 8, dtype=np.float32).reshape(3, 8, 8))
    assert made is not None
    assert "stretched" in made.caption
    assert read_png(made.png).max() == 255


def test_a_matrix_is_a_heat_map_from_dark_to_bright() -> None:
    made = picture(np.arange(20, dtype=np.float32).reshape(4, 5))
    assert made is not None
    assert (made.kind, made.width, made.height) == ("heat map", 5, 4)
    light = read_png(made.png).sum(axis=-1).astype(int).reshape(-1)
    assert (np.diff(light) > 0).all()


def test_both_signs_meet_at_a_neutral_middle() -> None:
    made = picture(np.linspace(-1, 1, 25, dtype=np.float32).reshape(5, 5))
    assert made is not None
    middle = read_png(made.png)[2, 2].astype(int)
    assert middle.min() > 230


def test_what_is_not_finite_stands_out() -> None:
    plane = np.ones((4, 4), np.float32)
    plane[1, 2] = np.nan
    plane[0, 0] = 0
    made = picture(plane)
    assert made is not None
    assert read_png(made.png)[1, 2].tolist() == [214, 0, 170]


def test_many_planes_are_tiled() -> None:
    made = picture(np.random.default_rng(0).standard_normal((1, 24, 6, 5)).astype(np.float32))
    assert made is not None
    assert (made.width, made.height) == (4 * 6 - 1, 4 * 7 - 1)
    assert "first 16 of 24" in made.caption


def test_large_planes_are_thinned() -> None:
    made = picture(np.zeros((1000, 3001), np.float32))
    assert made is not None
    assert made.width <= MAX_SIDE
    assert made.height <= MAX_SIDE


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16"])
def test_other_types(dtype: str) -> None:
    assert picture(np.eye(5).astype(dtype)) is not None


@pytest.mark.parametrize("shape", [(), (3,), (1000,), (1, 1000), (2, 3), (0, 4), (4, 0, 5)])
def test_no_picture(shape: tuple[int, ...]) -> None:
    assert picture(np.zeros(shape, np.float32)) is None
