"""Pictures larger than a model's input: tiles, and their answers put together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import webpte
from page.core import picture_tiles
from page.core.picture_tiles import _starts, tiles_of
from page.shared.cards.cards import CardValue
from page.shared.inputs import photos
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.photos import Form
from page.shared.npy import Array
from support.page.fake_page import SAMPLES
from support.page.fake_photo import FakePhoto

BOUNDS = ((1, 1), (3, 3), (4, 48), (4, 64))
OUTPUTS = (CardValue(layout="NCHW"), CardValue())


def state_of(height: int, width: int, overlap: int = 16) -> TensorInput:
    state = TensorInput(0, "input0", "float32", BOUNDS, form=Form("NCHW", 3), overlap=overlap)
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    state.take_picture(FakePhoto(pixels), "large.png")
    return state


@pytest.mark.parametrize("whole", [1, 39, 40, 41, 64, 65, 200])
def test_tiles_of_a_side_overlap_and_cover_it(whole: int) -> None:
    tiles = list(_starts(whole, 40, 16))
    assert {length for _, length in tiles} == {min(whole, 40)}
    assert tiles[0][0] == 0
    assert sum(tiles[-1]) == whole
    for (start, length), (after, _) in pairwise(tiles):
        assert start < after <= start + length - 16


@pytest.mark.parametrize(("height", "width"), [(70, 91), (49, 30), (20, 65)])
def test_tiles_give_the_same_as_the_whole_picture(
    monkeypatch: pytest.MonkeyPatch, height: int, width: int
) -> None:
    monkeypatch.setattr(picture_tiles, "SIDE", 40)
    state = state_of(height, width)
    tiles = tiles_of([state], OUTPUTS)
    assert tiles is not None
    photo = state.photo
    assert photo is not None

    async def answers() -> tuple[Array, Array]:
        program = await webpte.load(SAMPLES / "photo.pte", device="numpy")

        async def call(given: Sequence[Any]) -> Sequence[Any]:
            return await program.run("forward", *given)

        pixels = photo.part(photos.whole_of(photo), height, width)
        dims = (1, 3, height, width)
        whole = photos.numbers_of(pixels, Form("NCHW", 3), state.settings, dims, "float32")
        (expected,) = await call([whole])
        (found,) = await tiles.run([state.array()], call)
        return expected, found

    expected, found = asyncio.run(answers())
    assert found.shape == (1, 3, 2 * height, 2 * width)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_is_no_picture_is_that_of_the_last_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_tiles, "SIDE", 40)
    state = state_of(50, 70)
    tiles = tiles_of([state], OUTPUTS)
    assert tiles is not None
    calls = 0

    async def call(given: Sequence[Any]) -> Sequence[Any]:
        nonlocal calls
        calls += 1
        return [given[0], calls, np.full((1, 10), calls, np.float32)]

    picture, number, scores = asyncio.run(tiles.run([state.array()], call))
    assert picture.shape == (1, 3, 50, 70)
    assert number == calls == len(tiles.parts)
    assert scores[0, 0] == calls


def test_small_pictures_and_other_models_take_one_call() -> None:
    assert tiles_of([state_of(48, 64)], OUTPUTS) is None
    assert tiles_of([state_of(200, 200, overlap=0)], OUTPUTS) is None
    assert tiles_of([state_of(3, 200)], OUTPUTS) is None  # lower than the input allows
    fixed = state_of(200, 200)
    fixed.bounds = ((1, 1), (3, 3), (64, 64), (64, 64))
    assert tiles_of([fixed], OUTPUTS) is None


def test_very_large_pictures_are_scaled_down_first() -> None:
    class Large:
        height, width = 4096, 3000

    height, width = photos.tiled_size(Large())  # type: ignore[arg-type]
    assert height * width <= photos.MOST_PIXELS < 1.01 * height * width
    assert abs(height / width - 4096 / 3000) < 0.01
