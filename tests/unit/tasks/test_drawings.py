"""text-to-image: pictures by seeds and options, and the models that are refused."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.tasks.drawing import (
    DRAWINGS,
    PICTURE,
    PROMPT,
    first_latents,
    painter_parts,
    write_folder,
    write_painter,
)
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.files.json_reader import Table
from webpte.errors import ExecutionError, InputError, SourceError
from webpte.tasks.vision.noise_schedule import read_schedule

USUAL = DRAWINGS["pndm"]


def drawn(folder: Path, *prompts: Any, **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        task: Any = await webpte.tasks.open("text-to-image", folder, device="numpy")
        async with task:
            return [await task(prompt, **options) for prompt in prompts]

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "painter", USUAL)


def change(folder: Path, **settings: Any) -> None:
    """Change the settings of a folder's schedule."""
    path = folder / "scheduler_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}), encoding="utf-8")


def test_a_folder_of_parts_is_opened_by_its_name(folder: Path, tmp_path: Path) -> None:
    """software-mansion's layout: programs in a folder, diffusers' folders beside."""
    (wanted,) = drawn(folder, PROMPT, seed=7, num_inference_steps=2)
    parts, place = painter_parts(), tmp_path / "painter-sdm" / "xnnpack"
    for name in ("xnnpack", "scheduler", "tokenizer"):
        (place.parent / name).mkdir(parents=True)
    for part, data in parts.items():
        (place / f"small_painter_{part}_xnnpack_fp32.pte").write_bytes(data)
    for name in ("scheduler/scheduler_config.json", "tokenizer/tokenizer.json"):
        shutil.copy(folder / Path(name).name, place.parent / name)

    async def run() -> Any:
        async with await webpte.tasks.open(place.parent, device="numpy") as task:
            assert task.name == "text-to-image"
            return await task(PROMPT, seed=7, num_inference_steps=2)

    assert np.array_equal(asyncio.run(run()), wanted)


def test_seeds_and_lists(folder: Path) -> None:
    first, again = drawn(folder, PROMPT, PROMPT, seed=7, num_inference_steps=2)
    (other,) = drawn(folder, PROMPT, seed=8, num_inference_steps=2)
    ((one, two),) = drawn(folder, [PROMPT, "w2"], num_inference_steps=2.0)
    assert first.shape == (*PICTURE[1:], 3)
    assert first.dtype == np.uint8
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(one, two)


def test_steps_are_told(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    drawn(folder, ["w1", "w2"], num_inference_steps=2, progress=lambda *two: told.append(two))
    assert told == [(number, 6) for number in range(1, 7)]  # PNDM does its first step twice


def test_guidance_leads_away_from_the_negative_text(folder: Path) -> None:
    options: dict[str, Any] = {"seed": 1, "num_inference_steps": 2, "guidance_scale": 3}
    plain, away = (
        drawn(folder, PROMPT, **options, negative_prompt=text)[0] for text in ("", "w2 w2")
    )
    assert not np.array_equal(plain, away)
    options["guidance_scale"] = 1  # the text alone
    plain, away = (
        drawn(folder, PROMPT, **options, negative_prompt=text)[0] for text in ("", "w2 w2")
    )
    assert np.array_equal(plain, away)


def test_a_long_text_keeps_its_last_token(folder: Path) -> None:
    options: dict[str, Any] = {"seed": 1, "num_inference_steps": 1}
    cut, known = drawn(folder, "w1 w2 w3 w4 w5 w6 w7", "w1 w2 w3 w4 w7", **options)
    assert np.array_equal(cut, known)


def test_latents_have_the_scale_of_the_decoder(folder: Path) -> None:
    options: dict[str, Any] = {"seed": 1, "num_inference_steps": 1}
    (usual,) = drawn(folder, PROMPT, **options)
    config = {"scaling_factor": 0.18215, "shift_factor": 0.0}
    path = folder / "vae_config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert np.array_equal(drawn(folder, PROMPT, **options)[0], usual)
    path.write_text(json.dumps({**config, "shift_factor": 0.5}), encoding="utf-8")
    assert not np.array_equal(drawn(folder, PROMPT, **options)[0], usual)


def test_a_picture_of_bytes_is_taken_as_it_is(tmp_path: Path) -> None:
    """software-mansion's decoders return (height, width, 3) from 0 to 255."""
    g = GraphWriter()
    latents = g.tensor((1, 4, 8, 12))
    dims = (8, 12, 3)
    cut = g.op(
        "aten.slice_copy.Tensor",
        *(latents, g.int(1), g.int(0), g.int(3), g.int(1)),
        g.tensor((1, 3, 8, 12)),
    )
    flat = g.op("aten.view_copy.default", cut, g.int_list(dims), g.tensor(dims))
    g.inputs(latents)
    g.outputs(flat)
    folder = write_folder(tmp_path / "painter", USUAL)
    (folder / "model.pte").write_bytes(write_painter(replaced={"vae": g}))
    (picture,) = drawn(folder, PROMPT, num_inference_steps=1, draw=lambda _: first_latents() * 900)
    assert picture.shape == dims
    assert {0, 255} < set(picture.ravel().tolist())


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ({"_class_name": "LCMScheduler"}, {}, "'LCMScheduler' is unknown; there are DDIM"),
        ({"prediction_type": "flow"}, {}, "prediction_type 'flow' is unknown"),
        ({"prediction_type": "sample"}, {}, "PNDM does not take"),
        ({"skip_prk_steps": False}, {}, "Runge-Kutta"),
        ({"beta_schedule": "sigmoid"}, {}, "beta_schedule 'sigmoid' is unknown"),
        ({"timestep_spacing": "even"}, {}, "timestep_spacing 'even' is unknown"),
        ({"beta_end": 2}, {}, "beta_start and beta_end"),
        ({"thresholding": True}, {}, "thresholding is not supported"),
        ({"steps_offset": 60}, {"num_inference_steps": 2}, "steps_offset 60 is too large"),
        ({}, {"num_inference_steps": 0}, "0 steps: a picture takes 1 to 100"),
        ({}, {"num_inference_steps": 101}, "101 steps"),
        ({}, {"num_inference_steps": 2.5}, "num_inference_steps is 2.5; it is a whole number"),
        ({}, {"guidance_scale": float("inf")}, "guidance_scale is inf"),
        ({}, {"seed": -1}, "seed is -1"),
        (
            {"_class_name": "EulerDiscreteScheduler"},
            {"num_inference_steps": 3},
            "takes whole timesteps, and scheduler_config.json gives 49.5",
        ),
    ],
)
def test_unknown_settings_are_refused(
    settings: Mapping[str, Any], options: Mapping[str, Any], said: str, folder: Path
) -> None:
    change(folder, **settings)
    with pytest.raises(InputError, match=said):
        drawn(folder, PROMPT, **options)


