"""Pictures are resized as Pillow does, and prepared as their files say."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.harness.task_cases import RESIZED, RESIZED_FROM, make_picture
from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError
from webpte.tasks.vision.pictures import picture_of
from webpte.tasks.vision.scaling.preprocessing import Preprocessor
from webpte.tasks.vision.scaling.resample import resize

PILLOW = np.load(RESIZED)
PLAIN: dict[str, Any] = {
    "image_processor_type": "ViTImageProcessor",
    "do_rescale": False,
    "do_normalize": False,
    "size": {"height": 4, "width": 6},
    "image_mean": [0.5, 0.25, 0.0],
    "image_std": 0.5,
}


def prepared(pixels: np.ndarray, **change: Any) -> np.ndarray:
    return Preprocessor(Table({**PLAIN, **change}, "preprocessor_config.json", InputError))(pixels)


@pytest.mark.parametrize("name", PILLOW.files)
def test_a_resized_picture_is_pillows(name: str) -> None:
    number, height, width = map(int, name.split("_"))
    found = resize(make_picture(*RESIZED_FROM), height, width, number)
    assert np.array_equal(found, PILLOW[name])


def test_what_cannot_be_resized_is_said() -> None:
    picture = make_picture(3, 4)
    for pixels, size, number, said in (
        (picture.astype(float), (2, 2), 2, "float64"),
        (picture[:0], (2, 2), 2, r"\[0, 4, 3\]"),
        (picture, (0, 2), 2, "0 by 2"),
        (picture, (2, 2), 9, "no filter 9"),
    ):
        with pytest.raises(InputError, match=said):
            resize(pixels, *size, number)


def test_steps_can_be_left_out() -> None:
    picture = make_picture(4, 6)
    assert np.array_equal(prepared(picture), np.moveaxis(picture, 2, 0))
    larger = make_picture(5, 9)
    assert prepared(larger, do_resize=False).shape == (3, 5, 9)
    scaled = prepared(picture, do_rescale=True)
    assert scaled.dtype == np.float32
    assert np.allclose(scaled, np.moveaxis(picture, 2, 0) / 255)
    normal = prepared(picture, do_rescale=True, do_normalize=True)
    assert np.allclose(normal[1], (picture[:, :, 1] / 255 - 0.25) / 0.5, atol=1e-6)


def test_a_size_of_one_number_is_that_of_both_sides_or_of_the_shorter() -> None:
    picture = make_picture(10, 25)
    assert prepared(picture, size=5).shape == (3, 5, 5)
    clip = {"image_processor_type": "CLIPImageProcessor", "do_center_crop": False}
    assert prepared(picture, size=5, **clip).shape == (3, 5, 12)
    assert prepared(picture, size={"shortest_edge": 5}, **clip).shape == (3, 5, 12)
    old = {"image_processor_type": None, "feature_extractor_type": "DeiTFeatureExtractor"}
    del_type = {key: value for key, value in {**PLAIN, **old}.items() if value is not None}
    table = Table({**del_type, "size": 8, "crop_size": 6}, "preprocessor_config.json", InputError)
    assert Preprocessor(table)(picture).shape == (3, 6, 6)


def test_what_a_file_leaves_open_is_as_if_it_were_not_there() -> None:
    picture = make_picture(5, 9)
    empty = dict.fromkeys(("do_pad", "pad_size", "do_center_crop", "crop_size", "do_resize"))
    assert np.array_equal(prepared(picture, **empty), prepared(picture))


def test_sides_are_rounded_to_multiples() -> None:
    picture = make_picture(5, 9)
    found = prepared(picture, size={"height": 13, "width": 3}, ensure_multiple_of=7)
    assert found.shape == (3, 14, 7)


def test_detectors_pad_nothing_to_one_picture() -> None:
    for kind in ("Detr", "Yolos", "ConditionalDetr", "DeformableDetr"):
        settings = {"image_processor_type": f"{kind}ImageProcessor", "do_pad": True}
        assert prepared(make_picture(5, 9), **settings).shape == (3, 4, 6)
    rt = {"image_processor_type": "RTDetrImageProcessor", "do_normalize": None}
    assert np.array_equal(prepared(make_picture(5, 9), **rt), prepared(make_picture(5, 9)))


def test_the_longest_side_is_scaled_and_the_rest_is_filled() -> None:
    sam = {
        "image_processor_type": "SamImageProcessor",
        "size": {"longest_edge": 8},
        "do_pad": True,
        "pad_size": {"height": 9, "width": 8},
    }
    found = prepared(make_picture(10, 25), **sam)
    assert found.shape == (3, 9, 8)
    assert found[:, :3].all()
    assert not found[:, 3:].any()
    with pytest.raises(InputError, match="pad_size is smaller"):
        prepared(make_picture(25, 25), **{**sam, "size": {"longest_edge": 10}})
    with pytest.raises(InputError, match="pad_size"):
        prepared(make_picture(25, 25), **{**sam, "pad_size": 9})


def test_pictures_to_enlarge_keep_their_size() -> None:
    free = {"image_processor_type": "Swin2SRImageProcessor", "pad_size": 8, "do_pad": True}
    picture = make_picture(5, 9)
    table = Table(free, "preprocessor_config.json", InputError)
    assert np.allclose(Preprocessor(table)(picture), np.moveaxis(picture, 2, 0) / 255)


def test_the_center_is_cropped_or_surrounded_with_black() -> None:
    picture = make_picture(5, 9)
    options = {"do_resize": False, "do_center_crop": True}
    small = prepared(picture, crop_size={"height": 2, "width": 4}, **options)
    assert np.array_equal(small, np.moveaxis(picture[1:3, 2:6], 2, 0))
    mixed = prepared(picture, crop_size={"height": 8, "width": 4}, **options)
    assert np.array_equal(mixed[:, 2:7], np.moveaxis(picture[:, 2:6], 2, 0))
    assert not mixed[:, :2].any()
    assert not mixed[:, 7:].any()


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"image_processor_type": "LevitImageProcessor"}, UnsupportedError, "Levit.*knows.*ViT"),
        ({"size": {"longest_edge": 4}}, InputError, "size"),
        ({"size": {"shortest_edge": 4, "longest_edge": 8}}, UnsupportedError, "longest_edge"),
        ({"size": 0}, InputError, "no size"),
        ({"size": "large"}, InputError, "no size"),
        ({"image_std": [1, 0, 1]}, InputError, "divided"),
        ({"image_mean": [1, 2]}, InputError, "3 numbers"),
        ({"image_mean": None}, InputError, "3 numbers"),
        ({"do_pad": True}, UnsupportedError, "do_pad"),
        ({"pad_size": {"height": 9, "width": 9}}, UnsupportedError, "do_pad"),
        ({"keep_aspect_ratio": True}, UnsupportedError, "keep_aspect_ratio"),
        ({"ensure_multiple_of": 0}, InputError, "ensure_multiple_of"),
        ({"resample": "bicubic"}, InputError, "resample"),
    ],
)
def test_files_that_are_not_understood_are_refused(change: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        prepared(make_picture(9, 9), **change)


class Opened:
    """A picture as Pillow opens it."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._pixels = pixels

    def convert(self, mode: str) -> Opened:
        assert mode == "RGB"
        return self

    @property
    def __array_interface__(self) -> Any:
        return self._pixels.__array_interface__


def test_pictures_of_every_kind() -> None:
    picture = make_picture(3, 5)
    grey, clear = picture[:, :, 0], np.dstack([picture, picture[:, :, :1]])
    for given, wanted in (
        (picture, picture),
        (grey, np.dstack([grey] * 3)),
        (grey[:, :, None], np.dstack([grey] * 3)),
        (clear, picture),
        (Opened(picture), picture),
    ):
        assert np.array_equal(asyncio.run(picture_of(given)), wanted)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((0, 4, 3), np.uint8), "4 by 0 pixels is empty"),
        (np.zeros((4, 4, 2), np.uint8), "1, 3 or 4"),
        (np.zeros((4, 4, 3)), "float64"),
        ("cat.jpg", "a str is not a picture"),
        (None, "a NoneType is not a picture"),
    ],
)
def test_what_is_no_picture_is_said(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        asyncio.run(picture_of(given))
