"""SAMs in the layouts of published repositories find masks, by one name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import make_picture, models_folder
from support.hub import mask_layouts as layouts
from support.hub.hub_site import HubSite
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError, SourceError
from webpte.tasks.vision.mask_generation import MaskGeneration


@pytest.fixture(scope="module")
def running() -> Iterator[HubSite]:
    with HubSite() as site:
        for name, files in layouts.repositories().items():
            site.add(name, files)
        yield site


@pytest.fixture
def site(running: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubSite:
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache"))
    return running


def ask(source: Any, picture: np.ndarray, device: Any = "numpy", **prompt: Any) -> Any:
    async def work() -> Any:
        async with await webpte.tasks.open(source, device=device) as task:
            assert isinstance(task, MaskGeneration)
            pixels = await task.prepare(picture)
            return await task(picture, **prompt), pixels

    return asyncio.run(work())


def test_two_programs_find_what_one_does(site: HubSite) -> None:
    picture, prompt = make_picture(9, 13), {"points": [(3, 4)]}
    found, _ = ask(f"hf:{layouts.PAIR}", picture, **prompt)

    async def whole() -> Any:
        folder = models_folder() / "prompts"
        async with await webpte.tasks.open("mask-generation", folder, device="numpy") as task:
            return await task(picture, **prompt)

    wanted = asyncio.run(whole())
    np.testing.assert_array_equal(found["masks"], wanted["masks"])
    assert found["scores"] == wanted["scores"]


@pytest.mark.parametrize("device", ["numpy", "gpu"])
@pytest.mark.parametrize("box", [None, (1, 2, 7, 6)])
def test_tables_make_the_tokens_of_prompts(
    site: HubSite, box: tuple[int, ...] | None, device: str
) -> None:
    picture = make_picture(layouts.SIDE, layouts.SIDE)
    on = "numpy" if device == "numpy" else SimulatedDevice()
    points = [] if box else [(5.0, 3.0)]
    found, pixels = ask(f"hf:{layouts.TOKENS}", picture, on, points=points, box=box)
    if box:
        tokens = layouts.tokens_of([(1, 2), (7, 6), (0, 0)], [2, 3, -1])
    else:
        tokens = layouts.tokens_of([(5, 3), (0, 0), (0, 0)], [1, -1, -1])
    masks, scores = layouts.found(np.asarray(pixels, np.float64), tokens)
    order = np.argsort(-scores)
    np.testing.assert_allclose(found["scores"], scores[order], rtol=1e-5)
    np.testing.assert_array_equal(found["masks"], masks[order] > 0)


def test_points_go_to_decoders_of_other_ranks(site: HubSite) -> None:
    """The prompt's second place is empty: the decoder takes two points, no more and no less."""
    picture = make_picture(layouts.SIDE, layouts.SIDE)
    found, pixels = ask(f"hf:{layouts.POINTS}", picture, points=[(5, 3)])
    rows = layouts.LABELS[1] + layouts.ABSENT + 2 * np.array([5, 3, 0, 0])
    masks, scores = layouts.found(np.asarray(pixels, np.float64), rows[None])
    order = np.argsort(-scores)
    np.testing.assert_allclose(found["scores"], scores[order], rtol=1e-5)
    np.testing.assert_array_equal(found["masks"], masks[order] > 0)
    with pytest.raises(InputError, match="4 points, corners included, is too long"):
        ask(f"hf:{layouts.POINTS}", picture, points=[(1, 1), (2, 2), (3, 3)])


def test_pictures_are_stretched_for_sam_2(site: HubSite) -> None:
    picture = np.full((5, 11, 3), 255, np.uint8)
    _, pixels = ask(f"hf:{layouts.TOKENS}", picture, points=[(1, 1)])
    wanted = (1 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert pixels.shape == (3, layouts.SIDE, layouts.SIDE)
    np.testing.assert_allclose(pixels, np.broadcast_to(wanted[:, None, None], pixels.shape), 1e-6)


def test_lacking_tables_are_told(site: HubSite) -> None:
    files = dict(site.repositories[layouts.TOKENS])
    del files["manifest.json"], files["prompt_point_embeddings.bin"]
    site.add("a/b", files)
    told = r"should have \[4, 16, 4\] of frequencies, points .* files: none"
    with pytest.raises(InputError, match=told):
        ask("hf:a/b", make_picture(8, 8), points=[(1, 1)])
    site.add("a/c", {**files, "prompt_x.bin": b"abc"})
    with pytest.raises(InputError, match=r"prompt_x.bin has 3 bytes"):
        ask("hf:a/c", make_picture(8, 8), points=[(1, 1)])


def test_other_picture_tasks_need_their_settings(site: HubSite) -> None:
    files = {"model.pte": (models_folder() / "things" / "model.pte").read_bytes()}
    card = b"---\npipeline_tag: object-detection\n---\n"
    site.add("a/d", {**files, "README.md": card, "config.json": b"{}"})
    with pytest.raises(SourceError, match=r"has no preprocessor_config\.json"):
        ask("hf:a/d", make_picture(8, 8), points=[(1, 1)])
