"""Models that are published without settings and labels: prepared and named by their family."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.fusion_graphs import Net
from support.hub import published_pictures as models
from support.hub.hub_site import HubSite
from support.write.pte_writer import write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError, ManifestError, SourceError
from webpte.hub.layouts import choose
from webpte.hub.model_schema import SCHEMA_METHOD, largest_input
from webpte.tasks import names
from webpte.tasks.detect import detect
from webpte.tasks.picture_families import COCO, FAMILIES, VOC
from webpte.tasks.vision.published import preparation_of


@pytest.fixture(scope="module")
def running() -> Iterator[HubSite]:
    with HubSite() as site:
        for name, files in models.repositories().items():
            site.add(name, files)
        yield site


@pytest.fixture
def site(running: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubSite:
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache"))
    return running


def ask(name: str, picture: Any, device: Any = "numpy", **options: Any) -> tuple[str, Any, Any]:
    async def work() -> tuple[str, Any, Any]:
        async with await webpte.tasks.open(f"hf:{name}", device=device) as task:
            one: Any = task
            first = picture[0] if isinstance(picture, list) else picture
            return task.name, await task(picture, **options), await one.prepare(first)

    return asyncio.run(work())


@pytest.mark.parametrize("device", ["numpy", "gpu"])
def test_boxes_are_moved_back_from_between_bars(site: HubSite, device: str) -> None:
    """A picture of 8 rows and 32 columns is scaled by a half, between bars of 6 rows."""
    picture = np.full((8, 32, 3), 255, np.uint8)
    on = "numpy" if device == "numpy" else SimulatedDevice()
    name, found, pixels = ask(models.BOXES, picture, on, threshold=0.25)
    assert name == "object-detection"
    wanted = np.zeros((3, 16, 16))
    wanted[:, 6:10] = 1
    np.testing.assert_array_equal(np.asarray(pixels), wanted)
    boxes = [(8, 0, 16, 8), (0, 0, 6, 6)]
    named = [dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)) for box in boxes]
    assert [(one["label"], one["box"]) for one in found] == list(
        zip(("car", "dog"), named, strict=True)
    )
    np.testing.assert_allclose([one["score"] for one in found], [0.925, 0.725], rtol=1e-6)
    assert ask(models.BOXES, [picture], threshold=0.9)[1] == [found[:1]]


def test_pictures_of_other_families_are_stretched(site: HubSite) -> None:
    picture = np.full((8, 32, 3), 255, np.uint8)
    _, found, pixels = ask(models.STRETCHED, picture, threshold=0.5)
    white = (1 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    np.testing.assert_allclose(pixels[:, 3, 7], white, rtol=1e-6)
    assert [one["label"] for one in found] == ["bicycle", "bird"]  # 2 and 16 of COCO's own list
    assert found[0]["box"] == {"xmin": 8, "ymin": 3, "xmax": 16, "ymax": 5}


def test_a_single_logit_separates_two_labels(site: HubSite) -> None:
    picture = np.zeros((16, 16, 3), np.uint8)
    picture[:, 10:, 0] = 255
    _, found, _ = ask(models.REGIONS, picture)
    masks = {one["label"]: one["mask"] for one in found}
    assert masks.keys() == {"background", "person"}
    np.testing.assert_array_equal(masks["person"], picture[:, :, 0])


def test_lists_of_labels() -> None:
    assert len(COCO.split(",")) == 80
    assert len(VOC.split(",")) == 21
    by_number = FAMILIES[1].labels
    assert len(by_number) == 91
    # As the list of COCO has them.
    some = {1: "person", 11: "fire hydrant", 13: "stop sign", 44: "bottle", 67: "dining table"}
    assert {number: by_number[number] for number in some} == some
    assert (by_number[90], by_number[84], by_number[0]) == ("toothbrush", "book", "N/A")


@pytest.mark.parametrize(
    ("path", "task"),
    [
        ("n/vulkan/yolo26n_384_vulkan_fp16.pte", "object-detection"),
        ("xnnpack/rfdetr_nano_xnnpack_fp32.pte", "object-detection"),
        ("xnnpack/deeplab_v3_resnet50_xnnpack_fp32.pte", "image-segmentation"),
        ("xnnpack/style_transfer_candy_xnnpack_fp32.pte", "image-to-image"),
        ("xnnpack/efficientnet_v2_s_xnnpack_fp32.pte", "image-classification"),
        ("n/vulkan/yolo26n_seg_384_vulkan_fp16.pte", ""),
        ("pose/vulkan/yolo26n_pose_384_vulkan_fp16.pte", ""),
        ("xnnpack/other_xnnpack_fp32.pte", ""),
    ],
)
def test_a_name_tells_the_task_where_files_are_silent(tmp_path: Path, path: str, task: str) -> None:
    place = tmp_path / path
    place.parent.mkdir(parents=True)
    place.write_bytes(b"")
    (place.parent / "config.json").write_text("{}")

    async def work() -> None:
        if task:
            assert await detect(await choose(tmp_path), names()) == task
        else:
            with pytest.raises(InputError, match="do not say what it does: name the task"):
                await detect(await choose(tmp_path), names())

    asyncio.run(work())


@pytest.mark.parametrize("content", ['{"capabilities": []}', "{}"])
def test_a_silent_repository_finds_boxes(site: HubSite, content: str) -> None:
    files = dict(site.repositories[models.BOXES])
    files["n/vulkan/config.json"] = content.encode()
    site.add("a/silent", files)
    name, found, _ = ask("a/silent", np.full((8, 32, 3), 255, np.uint8), threshold=0.25)
    assert name == "object-detection"
    assert [one["label"] for one in found] == ["car", "dog"]


def schema_of(*dims: Any, **more: Any) -> str:
    given = {"kind": "Tensor", "dtype": "float32", "shape": dims, **more}
    return json.dumps({"forward": {"inputs": [given], "outputs": []}})


async def largest(text: Any, shape: tuple[int, ...] = (1, 3, 640, 640)) -> Any:
    g = Net().g
    picture = g.tensor(shape)
    g.host(picture, dynamic=True)
    g.inputs(picture)
    g.outputs(models._mean(g, picture))
    file = write_pte(g, constant_methods={SCHEMA_METHOD: text})
    async with await webpte.load(file, device="numpy") as program:
        return largest_input(program.methods, "forward", program.name)


@pytest.mark.parametrize(
    ("dims", "sizes"),
    [
        ([1, 3, 384, 640], (1, 3, 384, 640)),
        ([1, 3, [640, 384, 512], [384, 704]], (1, 3, 640, 384)),
        ([1, 3, (32, 600, 32), (32, 2**31 - 1, 48)], (1, 3, 576, 608)),
        ([{"kind": "batch"}, 3, (64, 640, 1), 640], (1, 3, 640, 640)),
    ],
)
def test_sizes_of_a_schema(dims: list[Any], sizes: tuple[int, ...]) -> None:
    assert asyncio.run(largest(schema_of(*map(dim, dims)))) == sizes


def dim(given: Any) -> Any:
    if isinstance(given, int):
        return {"kind": "constant", "value": given}
    if isinstance(given, list):
        return {"kind": "enumerated", "values": given}
    if isinstance(given, tuple):
        return {"kind": "range", **dict(zip(("min", "max", "step"), given, strict=True))}
    return given


ONE = {"value": 1}
DIMS: list[Any] = [
    7, None, {"value": -1}, {"value": 1.5}, {"value": True}, {"value": "640"}, {"value": 2**63},
    {"value": 641}, {"values": []}, {"values": [1, "2"]}, {"values": {}}, {"values": [1] * 5000},
    {"values": [-1]}, {"min": 5, "max": 4}, {"min": 1, "max": 4, "step": 0},
    {"min": 1, "max": 10**400}, {"min": 700, "max": 900}, {"min": -8, "max": 8},
    {"min": 1, "max": None},
]  # fmt: skip
HOSTILE = [
    *("", "[]", "{", "7", "[" * 200, '{"forward": 7}', '{"forward": {"inputs": 3}}'),
    *('{"forward": {"inputs": [3]}}', '{"forward": {}}', schema_of(), schema_of(ONE, ONE, ONE)),
    schema_of(ONE, ONE, ONE, ONE, kind="Int"),
    *(schema_of(ONE, {"value": 3}, ONE, last) for last in DIMS),
]


@pytest.mark.parametrize("text", [*HOSTILE, 7, 1.5, True])
def test_schemas_that_are_not_possible(text: Any) -> None:
    with pytest.raises(ManifestError, match=SCHEMA_METHOD):
        asyncio.run(largest(text))


def test_a_schema_of_other_methods_says_nothing() -> None:
    assert asyncio.run(largest("{}")) is None


def test_unknown_families_are_told(site: HubSite) -> None:
    files = {"m.pte": site.repositories[models.BOXES]["n/vulkan/yolo26n_384_vulkan_fp16.pte"]}
    card = {"README.md": b"---\npipeline_tag: object-detection\n---\n"}
    site.add("a/b", {**files, **card})
    with pytest.raises(SourceError, match=r"has no preprocessor_config\.json, which object-det"):
        ask("a/b", np.zeros((4, 4, 3), np.uint8))


def test_programs_of_other_outputs_are_told(tmp_path: Path) -> None:
    g = Net().g
    picture = g.tensor((1, 3, 4, 4))
    mean = models._mean(g, picture)
    g.inputs(picture)
    g.outputs(*(models._moved(g, np.zeros(s, np.float32), mean, 1) for s in ((3, 5), (3,), (3,))))
    (tmp_path / "yolo26.pte").write_bytes(write_pte(g))
    with pytest.raises(InputError, match="no boxes, scores and classes"):
        asyncio.run(webpte.tasks.open("object-detection", tmp_path / "yolo26.pte", device="numpy"))


def test_families_are_known_by_any_name(site: HubSite) -> None:
    async def work() -> None:
        async with await webpte.tasks.open(f"hf:{models.STRETCHED}", device="numpy") as task:
            found = preparation_of(task.files)
            assert found is not None
            assert "rfdetr" in found.words

    asyncio.run(work())
