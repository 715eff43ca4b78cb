"""Maps are resized as PyTorch does, and tasks of pictures refuse wrong inputs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import (
    INTERPOLATED,
    LONG,
    make_map,
    make_picture,
    models_folder,
)
from webpte.errors import InputError, UnsupportedError, WebpteError
from webpte.tasks import Task
from webpte.tasks.vision import interpolate as module
from webpte.tasks.vision.depth_estimation import levels
from webpte.tasks.vision.image_to_image import spans
from webpte.tasks.vision.interpolate import interpolate, strips
from webpte.tasks.vision.mask_generation import MaskGeneration
from webpte.tasks.vision.text_vectors import last_token

FOLDER = models_folder()
PYTORCH = np.load(INTERPOLATED)


@pytest.mark.parametrize("name", PYTORCH.files)
def test_a_resized_map_is_pytorchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mode, height, width = name.split("_")
    found = interpolate(make_map(), int(height), int(width), mode)
    assert found.dtype == np.float32
    assert np.allclose(found, PYTORCH[name], rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(module, "_STRIP", 60)
    parts = list(strips(make_map(), int(height), int(width), mode))
    assert np.array_equal(np.concatenate([part for _, part in parts], axis=1), found)
    assert [start for start, _ in parts][:1] == [0]


def test_what_cannot_be_resized_is_said() -> None:
    with pytest.raises(InputError, match=r"no mode 'cubic'.*bicubic"):
        interpolate(make_map(), 2, 2, "cubic")
    with pytest.raises(InputError, match="0 by 2"):
        interpolate(make_map(), 0, 2)
    with pytest.raises(InputError, match=r"\[2, 0, 7\]"):
        interpolate(make_map()[:, :0], 2, 2)


def test_a_depth_becomes_levels() -> None:
    assert levels(np.array([[2.0, 4.0, 3.0]], np.float32)).tolist() == [[0, 255, 127]]
    assert levels(np.full((2, 3), 7, np.float32)).tolist() == [[0, 0, 0]] * 2


def opened(task: str, source: Path) -> Task:
    return asyncio.run(webpte.tasks.open(task, source, device="numpy"))


def call(task: Task, *args: Any, **options: Any) -> Any:
    async def once() -> Any:
        return await task(*args, **options)

    return asyncio.run(once())


def changed(tmp_path: Path, model: str, file: str, **change: Any) -> Path:
    folder = shutil.copytree(FOLDER / model, tmp_path / model, dirs_exist_ok=True)
    content = json.loads((FOLDER / model / file).read_text())
    (folder / file).write_text(json.dumps({**content, **change}))
    return folder


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("object-detection", "shapes"),
        ("object-detection", "depths"),
        ("depth-estimation", "things"),
        ("depth-estimation", "shapes"),
        ("image-classification", "depths"),
        ("image-segmentation", "things"),
        ("mask-generation", "captions"),
        ("mask-generation", "things"),
        ("image-to-image", "things"),
        ("background-removal", "scenes"),
        ("zero-shot-object-detection", "captions"),
        ("zero-shot-image-classification", "finds"),
        ("voice-activity-detection", "scenes"),
    ],
)
def test_a_program_of_another_task_is_refused(task: str, model: str) -> None:
    with pytest.raises(WebpteError, match=f"not a program for {task}"):
        opened(task, FOLDER / model)


@pytest.mark.parametrize(
    ("task", "model"), [("object-detection", "things"), ("image-segmentation", "scenes")]
)
def test_results_of_another_processor_are_not_guessed(
    tmp_path: Path, task: str, model: str
) -> None:
    file, kind = "preprocessor_config.json", {"image_processor_type": "ViTImageProcessor"}
    with pytest.raises(UnsupportedError, match=f"{task} knows models.*not of ViT"):
        opened(task, changed(tmp_path, model, file, **kind, do_pad=False))


def test_a_config_with_other_labels_is_refused(tmp_path: Path) -> None:
    folder = changed(tmp_path, "things", "config.json", id2label={"0": "cup"})
    with pytest.raises(InputError, match=r"1 labels .* 3 numbers"):
        opened("object-detection", folder)


def test_pictures_of_another_size_than_the_programs_are_refused(tmp_path: Path) -> None:
    size = {"height": 16, "width": 16}
    folder = changed(tmp_path, "things", "preprocessor_config.json", size=size)
    with pytest.raises(InputError, match=r"makes arrays of \[3, 16, 16\].*takes \[3, 16, 24\]"):
        call(opened("object-detection", folder), make_picture(5, 5))


@pytest.mark.parametrize("threshold", ["0.5", None, True])
def test_a_threshold_is_a_number(threshold: Any) -> None:
    with pytest.raises(InputError, match="threshold"):
        call(opened("object-detection", FOLDER / "things"), make_picture(5, 5), threshold=threshold)


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("object-detection", "things"),
        ("depth-estimation", "depths"),
        ("image-to-image", "enlarged"),
        ("voice-activity-detection", "voices"),
    ],
)
def test_no_pictures_give_no_results(task: str, model: str) -> None:
    assert call(opened(task, FOLDER / model), []) == []


def test_one_look_serves_several_prompts() -> None:
    picture = make_picture(9, 14)

    async def ask() -> None:
        async with await webpte.tasks.open(
            "mask-generation", FOLDER / "prompts", device="numpy"
        ) as task:
            assert isinstance(task, MaskGeneration)
            with await task.look(picture) as seen:
                prompts: list[Any] = [{"points": [(3, 4)]}, {"box": (1, 2, 9, 8)}]
                together = await asyncio.gather(*(task(seen, **prompt) for prompt in prompts))
                for prompt, found in zip(prompts, together, strict=True):
                    alone = await task(picture, **prompt)
                    assert alone["scores"] == found["scores"] == sorted(found["scores"])[::-1]
                    assert np.array_equal(alone["masks"], found["masks"])
                both = await task([seen, picture], **prompts[0])
                assert both[0]["scores"] == both[1]["scores"] == together[0]["scores"]
            assert (together[0]["masks"][0] != together[1]["masks"][0]).any()
            assert await task([], box=(1, 2, 3, 4)) == []

    asyncio.run(ask())


def test_a_picture_that_another_task_has_read_is_refused() -> None:
    async def ask() -> None:
        one, other = [
            await webpte.tasks.open("mask-generation", FOLDER / "prompts", device="numpy")
            for _ in range(2)
        ]
        async with one, other:
            assert isinstance(one, MaskGeneration)
            with await one.look(make_picture(9, 14)) as seen:
                with pytest.raises(InputError, match="read by another task"):
                    await other(seen, points=[(3, 4)])
                assert (await one(seen, points=[(3, 4)]))["scores"]

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ({}, "say where"),
        ({"points": [(1, 2, 3)]}, r"a point is \(x, y\)"),
        ({"points": [(1, float("nan"))]}, "a point is"),
        ({"points": 3}, "a point is"),
        ({"points": [(1, 2)], "labels": [1, 0]}, "labels are"),
        ({"points": [(1, 2)], "labels": [2]}, "labels are"),
        ({"box": (1, 2)}, "a box is"),
        ({"points": [(1, 2)] * 16}, "17 points, corners included, is too long"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_said(prompt: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(opened("mask-generation", FOLDER / "prompts"), make_picture(5, 5), **prompt)


def test_labels_of_pictures() -> None:
    task = opened("zero-shot-image-classification", FOLDER / "captions")
    picture = make_picture(5, 5)
    assert call(task, picture, "a dog, rain") == call(task, picture, ["a dog", "rain"])
    with pytest.raises(InputError, match="give shorter labels"):
        call(task, picture, [LONG])
    with pytest.raises(InputError, match="a label or more"):
        call(task, picture, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidate_labels": []}, "a label or more"),
        ({"candidate_labels": [3]}, "not a int"),
        ({"candidate_labels": [LONG]}, "shorter labels"),
        ({"candidate_labels": ["a"], "top_k": 0}, "top_k"),
        ({"candidate_labels": ["a"], "threshold": None}, "threshold"),
    ],
)
def test_what_is_wrong_with_names_of_things_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(opened("zero-shot-object-detection", FOLDER / "finds"), make_picture(5, 5), **options)


def test_the_last_token_is_the_first_end_or_the_highest() -> None:
    assert last_token([2, 7, 9, 3, 3, 0], 3) == 3
    assert last_token([5, 7, 4], 3) == 0
    assert last_token([0, 7, 9, 9, 1], 2) == 2


@pytest.mark.parametrize(("side", "tile"), [(16, 16), (17, 16), (40, 16), (100, 7), (3, 1), (5, 2)])
def test_tiles_cover_a_side_once(side: int, tile: int) -> None:
    covered = np.zeros(side, int)
    for span in spans(side, tile):
        assert 0 <= span.start <= side - tile
        assert 0 <= span.first < span.end <= tile
        covered[span.start + span.first : span.start + span.end] += 1
    assert (covered == 1).all()


def test_a_large_picture_is_made_in_tiles() -> None:
    picture = make_picture(37, 21)
    task = opened("image-to-image", FOLDER / "enlarged")
    found = call(task, picture)
    assert found.shape == (74, 42, 3)
    first = np.moveaxis(picture[:16, :16].astype(np.float32) / 255, 2, 0)[None]
    (values,) = asyncio.run(task.program.run("forward", first))
    wanted = np.moveaxis((values[0].clip(0, 1) * 255).round(), 0, 2)
    assert np.abs(found[:28, :28].astype(int) - wanted[:28, :28]).max() <= 1
