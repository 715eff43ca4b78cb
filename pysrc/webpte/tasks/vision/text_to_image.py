"""text-to-image: a picture of a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.llm.text import Tokenizer
from webpte.tasks.encoder import checked_text
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.form import TEXT, Field, Slider, TaskForm
from webpte.tasks.task import Task, task
from webpte.tasks.vision.noise_schedule import NoiseSchedule, read_schedule

Array = np.ndarray
Draw = Callable[[tuple[int, ...]], Array]
SCHEDULER, VAE_CONFIG = "scheduler_config.json", "vae_config.json"
_ENCODERS, _MODELS = ("text_encoder",), ("unet", "denoiser", "transformer")
_DECODERS = ("vae", "vae_decoder", "decoder")
_STEPS, _GUIDANCE = 25, 7.5
_FACTOR = 0.18215  # of Stable Diffusion's latents
_COLOURS = 3


@task(
    "text-to-image",
    form=TaskForm(
        TEXT,
        (Field("prompt", "text", "a medieval castle by the sea shore", 2),),
        (
            Slider("num_inference_steps", "steps", _STEPS, 1, 100, 1),
            Slider("seed", "seed", 0, 0, 1000, 1),
        ),
        progress=True,
    ),
)
class TextToImage(Task):
    """Draws pictures of texts, by latent diffusion (Stable Diffusion, BK-SDM, SDXS).

    await task("a castle by the sea", seed=7)       # (height, width, 3) of bytes

    The program's `text_encoder` takes tokens and returns their vectors, `unet` takes latents, a
    timestep and the vectors, and returns the noise; `vae` turns latents into a picture. A model
    that takes two latents at once is guided: by the text, and away from another text.
    """

    needed: ClassVar[Sequence[str]] = (TOKENIZER, SCHEDULER)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG, VAE_CONFIG)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # always there: it is needed
        self._tokenizer: Tokenizer = files.tokenizer
        self._schedule = files.table(SCHEDULER)
        vae = files.table(VAE_CONFIG)
        self._factor = vae.number("scaling_factor", _FACTOR)
        self._shift = vae.number("shift_factor", 0.0)
        self._encoder = self._method(_ENCODERS)
        self._model = self._method(_MODELS)
        self._decoder = self._method(_DECODERS)
        self._tokens = self._tensors(self._encoder)[0]
        self._given = [_role_of(one) for one in self._tensors(self._model)]
        latents = self._tensors(self._decoder)[0]
        if sorted(self._given) != ["latents", "timestep", "vectors"] or len(latents.shape) != 4:
            self._refuse(f"{self._model.name!r} must take latents, a timestep and vectors")
        if len(self._tokens.shape) != 2 or "int" not in self._tokens.dtype:
            self._refuse(f"{self._encoder.name!r} must take tokens")
        self._size = latents.shape[1:]
        rows = self._tensor("latents").shape
        if rows[1:] != self._size:
            self._refuse(
                f"{self._model.name!r} makes latents {list(rows[1:])}, and {self._decoder.name!r} "
                f"takes {list(self._size)}"
            )
        self._guided = rows[0] > 1

    def _method(self, names: Sequence[str]) -> MethodInfo:
        found = [self.program.methods[name] for name in names if name in self.program.methods]
        if not found:
            self._refuse(f"it has no method {names[0]!r}")
        return found[0]

    def _refuse(self, why: str) -> None:
        raise InputError(f"{self.program.name} is not a program for {self.name}: {why}")

    def _tensors(self, method: MethodInfo) -> list[TensorInfo]:
        found = [one for one in method.inputs if isinstance(one, TensorInfo)]
        if not found or len(found) != len(method.inputs):
            self._refuse(f"{method.name!r} must take tensors")
        return found

    def _tensor(self, role: str) -> TensorInfo:
        return self._tensors(self._model)[self._given.index(role)]

    async def __call__(
        self,
        prompt: Any,
        *,
        negative_prompt: str = "",
        num_inference_steps: float = _STEPS,
        guidance_scale: float = _GUIDANCE,
        seed: float | None = None,
        draw: Draw | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """Return a picture (height, width, 3) of bytes, or a list of them.

        prompt               a text, or a list of texts
        negative_prompt      a text that the picture shall not show, in a guided model
        num_inference_steps  steps from noise to the picture; more take longer
        guidance_scale       how closely a guided model keeps to the text; 1: not guided
        seed                 the same seed gives the same picture
        draw                 a function that returns normal noise of a shape, in place of `seed`
        progress             called after each step with the steps that are done, and all steps
        """
        steps = _whole(num_inference_steps, "num_inference_steps")
        if isinstance(guidance_scale, bool) or not math.isfinite(guidance_scale):
            raise InputError(f"guidance_scale is {guidance_scale!r}; it is a finite number")
        if draw is None:
            draw = np.random.default_rng(
                None if seed is None else _whole(seed, "seed")
            ).standard_normal
        many = isinstance(prompt, list | tuple)
        texts = [checked_text(text) for text in (prompt if many else [prompt])]
        away = await self._vectors(checked_text(negative_prompt)) if self._guided else None
        found: list[Array] = []
        for text in texts:
            schedule, vectors = read_schedule(self._schedule, steps), await self._vectors(text)
            latents = draw((1, *self._size)).astype(np.float64) * schedule.first_size
            every, total = len(schedule.timesteps), len(schedule.timesteps) * len(texts)
            for number in range(every):
                predicted = await self._predicted(
                    schedule, number, latents, vectors, away, float(guidance_scale)
                )
                latents = schedule.step(latents, predicted, number)
                if progress is not None:
                    progress(every * len(found) + number + 1, total)
            found.append(await self._decoded(latents))
        return found if many else found[0]

    async def _vectors(self, text: str) -> Array:
        """Return the vectors of a text's tokens (1, tokens, width); a text that is long is cut."""
        length = self._tokens.shape[1]
        tokens = list(self._tokenizer.encode(text))
        if len(tokens) > length:
            tokens = [*tokens[: length - 1], tokens[-1]]
        pad = self._tokenizer.id_of(self._tokenizer.special.get("pad_token", ""))
        last = tokens[-1] if tokens else 0  # CLIP's end of a text also fills the room after it
        tokens += [last if pad is None else pad] * (length - len(tokens))
        given = [np.array([tokens], self._tokens.array_dtype)]
        for one in self._tensors(self._encoder)[1:]:
            given.append((given[0] != 0).astype(one.array_dtype))
        found = await self.program.run(self._encoder.name, *given)
        vectors = [one for one in found if np.ndim(one) == 3]
        if not vectors:
            self._refuse(f"{self._encoder.name!r} must return a vector for each token")
        return np.asarray(vectors[0])

    async def _predicted(
        self,
        schedule: NoiseSchedule,
        number: int,
        latents: Array,
        vectors: Array,
        away: Array | None,
        scale: float,
    ) -> Array:
        """Return the model's prediction at a step, by the text and away from the other text."""
        given = {
            "latents": np.repeat(schedule.scaled(latents, number), 1 + self._guided, axis=0),
            "timestep": self._timestep(float(schedule.timesteps[number])),
            "vectors": vectors if away is None else np.concatenate([away, vectors]),
        }
        values = [given[role].astype(self._tensor(role).array_dtype) for role in self._given]
        (found,) = await self.program.run(self._model.name, *values)
        predicted = self._checked(found)
        return predicted if away is None else predicted[:1] + scale * np.diff(predicted, axis=0)

    def _checked(self, values: Any) -> Array:
        found = np.asarray(values, np.float64)
        if not np.isfinite(found).all():
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        return found

    async def _decoded(self, latents: Array) -> Array:
        """Return bytes of a picture."""
        given = (latents / self._factor + self._shift).astype(
            self._tensors(self._decoder)[0].array_dtype
        )
        (found,) = await self.program.run(self._decoder.name, given)
        return self._picture(self._checked(found))

    def _timestep(self, timestep: float) -> Array:
        info = self._tensor("timestep")
        if "int" in info.dtype and timestep != round(timestep):
            raise InputError(
                f"{self.program.name} takes whole timesteps, and {SCHEDULER} gives {timestep:g}: "
                'use another number of steps, or "timestep_spacing": "leading"'
            )
        return np.full(info.shape, timestep)

    def _picture(self, values: Array) -> Array:
        """Return bytes of a picture: of (1, 3, height, width) from -1 to 1, or of 0 to 255."""
        values = values[0] if values.ndim == 4 else values
        if values.ndim == 3 and values.shape[0] == _COLOURS:
            values = np.moveaxis((values / 2 + 0.5) * 255, 0, 2).round()
        elif values.ndim != 3 or values.shape[2] != _COLOURS:
            self._refuse(
                f"{self._decoder.name!r} returns {list(values.shape)}, which is no picture"
            )
        return values.clip(0, 255).astype(np.uint8)


def _role_of(info: TensorInfo) -> str:
    """Return the role of an input of the model, by its number of dims."""
    return {4: "latents", 3: "vectors"}.get(len(info.shape), "timestep")


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != round(value):
        raise InputError(f"{name} is {value!r}; it is a whole number")
    if value < 0:
        raise InputError(f"{name} is {value!r}; it is a number from 0 on")
    return int(value)
