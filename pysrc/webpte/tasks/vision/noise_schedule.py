"""Schedules of diffusion models: the steps from noise to a picture, by diffusers' settings.

A schedule comes from scheduler_config.json. The model is told a number of `timesteps` at each step;
`step` turns the latents of a step into the latents of the next, by the model's prediction. Alphas
are shares of the picture in the noisy latents; `sigma` is the noise beside a picture of size 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError

Array = np.ndarray
_MOST_TRAINED, _MOST_STEPS = 100_000, 1_000
_SPACINGS = ("leading", "linspace", "trailing")
# Weights of the last predictions, the newest first: linear multistep methods of order 1 to 4.
_MULTISTEP = (
    (1.0,),
    (3 / 2, -1 / 2),
    (23 / 12, -16 / 12, 5 / 12),
    (55 / 24, -59 / 24, 37 / 24, -9 / 24),
)


class NoiseSchedule(ABC):
    """A schedule for a number of steps.

    timesteps   the number of each step for the model, from noise to the picture
    first_size  the standard deviation of the first latents
    """

    spacing = "leading"
    alpha_one = False

    def __init__(self, settings: Table, steps: int) -> None:
        """Read the settings; raise InputError for unknown settings."""
        self._settings = settings
        self.trained = settings.integer("num_train_timesteps", 1000, low=2, high=_MOST_TRAINED)
        if not 1 <= steps <= min(self.trained, _MOST_STEPS):
            most = min(self.trained, _MOST_STEPS)
            raise InputError(f"{steps} steps: a picture takes 1 to {most}")
        self._kind = settings.text("prediction_type", "epsilon")
        if self._kind not in ("epsilon", "v_prediction", "sample"):
            raise InputError(f"{settings.name}: the prediction_type {self._kind!r} is unknown")
        for name in ("thresholding", "rescale_betas_zero_snr", "use_karras_sigmas"):
            if settings.flag(name, False):
                raise InputError(f"{settings.name}: {name} is not supported")
        self.alphas = np.cumprod(1 - self._betas())
        self.steps = steps
        self.first_size = 1.0
        self.timesteps = self._timesteps()

    def _betas(self) -> Array:
        """Return the noise that each step of the training added."""
        settings, count = self._settings, self.trained
        low = settings.number("beta_start", 0.0001)
        high = settings.number("beta_end", 0.02)
        if not 0 < low <= high < 1:
            raise InputError(f"{settings.name}: beta_start and beta_end are {low} and {high}")
        kind = settings.text("beta_schedule", "linear")
        if kind == "linear":
            return np.linspace(low, high, count)
        if kind == "scaled_linear":
            return np.linspace(low**0.5, high**0.5, count) ** 2
        if kind == "squaredcos_cap_v2":
            at = np.arange(count + 1) / count
            left = np.cos((at + 0.008) / 1.008 * np.pi / 2) ** 2
            return np.minimum(1 - left[1:] / left[:-1], 0.999)
        raise InputError(f"{settings.name}: the beta_schedule {kind!r} is unknown")

    def _spaced(self) -> Array:
        """Return timesteps between the first and the last of the training, the latest first."""
        spacing = self._settings.text("timestep_spacing", self.spacing)
        if spacing not in _SPACINGS:
            raise InputError(f"{self._settings.name}: the timestep_spacing {spacing!r} is unknown")
        if spacing == "linspace":
            return np.linspace(0, self.trained - 1, self.steps)[::-1]
        if spacing == "trailing":
            return (self.trained - np.arange(self.steps) * (self.trained / self.steps)).round() - 1
        offset = self._settings.integer("steps_offset", 0, low=0, high=self.trained)
        found = np.arange(self.steps)[::-1] * (self.trained // self.steps) + offset
        if found[0] >= self.trained:
            raise InputError(f"{self._settings.name}: steps_offset {offset} is too large")
        return found.astype(np.float64)

    def _timesteps(self) -> Array:
        return self._spaced().round()

    def _alpha(self, timestep: int) -> float:
        """Return the cumulative alpha of a timestep; a negative timestep is the end."""
        if timestep >= 0:
            return float(self.alphas[timestep])
        one = self._settings.flag("set_alpha_to_one", self.alpha_one)
        return 1.0 if one else float(self.alphas[0])

    def _split(self, latents: Array, predicted: Array, alpha: float) -> tuple[Array, Array]:
        """Return the picture and the noise in latents, by the model's prediction."""
        clear, noisy = alpha**0.5, (1 - alpha) ** 0.5
        if self._kind == "epsilon":
            return (latents - noisy * predicted) / clear, predicted
        if self._kind == "sample":
            return predicted, (latents - clear * predicted) / noisy
        return clear * latents - noisy * predicted, clear * predicted + noisy * latents

    def scaled(self, latents: Array, number: int) -> Array:
        """Return latents as the model takes them at a step."""
        return latents

    @abstractmethod
    def step(self, latents: Array, predicted: Array, number: int) -> Array:
        """Return the latents after step `number`, in order from 0."""


