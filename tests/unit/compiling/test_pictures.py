"""Pictures of compiled programs are prepared in JavaScript as tasks do it, bit for bit."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.compiling.node import modules_in, run
from support.harness.task_cases import make_picture
from webpte.engine.files.json_reader import Table
from webpte.errors import InputError
from webpte.tasks.vision.interpolate import interpolate
from webpte.tasks.vision.scaling.preprocessing import Preprocessor
from webpte.tasks.vision.scaling.steps import prepare_on_host

SIZES = [(23, 61), (67, 29), (1, 1), (16, 16), (40, 31)]
PREPARED = """
const { prepared } = await import("./task-pictures.mjs");
const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
return given.map(({ rule, width, height, data }) => {
    try {
        const { values, shape } = prepared({ width, height, data: bytes(data) }, rule);
        return [shape, btoa(String.fromCharCode(...new Uint8Array(values.buffer)))];
    } catch (error) { return `${error.name}: ${error.message}`; }
});
"""
NORMAL = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
SETTINGS: dict[str, dict[str, Any]] = {
    "ViT": {"size": 12},
    "DeiT": {"size": {"height": 16, "width": 18}, "crop_size": 13},
    "CLIP": {"size": {"shortest_edge": 14}, "crop_size": 14},
    "MobileNetV2": {"size": {"shortest_edge": 9}, "crop_size": {"height": 11, "width": 8}},
    "ConvNext": {"size": {"shortest_edge": 13}, "crop_pct": 0.9},
    "DPT": {"size": {"height": 13, "width": 20}, "ensure_multiple_of": 7, "resample": 3},
    "Sam": {"size": {"longest_edge": 12}, "do_pad": True, "pad_size": {"height": 12, "width": 12}},
    "Letterbox": {"size": {"height": 17, "width": 12}},
    "Stretch": {"size": {"height": 7, "width": 40}, "resample": 1},
    "Segformer": {"size": {"height": 9, "width": 9}, "resample": 0},
    "RTDetr": {"size": {"height": 11, "width": 10}, "resample": 5},
    "Swin2SR": {},
    "Siglip": {"size": {"height": 8, "width": 8}, "resample": 4, "do_normalize": False},
    "Beit": {"size": 15, "crop_size": 20, "do_rescale": False},
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_in(tmp_path_factory.mktemp("modules"))


@pytest.mark.parametrize("kind", SETTINGS)
def test_pictures_are_prepared_as_in_python(modules: Path, kind: str) -> None:
    content = {"image_processor_type": f"{kind}ImageProcessor", **NORMAL, **SETTINGS[kind]}
    preprocessor = Preprocessor(Table(content, "preprocessor_config.json", InputError))
    pictures = [make_picture(*size) for size in SIZES]
    given = [
        {
            "rule": preprocessor.rule.table_of_fields(),
            "height": one.shape[0],
            "width": one.shape[1],
            "data": base64.b64encode(one.tobytes()).decode(),
        }
        for one in pictures
    ]
    for picture, (shape, found) in zip(pictures, run(modules, PREPARED, given), strict=True):
        (wanted,) = prepare_on_host(preprocessor.steps(*picture.shape[:2]), picture)
        assert shape == list(wanted.shape)
        assert base64.b64decode(found) == wanted.tobytes(), picture.shape


def test_pictures_that_are_too_long_are_refused(modules: Path) -> None:
    content = {"image_processor_type": "CLIPImageProcessor", **NORMAL, **SETTINGS["CLIP"]}
    rule = Preprocessor(Table(content, "p.json", InputError)).rule.table_of_fields()
    data = base64.b64encode(bytes(3 * 9000)).decode()
    (said,) = run(modules, PREPARED, [{"rule": rule, "height": 3, "width": 3000, "data": data}])
    assert "shape" not in said
    rule["size"] = [160, 160]
    (said,) = run(modules, PREPARED, [{"rule": rule, "height": 1, "width": 9000, "data": data}])
    assert said == ("InputError: a picture of 9000 by 1 pixels is too long to be resized")


INTERPOLATED = """
const { interpolate } = await import("./task-resample.mjs");
return given.map(({ values, from, to, mode }) => [...interpolate(values, from, to, mode)]);
"""


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_maps_are_resized_as_in_python(modules: Path, mode: str) -> None:
    rng = np.random.default_rng(3)
    cases = [((5, 7), (13, 4)), ((1, 1), (3, 3)), ((8, 8), (8, 11)), ((16, 3), (5, 3))]
    maps = [rng.standard_normal(before, np.float32) for before, _ in cases]
    given = [
        {"values": one.ravel().tolist(), "from": before, "to": after, "mode": mode}
        for one, (before, after) in zip(maps, cases, strict=True)
    ]
    for one, (_, after), found in zip(maps, cases, run(modules, INTERPOLATED, given), strict=True):
        wanted = interpolate(one, *after, mode)
        assert np.array_equal(np.reshape(found, after).astype(np.float32), wanted)
