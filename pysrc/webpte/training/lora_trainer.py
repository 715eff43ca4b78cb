"""LoRA training of a language model on a user's lines, on the GPU.

    program = await webpte.llm.load("chat.pte", training=True, lora=8)  # exported with --train lora
    trainer = webpte.training.LoraTrainer(program, tokenizer)
    async for loss in trainer.learn(["A line.", ("A question?", "Its answer.")], steps=100):
        print(loss)
    await trainer.use("mine")  # the program answers with the LoRA
    (await trainer.save()).write("mine/")

A step is one call of the method `learn` (`lora_form`): forward, backward, AdamW. The LoRA and the
optimizer's moments stay on the GPU in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.errors import DeviceLostError, InputError
from webpte.llm.lora.files import read_lora
from webpte.llm.lora.program_loras import load_lora, use_lora
from webpte.llm.lora.switch import Lora
from webpte.llm.text import ChatTemplate, Tokenizer
from webpte.llm.text.tokenizer import check_fits
from webpte.program import Program
from webpte.training.learner import array_of
from webpte.training.lines import Batches, Line, examples_of
from webpte.training.lora_files import SavedLora, flat_vector, saved_lora
from webpte.training.lora_form import LEARN, lora_form

Array = np.ndarray

RATE = 1e-3
STEPS_AT_ONCE = 4  # losses are read together: fewer round trips, and still a smooth curve
KEEP_EVERY = 32  # steps after which the state is read back, in case the device is lost


class LoraTrainer:
    """A LoRA in training. A new `learn` ends the `learn` before it.

    rate   the learning rate; it may be set between steps
    decay  AdamW's weight decay
    seed   for the initial matrices and the order of lines
    template   a chat template in place of the tokenizer's own, for questions with answers
    """

    def __init__(
        self,
        program: Program,
        tokenizer: Tokenizer,
        *,
        rate: float = RATE,
        decay: float = 0.0,
        seed: int = 0,
        template: ChatTemplate | None = None,
    ) -> None:
        self.form = lora_form(program.methods)
        check_fits(tokenizer, program)
        self.rate, self.decay = rate, decay
        self.steps = 0  # since `reset`
        self._program, self._tokenizer = program, tokenizer
        self._template = template or tokenizer.template
        self._state: list[Array | GpuTensor] = []
        self._kept: tuple[int, list[Array]] = 0, []
        self._rng = np.random.default_rng(seed)
        self._run: object = None  # the running `learn`
        self._is_busy = False  # steps are on the device
        self._used: Lora | None = None
        self.reset(seed)

    def reset(self, seed: int = 0) -> None:
        """Start again from a LoRA that changes nothing: A is random, B is zero."""
        self._check_idle()
        self._rng = np.random.default_rng(seed)
        w = np.zeros(self.form.count, np.float32)
        for layer in self.form.layers:
            bound = 1 / math.sqrt(layer.inputs)  # PEFT's initial bound
            w[layer.start : layer.middle] = self._rng.uniform(
                -bound, bound, layer.middle - layer.start
            )
        self._set(w)

    async def learn(
        self, lines: Sequence[Line], steps: int, *, packed: bool = False
    ) -> AsyncGenerator[float, None]:
        """Train on batches of the lines, and yield the loss of each step.

        A line is a text, or a question with its answer; then only the answer is learned. `packed`
        puts several short lines into one row. A caller that stops early, by leaving the loop or by
        `stop`, keeps the LoRA, which may be up to four steps ahead of the losses yielded. After a
        lost device, up to 32 steps are lost, too: `await program.recover()`, then go on.
        """
        self._check_idle()
        form, run = self.form, object()
        examples = examples_of(lines, self._tokenizer, form.length, self._template)
        batches = Batches(examples, form.batch, form.length, self._rng, packed)
        self._run = run
        for start in range(0, steps, STEPS_AT_ONCE):
            losses = await self._steps(batches, min(STEPS_AT_ONCE, steps - start))
            for loss in losses:
                yield loss
            if self._run is not run:
                return

    async def _steps(self, batches: Batches, count: int) -> list[float]:
        self._check_idle()
        self._is_busy = True
        try:
            if self.steps - self._kept[0] >= KEEP_EVERY:
                self._kept = self.steps, await self._arrays()
            losses = [await self.step(*batches.next()) for _ in range(count)]
            arrays = await asyncio.gather(*map(array_of, losses))
        except DeviceLostError:
            self.steps, kept = self._kept
            self._state = list(kept)
            raise
        finally:
            self._is_busy = False
        found = [float(one.reshape(())) for one in arrays]
        if not all(map(math.isfinite, found)):
            raise InputError(
                f"the loss is no number any more, after {self.steps} steps at a rate of "
                f"{self.rate:g}: reset, and train with a lower rate"
            )
        return found

    async def step(self, tokens: Array, targets: Array) -> Array | GpuTensor:
        """Train on a batch and return its loss; the state stays unchanged if the step fails.

        tokens   integers (rows, length)
        targets  the token after each token, in the same shape; negative: not to be learned
        """
        if not (math.isfinite(self.rate) and math.isfinite(self.decay)):
            raise InputError(f"rate {self.rate} and decay {self.decay} must be finite")
        given, wanted = (self._rows(array) for array in (tokens, targets))
        corrections = [1 / (1 - beta ** (self.steps + 1)) for beta in self.form.betas]
        settings = np.array([self.rate, self.decay, *corrections], np.float32)
        where = "numpy" if self._program.device_info.kind == "numpy" else "gpu"
        rows = given.astype(np.int64), wanted.astype(np.int32)
        loss, *state = await self._program.run(LEARN, *rows, settings, *self._state, output=where)
        self._state = state
        self.steps += 1
        found: Array | GpuTensor = loss
        return found

    def stop(self) -> None:
        """End a running `learn` after the steps that it has begun."""
        self._run = None

    async def save(self) -> SavedLora:
        """Return the LoRA as PEFT's two files."""
        return saved_lora(self.form, await array_of(self._state[0]), self._program.name)

    async def load(self, source: Any, *, config: Any = None, name: str | None = None) -> None:
        """Continue with a LoRA of the same form; see `webpte.llm.load_lora` for the arguments."""
        self._check_idle()
        read = await read_lora(source, config=config, name=name)
        self._check_idle()
        self._set(flat_vector(self.form, read))

    async def use(self, name: str = "trained") -> Lora:
        """Let the program use the present LoRA, and return the loaded LoRA.

        The program needs room for it: `webpte.llm.load(..., lora=RANK)`. The LoRA of an earlier
        `use` is freed.
        """
        saved = await self.save()
        lora = await load_lora(self._program, saved.weights, config=saved.config, name=name)
        await use_lora(self._program, lora)
        if self._used is not None:
            self._used.close()
        self._used = lora
        return lora

    def _set(self, w: Array) -> None:
        self._run = None
        self.steps = 0
        self._state = [w, np.zeros_like(w), np.zeros_like(w)]
        self._kept = 0, [w, np.zeros_like(w), np.zeros_like(w)]

    async def _arrays(self) -> list[Array]:
        return list(await asyncio.gather(*map(array_of, self._state)))

    def _rows(self, array: Array) -> Array:
        rows = np.asarray(array)
        if rows.shape != (self.form.batch, self.form.length) or rows.dtype.kind not in "iu":
            raise InputError(
                f"tokens and targets are integers [{self.form.batch}, {self.form.length}], not "
                f"{rows.dtype} {list(rows.shape)}"
            )
        return rows

    def _check_idle(self) -> None:
        if self._is_busy:
            raise InputError("this LoRA is in training: wait for its steps, or stop it before")
