"""Text generation with ExecuTorch's language-model exports.

    async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
        ...

Such a program takes `tokens` (int64 [1, S], S up to its maximum) and `input_pos` (int64 [1]), keeps
its KV cache on the GPU, and returns the logits of the last token or of all. What it says about
itself (`get_max_context_len`, `get_eos_ids`, ...) is read from its constant methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from webpte.errors import ContextError, InputError
from webpte.runtime.info import ScalarInfo, TensorInfo
from webpte.runtime.program import Program
from webpte.sampling import Sampling, seed_words

__all__ = ["Generation", "GenerationStats", "Generator", "Sampling", "generate"]

T = TypeVar("T")


@dataclass
class GenerationStats:
    """Tokens and seconds of the two phases."""

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0

    @property
    def prefill_tokens_per_second(self) -> float:
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0


@dataclass
class Generator:
    """A conversation with one program, turn by turn.

    Its context is the `position` tokens in the program's cache, and after them `pending`: the last
    token of an answer (also a stop token) is in no cache yet, and is fed with the next turn.

    The cache is the program's: it holds the context of whoever called the method last. A Generator
    notices when that was not itself (another Generator, a direct call), or when `recover` rebuilt
    the program, and raises ContextError until it is `reset`.
    """

    program: Program
    method: str = "forward"
    position: int = 0
    max_chunk: int = field(init=False)
    max_context: int | None = field(init=False)
    eos: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        methods = self.program.methods
        if self.method not in methods:
            raise InputError(f"{self.program.name} has no method {self.method!r}")
        inputs = methods[self.method].inputs
        if not (
            len(inputs) == 2
            and all(isinstance(i, TensorInfo) and i.dtype in ("int64", "int32") for i in inputs)
            and [len(i.shape) for i in inputs if isinstance(i, TensorInfo)] == [2, 1]
        ):
            listed = "; ".join(map(str, inputs))
            raise InputError(
                f"{self.program.name} is not a language model with a KV cache: it takes {listed}, "
                "not tokens [1, S] and input_pos [1]"
            )
        tokens, position = inputs
        assert isinstance(tokens, TensorInfo)
        assert isinstance(position, TensorInfo)
        self._dtypes = np.dtype(tokens.dtype), np.dtype(position.dtype)
        self.max_chunk = tokens.shape[1]
        context = self._metadata("get_max_context_len") or self._metadata("get_max_seq_len")
        self.max_context = int(context[0]) if context else None
        self.eos = frozenset(map(int, self._metadata("get_eos_ids") or ()))
        # The tokens at each position of the cache; -1, no token, for what others put there.
        self._history = [-1] * self.position
        self._pending: list[int] = []
        self._answer: Generation | None = None  # the one that may go on
        self._busy = False
        self._note_cache()

    def _metadata(self, method: str) -> list[Any]:
        """What a constant method returns; empty if the program does not have it."""
        info = self.program.methods.get(method)
        if info is None or not info.is_constant:
            return []
        return [output.value for output in info.outputs if isinstance(output, ScalarInfo)]

    @property
    def vocabulary(self) -> int:
        """How many tokens there are: the last dim of the logits."""
        (logits,) = self.program.methods[self.method].outputs
        assert isinstance(logits, TensorInfo)
        return logits.shape[-1]

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the context that are not in the cache yet."""
        return tuple(self._pending)

    def reset(self) -> None:
        """Start anew. What is in the cache is behind every position that will be looked at."""
        self._check_idle()
        self.position = 0
        self._pending, self._answer = [], None
        self._note_cache()

    def generate(
        self,
        tokens: Sequence[int],
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: int | None = None,
        stop: Collection[int] = (),
    ) -> Generation:
        """Go on with `tokens`, and yield what comes after them.

        One answer at a time: it ends when another begins.
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        return Generation(
            self, list(map(int, tokens)), max_new_tokens, sampling, seed, self.eos | set(stop)
        )

    async def feed(self, tokens: Sequence[int], sampling: Sampling, random: Any) -> int:
        """Run what is pending and `tokens` through the model; returns the token after them.

        `random` is what `sampling.seed_words` gives; only chance needs it. The token is not a part
        of the context. If this fails or is cancelled, the context is what it was before.
        """
        token = await self._feed(list(map(int, tokens)), sampling, random)
        self._answer = None
        return token

    async def _feed(self, tokens: list[int], sampling: Sampling, random: Any) -> int:
        """`feed`, within an answer."""
        self._check_room(tokens)
        context = [*self._pending, *tokens]
        if not context:
            raise InputError("there must be at least one token to go on from")
        self._check_idle()
        start, self._busy = self.position, True
        try:
            token = await self._feed_chunks(context, sampling, random)
        except BaseException:
            # Rows of the cache from here on are written again by whatever is fed next.
            self.position = start
            raise
        finally:
            self._busy = False
        self._pending = []
        return token

    def _check_room(self, tokens: Sequence[int]) -> None:
        """Raises InputError if the context cannot hold these tokens, too."""
        if self.max_context is None:
            return
        if self.position + len(self._pending) + len(tokens) > self.max_context:
            pending = f", {len(self._pending)} pending" if self._pending else ""
            raise InputError(
                f"{self.position} tokens{pending} and {len(tokens)} more are over the "
                f"{self.max_context} that the program's context holds"
            )

    async def _feed_chunks(self, tokens: Sequence[int], sampling: Sampling, random: Any) -> int:
        while len(tokens) > self.max_chunk:
            chunk, tokens = tokens[: self.max_chunk], tokens[self.max_chunk :]
            await self._call(self.program.run_unread, chunk)
        if sampling.is_greedy:
            indices = await self._call(self.program.run_argmax, tokens)
            return int(indices.reshape(-1)[-1])
        (logits,) = await self._call(self.program.run, tokens)
        row, history = logits.reshape(-1, logits.shape[-1])[-1], self._history[: self.position]
        return sampling.choose(row, random, self.position, history)

    async def _call(self, run: Callable[..., Awaitable[T]], tokens: Sequence[int]) -> T:
        """One call of the method, and only one: others may have written to the cache."""
        self._check_cache()
        before = self.program.calls(self.method)
        self._generation = self.program.generation
        try:
            result = await run(self.method, *self._arrays(tokens))
        finally:
            # A call that was refused at once (the program is closed) was not counted.
            self._calls = before + min(1, self.program.calls(self.method) - before)
        self._history[self.position :] = tokens
        self.position += len(tokens)
        self._check_cache()
        return result

    def _note_cache(self) -> None:
        self._calls = self.program.calls(self.method)
        self._generation = self.program.generation

    def _check_cache(self) -> None:
        """What was in the cache at `position` 0 does not matter."""
        if self.position == 0:
            return
        advice = "call reset() and feed the conversation again, or make a new Generator"
        if self.program.generation != self._generation:
            raise ContextError(
                f"{self.program.name} was rebuilt by recover(), and its cache is empty: {advice}"
            )
        if self.program.calls(self.method) != self._calls:
            raise ContextError(
                f"{self.program.name}: method {self.method!r} was called by another Generator or "
                f"directly, so its cache is not this conversation's any more: {advice}"
            )

    def _check_idle(self) -> None:
        if self._busy:
            raise ContextError(
                "one answer at a time: this Generator is busy with another; await that first, or "
                "load the program once more for a conversation beside this one"
            )

    def _begin(self, answer: Generation) -> None:
        """From here on only this answer goes on."""
        self._check_idle()
        self._answer = answer

    def _check_current(self, answer: Generation) -> None:
        if self._answer is not answer:
            raise ContextError(
                "one answer at a time: this one ended when the Generator began another, was fed "
                "directly, or was reset"
            )

    def _add_pending(self, tokens: Sequence[int]) -> None:
        """Tokens that belong to the context, to be fed with what comes next."""
        self._pending += tokens

    def _arrays(self, tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.asarray([tokens], self._dtypes[0]),  # (1, S)
            np.asarray([self.position], self._dtypes[1]),  # (1,)
        )


class Generation:
    """One answer, as an async iterator of tokens; `tokens` and `stats` grow as it goes.

    It ends after `max_new_tokens`, at a stop token (which is not yielded), or when the context is
    full. After an error or a cancelled step it can be asked for that token again.
    """

    def __init__(
        self,
        generator: Generator,
        prompt: list[int],
        max_new_tokens: int,
        sampling: Sampling,
        seed: int | None,
        stop: Collection[int],
    ) -> None:
        self.tokens: list[int] = []
        self.stats = GenerationStats()
        self._generator = generator
        self._prompt = prompt  # empty from when it is in the Generator's context
        self._begun = False
        self._left = max_new_tokens
        self._sampling = sampling
        self._random = seed_words(seed)
        self._stop = stop

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        generator = self._generator
        if not self._begun:
            self._begin()
        if self._left <= 0 or (self.tokens and self._is_full()):
            raise StopAsyncIteration
        generator._check_current(self)
        count = len(generator.pending) + len(self._prompt)
        started = perf_counter()
        token = await generator._feed(self._prompt, self._sampling, self._random)
        self._count(count, perf_counter() - started)
        generator._add_pending([token])
        self._prompt = []
        self._left -= 1
        if token in self._stop:
            self._left = 0
            raise StopAsyncIteration
        self.tokens.append(token)
        return token

    def _begin(self) -> None:
        self._generator._begin(self)
        if self._left <= 0:  # the prompt is a part of the context all the same
            self._generator._check_room(self._prompt)
            self._generator._add_pending(self._prompt)
        self._begun = True

    def _is_full(self) -> bool:
        generator = self._generator
        used = generator.position + len(generator.pending)
        return generator.max_context is not None and used > generator.max_context

    def _count(self, tokens: int, seconds: float) -> None:
        if self.stats.prefill_tokens == 0:
            self.stats.prefill_tokens, self.stats.prefill_seconds = tokens, seconds
        else:
            self.stats.decode_tokens += tokens
            self.stats.decode_seconds += seconds


def generate(
    program: Program,
    tokens: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seed: int | None = None,
    stop: Collection[int] = (),
    method: str = "forward",
) -> Generation:
    """Generate from an empty context; use a `Generator` to go on with a conversation."""
    return Generator(program, method).generate(
        tokens,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=stop,
    )