def _linear(*dims: int) -> GraphWriter:
    g = GraphWriter()
    x = g.tensor(dims)
    g.inputs(x)
    g.outputs(g.op("aten.tanh.default", x, g.tensor(dims)))
    return g


@pytest.mark.parametrize(
    ("part", "graph", "said"),
    [
        ("unet", _linear(2, 4, 8, 12), "'unet' must take latents, a timestep and vectors"),
        ("text_encoder", _linear(1, 5), "'text_encoder' must take tokens"),
        ("vae", _linear(1, 4, 8, 10), r"makes latents \[4, 8, 12\], and 'vae' takes \[4, 8, 10\]"),
        ("vae", _linear(1, 4, 8, 12), r"'vae' returns \[4, 8, 12\], which is no picture"),
    ],
)
def test_other_programs_are_refused(part: str, graph: GraphWriter, said: str, folder: Path) -> None:
    (folder / "model.pte").write_bytes(write_painter(replaced={part: graph}))
    with pytest.raises(InputError, match=said):
        drawn(folder, PROMPT, num_inference_steps=1)


def test_a_missing_part_is_named(folder: Path) -> None:
    (folder / "model.pte").write_bytes(write_pte(_linear(2, 2)))
    with pytest.raises(InputError, match="it has no method 'text_encoder'"):
        drawn(folder, PROMPT)
    (folder / "scheduler_config.json").unlink()
    with pytest.raises(SourceError, match=r"has no scheduler_config\.json"):
        drawn(folder, PROMPT)


def test_a_result_that_is_no_number_is_an_error(folder: Path) -> None:
    with pytest.raises(ExecutionError, match="NaN"):
        drawn(folder, PROMPT, draw=lambda shape: np.full(shape, np.nan))


@pytest.mark.parametrize("name", DRAWINGS)
def test_each_schedule_ends_without_noise(name: str) -> None:
    """A model that knows the picture draws the picture from any noise, by any schedule."""
    drawing = DRAWINGS[name]
    schedule = read_schedule(Table(drawing.config, "scheduler_config.json", InputError), 20)
    kind = drawing.settings.get("prediction_type", "epsilon")
    picture, noise = np.full((1, 4, 2, 2), 0.25), first_latents()[:, :, :2, :2]
    latents = noise * schedule.first_size
    for number, timestep in enumerate(schedule.timesteps):
        given = schedule.scaled(latents, number)
        alpha = np.interp(float(timestep), np.arange(schedule.trained), schedule.alphas)
        known = (given - alpha**0.5 * picture) / (1 - alpha) ** 0.5
        velocity = alpha**0.5 * known - (1 - alpha) ** 0.5 * picture
        told = {"epsilon": known, "v_prediction": velocity, "sample": picture}
        latents = schedule.step(latents, told[kind], number)
    assert np.abs(latents - picture).max() < 0.1