class DDIM(NoiseSchedule):
    """DDIM without added noise."""

    alpha_one = True

    def step(self, latents: Array, predicted: Array, number: int) -> Array:
        timestep = int(self.timesteps[number])
        after = self._alpha(timestep - self.trained // self.steps)
        picture, noise = self._split(latents, predicted, self._alpha(timestep))
        if self._settings.flag("clip_sample", True):
            most = self._settings.number("clip_sample_range", 1.0)
            picture = picture.clip(-most, most)
        return after**0.5 * picture + (1 - after) ** 0.5 * noise


class PNDM(NoiseSchedule):
    """PNDM's linear multistep method, whose first step runs twice."""

    def __init__(self, settings: Table, steps: int) -> None:
        super().__init__(settings, steps)
        if not settings.flag("skip_prk_steps", False):
            raise InputError(f"{settings.name}: PNDM with Runge-Kutta steps is not supported")
        if self._kind == "sample":
            raise InputError(f"{settings.name}: PNDM does not take the prediction_type 'sample'")
        self._noises: list[Array] = []
        self._first: Array | None = None

    def _timesteps(self) -> Array:
        once = super()._timesteps()
        return np.concatenate([once[:1], once[1:2], once[1:]])

    def step(self, latents: Array, predicted: Array, number: int) -> Array:
        timestep, stride = int(self.timesteps[number]), self.trained // self.steps
        if number == 1 and self._first is not None:  # the first step again, by both ends
            noise, latents = (predicted + self._noises[0]) / 2, self._first
            return self._moved(latents, noise, timestep + stride, timestep)
        if number == 0:
            self._first = latents
        self._noises = [predicted, *self._noises[:3]]
        weights = _MULTISTEP[len(self._noises) - 1]
        noise = sum(
            (weight * one for weight, one in zip(weights, self._noises, strict=True)),
            np.zeros_like(latents),
        )
        return self._moved(latents, noise, timestep, timestep - stride)

    def _moved(self, latents: Array, predicted: Array, timestep: int, after: int) -> Array:
        alpha, last = self._alpha(timestep), self._alpha(after)
        _, noise = self._split(latents, predicted, alpha)
        scale = alpha * (1 - last) ** 0.5 + (alpha * (1 - alpha) * last) ** 0.5
        return (last / alpha) ** 0.5 * latents - (last - alpha) / scale * noise


class EulerDiscrete(NoiseSchedule):
    """Euler's method on the noise beside the picture."""

    spacing = "linspace"

    def __init__(self, settings: Table, steps: int) -> None:
        super().__init__(settings, steps)
        all_sigmas = ((1 - self.alphas) / self.alphas) ** 0.5
        found = np.interp(self.timesteps, np.arange(self.trained), all_sigmas)
        self._sigmas = np.append(found, 0.0)
        high = float(found.max())
        even = settings.text("timestep_spacing", self.spacing) != "leading"
        self.first_size = high if even else (high**2 + 1) ** 0.5

    def _timesteps(self) -> Array:
        return self._spaced()

    def scaled(self, latents: Array, number: int) -> Array:
        return latents / (self._sigmas[number] ** 2 + 1) ** 0.5

    def step(self, latents: Array, predicted: Array, number: int) -> Array:
        sigma, after = self._sigmas[number], self._sigmas[number + 1]
        alpha = 1 / (sigma**2 + 1)
        _, noise = self._split(latents * alpha**0.5, predicted, alpha)
        return latents + noise * (after - sigma)


SCHEDULES: dict[str, Callable[[Table, int], NoiseSchedule]] = {
    "DDIMScheduler": DDIM,
    "PNDMScheduler": PNDM,
    "EulerDiscreteScheduler": EulerDiscrete,
}


def read_schedule(settings: Table, steps: int) -> NoiseSchedule:
    """Return the schedule of scheduler_config.json for a number of steps."""
    name = settings.text("_class_name")
    made = SCHEDULES.get(name)
    if made is None:
        known = ", ".join(SCHEDULES)
        raise InputError(f"{settings.name}: the schedule {name!r} is unknown; there are {known}")
    return made(settings, steps)
