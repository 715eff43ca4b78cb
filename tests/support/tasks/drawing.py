"""Calls of text-to-image, with a small model and what diffusers' pipeline draws with it.

tests/data/make/make_drawings.py writes the pictures, by the same formulas in PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from support.harness.task_cases import models_folder
from support.llm.small_seq2seq import tokenizer_of
from support.tasks.calls import TaskCall
from support.write.pte_writer import GraphWriter, write_pte

DATA = Path(__file__).parents[2] / "data" / "tasks" / "drawn.npz"
TASK, PROMPT = "text-to-image", "w3 w1 w4"
WORDS, LENGTH, WIDTH, TRAINED = 9, 5, 6, 100
LATENTS, PICTURE = (4, 8, 12), (3, 16, 24)
_BETAS = {"beta_start": 0.00085, "beta_end": 0.05, "num_train_timesteps": TRAINED}
_SCALED = {**_BETAS, "beta_schedule": "scaled_linear"}
_TRAILING, _LEADING = {"timestep_spacing": "trailing"}, {"timestep_spacing": "leading"}
_VELOCITY = {"prediction_type": "v_prediction"}


@dataclass(frozen=True)
class Drawing:
    """A call: the model's schedule, whether it is guided, and options."""

    schedule: str
    settings: dict[str, Any]
    guided: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        return {"_class_name": self.schedule, **self.settings}


_PNDM = {**_SCALED, "skip_prk_steps": True, "steps_offset": 1}
DRAWINGS = {
    "pndm": Drawing("PNDMScheduler", _PNDM, options={"num_inference_steps": 7}),
    "pndm_velocity": Drawing(
        "PNDMScheduler", {**_PNDM, **_VELOCITY}, options={"num_inference_steps": 3}
    ),
    "pndm_once": Drawing("PNDMScheduler", _PNDM, options={"num_inference_steps": 1}),
    "ddim": Drawing(
        "DDIMScheduler",
        {**_BETAS, **_TRAILING},
        options={"num_inference_steps": 6, "guidance_scale": 2.5, "negative_prompt": "w2"},
    ),
    "ddim_cosine": Drawing(
        "DDIMScheduler",
        {
            "beta_schedule": "squaredcos_cap_v2",
            "num_train_timesteps": TRAINED,
            "clip_sample": False,
            "set_alpha_to_one": False,
            "prediction_type": "sample",
        },
        options={"num_inference_steps": 4},
    ),
    "euler": Drawing(
        "EulerDiscreteScheduler", {**_SCALED, **_TRAILING}, False, {"num_inference_steps": 5}
    ),
    "euler_velocity": Drawing(
        "EulerDiscreteScheduler",
        {**_SCALED, **_LEADING, **_VELOCITY, "steps_offset": 1},
        options={"num_inference_steps": 4},
    ),
}


class SmallPainter:
    """The weights of the model."""

    def __init__(self) -> None:
        random = np.random.default_rng(11)

        def normal(*dims: int) -> np.ndarray:
            return random.standard_normal(dims).astype(np.float32)

        self.words = normal(WORDS, WIDTH)
        self.mix = normal(4, WIDTH) / 2
        self.times = normal(TRAINED, 4) / 4
        self.colours = normal(3, 4) / 12


def first_latents() -> np.ndarray:
    """Return the noise that a picture starts with."""
    return np.random.default_rng(3).standard_normal((1, *LATENTS)).astype(np.float32)


def write_painter(guided: bool = True, replaced: Mapping[str, GraphWriter] | None = None) -> bytes:
    """Write the program: text_encoder, unet and vae, or others in their place."""
    return write_pte(methods={**_methods(guided), **(replaced or {})})


def painter_parts() -> dict[str, bytes]:
    """Write a program for each part."""
    return {name: write_pte(graph) for name, graph in _methods(True).items()}


def _methods(guided: bool) -> dict[str, GraphWriter]:
    model, rows = SmallPainter(), 1 + guided
    return {"text_encoder": _encoder(model), "unet": _unet(model, rows), "vae": _vae(model)}


def _encoder(model: SmallPainter) -> GraphWriter:
    g = GraphWriter()
    tokens = g.tensor((1, LENGTH), "int32")
    g.host(tokens, dtype="int64")
    words = g.tensor(model.words.shape, constant=model.words)
    g.inputs(tokens)
    g.outputs(g.op("aten.embedding.default", words, tokens, g.tensor((1, LENGTH, WIDTH))))
    return g


def _unet(model: SmallPainter, rows: int) -> GraphWriter:
    """tanh(0.8 latents + mix(mean of vectors) + times[timestep])"""
    g, dims, ones = GraphWriter(), (rows, *LATENTS), g_dims(rows)
    latents, vectors = g.tensor(dims), g.tensor((rows, LENGTH, WIDTH))
    timestep = g.tensor((1,), "int32")
    g.host(timestep, dtype="int64")
    mix, times = (g.tensor(one.shape, constant=one) for one in (model.mix, model.times))
    over = g.int_list([1]), g.bool_(False)
    mean = g.op("aten.mean.dim", vectors, *over, g.tensor((rows, WIDTH)))
    mixed = g.op("aten.linear.default", mean, mix, g.null(), g.tensor((rows, 4)))
    mixed = g.op("aten.view_copy.default", mixed, g.int_list(ones), g.tensor(ones))
    time = g.op("aten.embedding.default", times, timestep, g.tensor((1, 4)))
    one = g_dims(1)
    time = g.op("aten.view_copy.default", time, g.int_list(one), g.tensor(one))
    share = g.tensor(one[:1], constant=np.array([0.8], np.float32))
    found = g.op("aten.mul.Tensor", latents, share, g.tensor(dims))
    for added in (mixed, time):
        found = g.op("aten.add.Tensor", found, added, g.int(1), g.tensor(dims))
    g.inputs(latents, timestep, vectors)
    g.outputs(g.op("aten.tanh.default", found, g.tensor(dims)))
    return g


def g_dims(rows: int) -> tuple[int, ...]:
    """Return the dims of a number for each channel of the latents."""
    return (rows, LATENTS[0], 1, 1)


def _vae(model: SmallPainter) -> GraphWriter:
    """tanh(colours of each pixel), each pixel four times"""
    g, small = GraphWriter(), (1, 3, *LATENTS[1:])
    latents = g.tensor((1, *LATENTS))
    weight = g.tensor((3, 4, 1, 1), constant=model.colours[:, :, None, None])
    ones, none = g.int_list([1, 1]), g.int_list([0, 0])
    rest = ones, none, ones, g.bool_(False), none, g.int(1)
    found = g.op("aten.convolution.default", latents, weight, g.null(), *rest, g.tensor(small))
    found = g.op("aten.tanh.default", found, g.tensor(small))
    factors = g.double_list([2.0, 2.0])
    whole = g.tensor((1, *PICTURE))
    g.inputs(latents)
    g.outputs(g.op("aten.upsample_nearest2d.vec", found, g.null(), factors, whole))
    return g


def write_folder(folder: Path, drawing: Drawing) -> Path:
    """Write a model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pte").write_bytes(write_painter(drawing.guided))
    files = {"tokenizer": tokenizer_of(WORDS), "scheduler_config": drawing.config}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def calls() -> Iterator[TaskCall]:
    with np.load(DATA) as drawn:
        for name, drawing in DRAWINGS.items():
            model = write_folder(models_folder() / f"painter-{name}", drawing).name
            noise, wanted = [first_latents()], {"pixels": drawn[name].tolist()}
            yield TaskCall(TASK, model, [PROMPT], drawing.options, wanted, noise=noise)
