"""Writes tests/data/tasks/drawn.npz: what diffusers' pipeline draws with a small model.

    PYTHONPATH=pysrc:tests python tests/data/make/make_drawings.py

It needs the environment of `serve.py export`, with diffusers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import diffusers  # type: ignore[import-not-found]
import numpy as np
import torch
from diffusers.configuration_utils import FrozenDict  # type: ignore[import-not-found]

from support.tasks.drawing import (
    DATA,
    DRAWINGS,
    LATENTS,
    LENGTH,
    PICTURE,
    PROMPT,
    Drawing,
    SmallPainter,
    first_latents,
    g_dims,
)

_WEIGHTS = {name: torch.from_numpy(one) for name, one in vars(SmallPainter()).items()}


class Component(torch.nn.Module):  # type: ignore[misc]
    """A part of a pipeline, whose `config` is a table."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = FrozenDict(config)


class Encoder(Component):
    def forward(self, tokens: torch.Tensor, **_: Any) -> Any:
        return (_WEIGHTS["words"][tokens],)


class Unet(Component):
    add_embedding = None

    def forward(
        self, latents: torch.Tensor, timestep: Any, encoder_hidden_states: torch.Tensor, **_: Any
    ) -> Any:
        mixed = encoder_hidden_states.mean(1) @ _WEIGHTS["mix"].T
        time = _WEIGHTS["times"][int(timestep)]
        found = 0.8 * latents + mixed.view(g_dims(len(latents))) + time.view(g_dims(1))
        return (found.tanh(),)


class Decoder(Component):
    def decode(self, latents: torch.Tensor, **_: Any) -> Any:
        found = torch.einsum("oc,bchw->bohw", _WEIGHTS["colours"], latents).tanh()
        return (torch.nn.functional.interpolate(found, scale_factor=2, mode="nearest"),)


class Words:
    """The tokenizer: "w3" is 3, and texts are filled up with their last token."""

    model_max_length = LENGTH

    def __call__(self, texts: Any, **_: Any) -> Any:
        rows = []
        for text in [texts] if isinstance(texts, str) else texts:
            tokens = [int(word[1:]) for word in text.split()] or [0]
            rows.append(tokens + tokens[-1:] * (LENGTH - len(tokens)))
        return SimpleNamespace(input_ids=torch.tensor(rows), attention_mask=None)

    def batch_decode(self, *_: Any) -> list[str]:
        return []


class Pipeline(diffusers.StableDiffusionPipeline):  # type: ignore[misc]
    """diffusers' pipeline, with parts that are not its own."""

    _execution_device = torch.device("cpu")

    def __init__(self, **parts: Any) -> None:
        diffusers.DiffusionPipeline.__init__(self)
        for name in ("safety_checker", "feature_extractor", "image_encoder"):
            setattr(self, name, None)
        for name, part in parts.items():
            setattr(self, name, part)
        self.vae_scale_factor = 2
        self.image_processor = diffusers.image_processor.VaeImageProcessor(vae_scale_factor=1)
        self.set_progress_bar_config(disable=True)

    def maybe_free_model_hooks(self) -> None:
        """Do nothing: there are no hooks."""

    def maybe_convert_prompt(self, prompt: Any, tokenizer: Any) -> Any:
        """Return the prompt: it names no learned vectors."""
        return prompt


def draw(drawing: Drawing) -> np.ndarray:
    """Return a picture (height, width, 3) of bytes."""
    options = dict(drawing.options)
    options.setdefault("negative_prompt", "w0")
    if not drawing.guided:
        options["guidance_scale"] = 1.0
    schedule = getattr(diffusers, drawing.schedule).from_config(drawing.settings)
    unet = Unet(in_channels=4, sample_size=LATENTS[1], time_cond_proj_dim=None)
    vae = Decoder(scaling_factor=0.18215, block_out_channels=(1, 1), latent_channels=4)
    pipe = Pipeline(
        vae=vae, text_encoder=Encoder(), tokenizer=Words(), unet=unet, scheduler=schedule
    )
    size = {"height": PICTURE[1], "width": PICTURE[2]}
    first = torch.from_numpy(first_latents())
    made = pipe(PROMPT, latents=first, output_type="np", **size, **options).images[0]
    return (np.asarray(made) * 255).round().astype(np.uint8)


if __name__ == "__main__":
    pictures: dict[str, Any] = {name: draw(one) for name, one in DRAWINGS.items()}
    np.savez_compressed(DATA, **pictures)
