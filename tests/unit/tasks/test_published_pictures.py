"""Models that are published without settings and labels: prepared and named by their family."""

from __future__ import annotations

import asyncio
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
from webpte.errors import InputError, SourceError
from webpte.tasks.vision.published import COCO, FAMILIES, VOC, preparation_of


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
