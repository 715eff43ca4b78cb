"""Training of a program whose methods `learn` and `predict` take their weights as inputs.

    learner = webpte.training.Learner(program)
    async for loss in learner.learn(examples, labels, steps=60):
        print(loss)
    logits = await learner.predict(example)

The methods are

    learn(examples [B, ...], labels int32 [B], rate [1], w, m, v, ...) -> loss, w, m, v, ...
    predict(examples [1, ...], w, w, ...) -> logits [1, classes]

Each weight w comes with the optimizer's two moments m and v. A step's outputs are the next step's
inputs and stay on the GPU in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.errors import InputError
from webpte.program import Program

Array = np.ndarray
Vary = Callable[[Array, np.random.Generator], Array]

LEARN, PREDICT = "learn", "predict"
RATE = 0.003
STEPS_AT_ONCE = 4  # losses are read together: fewer round trips, and still a smooth curve
_GIVEN, _OF_WEIGHT = 3, 3  # inputs of `learn` before the weights; tensors for each weight
_LOGITS = 2  # shape of the result of `predict`


@dataclass(frozen=True)
class Form:
    """The form of a trainable program.

    batch, shape  examples per step, and the shape of one
    classes       labels are 0 to classes - 1
    weights       shapes of the weights
    """

    batch: int
    shape: tuple[int, ...]
    classes: int
    weights: tuple[tuple[int, ...], ...]


def form_of(methods: Mapping[str, MethodInfo]) -> Form:
    """Return the form of a trainable program; raise InputError for other programs."""
    if LEARN not in methods or PREDICT not in methods:
        listed = ", ".join(methods) or "none"
        raise InputError(
            f"a program that can be taught has the methods {LEARN!r} and {PREDICT!r}; this one "
            f"has: {listed}"
        )
    learn, predict = shapes_of(methods[LEARN].inputs), shapes_of(methods[PREDICT].inputs)
    if len(learn) < _GIVEN + _OF_WEIGHT or (len(learn) - _GIVEN) % _OF_WEIGHT:
        raise InputError(
            f"{LEARN!r} takes examples, labels, a rate, and three tensors for each weight; it has "
            f"{len(learn)} inputs"
        )
    weights, outputs = learn[_GIVEN::_OF_WEIGHT], shapes_of(methods[LEARN].outputs)
    if outputs[1:] != learn[_GIVEN:] or math.prod(outputs[0] or (1,)) != 1:
        raise InputError(
            f"{LEARN!r} gives the loss, and then the weights in the shapes they had: "
            f"{learn[_GIVEN:]}, not {outputs[1:]}"
        )
    batch, shape = learn[0][:1], learn[0][1:]
    if not batch or predict != [(1, *shape), *weights] or learn[1] != batch:
        raise InputError(
            f"{PREDICT!r} takes one example and the weights of {LEARN!r}, "
            f"{[(1, *shape), *weights]}, not {predict}"
        )
    logits = shapes_of(methods[PREDICT].outputs)
    if len(logits) != 1 or len(logits[0]) != _LOGITS:
        raise InputError(f"{PREDICT!r} gives logits [1, classes], not {logits}")
    return Form(batch[0], shape, logits[0][-1], tuple(weights))


def can_be_taught(methods: Mapping[str, MethodInfo]) -> bool:
    """Return whether a Learner accepts a program with these methods."""
    try:
        form_of(methods)
    except InputError:
        return False
    return True


class Learner:
    """The weights of a program in training. Await each call before the next.

    rate  the learning rate; it may be set between steps
    seed  for the initial weights and the choice of examples
    """

    def __init__(self, program: Program, *, rate: float = RATE, seed: int = 0) -> None:
        self.form = form_of(program.methods)
        self.rate = rate
        self.steps = 0  # since `reset`
        self._program = program
        self._rng = np.random.default_rng(seed)
        self._state: list[Array | GpuTensor] = []
        self.reset(seed)

    def reset(self, seed: int = 0) -> None:
        """Start again from random weights."""
        self._rng = np.random.default_rng(seed)
        self.steps = 0
        self._state = []
        for at, shape in enumerate(self.form.weights):
            spread = math.sqrt(2 / math.prod(shape[1:]))  # keeps the size of activations (He)
            if at == len(self.form.weights) - 1:
                spread *= 0.1  # classes start about equally likely
            weight = self._rng.normal(0, spread, shape).astype(np.float32)
            self._state += [weight, np.zeros_like(weight), np.zeros_like(weight)]

    async def learn(
        self, examples: Array, labels: Sequence[int], steps: int, vary: Vary | None = None
    ) -> AsyncGenerator[float, None]:
        """Train on `steps` batches of the examples, and yield the loss of each.

        Every class with examples is equally frequent in batches, however many examples it has.
        `vary` may augment the examples of a batch. A caller that stops early keeps the weights so
        far, which may be up to four steps ahead of the losses yielded.
        """
        examples, wanted = self._checked(examples, labels)
        for start in range(0, steps, STEPS_AT_ONCE):
            losses = []
            for _ in range(min(STEPS_AT_ONCE, steps - start)):
                chosen = self._choose(wanted)
                batch = examples[chosen]
                if vary is not None:
                    batch = vary(batch, self._rng).astype(np.float32)
                losses.append(await self.step(batch, wanted[chosen]))
            for loss in await asyncio.gather(*map(array_of, losses)):
                yield float(loss.reshape(()))

    async def step(self, batch: Array, labels: Array) -> Array | GpuTensor:
        """Train on a batch and return its loss; the weights stay unchanged if the step fails."""
        if not math.isfinite(self.rate):  # it would destroy the weights
            raise InputError(f"the learning rate is {self.rate}; it must be finite")
        rate, numbers = np.full(1, self.rate, np.float32), self._labels(labels)
        loss, *state = await self._program.run(
            LEARN, batch, numbers, rate, *self._state, output=self._place()
        )
        self._state = state
        self.steps += 1
        found: Array | GpuTensor = loss
        return found

    async def predict(self, example: Array) -> Array:
        """Return the logits (classes,) of an example; their softmax are probabilities."""
        weights = self._state[::_OF_WEIGHT]
        (logits,) = await self._program.run(PREDICT, example[None].astype(np.float32), *weights)
        found: Array = logits[0]
        return found

    async def weights(self) -> dict[str, Array]:
        """Return the weights and the optimizer's moments, for `load`."""
        arrays = await asyncio.gather(*map(array_of, self._state))
        return {name: array.copy() for name, array in zip(self._names(), arrays, strict=True)}

    def load(self, weights: Mapping[str, Array]) -> None:
        """Load the result of `weights`, of this program or another program with the same shapes."""
        names = self._names()
        state = [np.array(weights[name], np.float32) for name in names if name in weights]
        if [array.shape for array in state] != [one.shape for one in self._state]:
            given = {name: array.shape for name, array in weights.items()}
            raise InputError(f"weights of this program are {', '.join(names)}; given: {given}")
        self._state = list(state)

    def _names(self) -> list[str]:
        count = len(self.form.weights)
        return [f"{kind}{at + 1}" for at in range(count) for kind in ("weight", "mean", "square")]

    def _place(self) -> str:
        return "numpy" if self._program.device_info.kind == "numpy" else "gpu"

    def _checked(self, examples: Array, labels: Sequence[int]) -> tuple[Array, Array]:
        examples, wanted = np.asarray(examples, np.float32), self._labels(labels)
        if examples.shape[1:] != self.form.shape or wanted.shape != examples.shape[:1]:
            raise InputError(
                f"examples are {list(self.form.shape)} each, with a label for each one; given: "
                f"{list(examples.shape)} and labels {list(wanted.shape)}"
            )
        return examples, wanted

    def _labels(self, labels: Sequence[int] | Array) -> Array:
        """Return labels as int32; raise for invalid labels, which would destroy the weights."""
        given = np.asarray(labels)
        whole = given.dtype.kind in "iu" and given.size > 0
        if not whole or given.min() < 0 or given.max() >= self.form.classes:
            raise InputError(
                f"labels must be integers from 0 to {self.form.classes - 1}, and not empty"
            )
        return given.astype(np.int32)

    def _choose(self, labels: Array) -> Array:
        """Choose the examples of a batch, every class with equal probability."""
        classes, numbers = np.unique(labels, return_inverse=True)
        share = 1 / (len(classes) * np.bincount(numbers)[numbers])
        chosen: Array = self._rng.choice(len(labels), self.form.batch, p=share)
        return chosen


def shapes_of(values: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the shapes of inputs or outputs; () for values that are not tensors."""
    return [tuple(value.shape) if isinstance(value, TensorInfo) else () for value in values]


async def array_of(value: Array | GpuTensor) -> Array:
    """Return a tensor of either kind as an array."""
    return await value.numpy() if isinstance(value, GpuTensor) else value
