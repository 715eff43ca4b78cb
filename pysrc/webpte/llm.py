"""Text generation with ExecuTorch's language-model exports.

    async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
        ...

Such a program takes `tokens` (int64 [1, S], S up to its maximum) and `input_pos` (int64 [1]), keeps
its KV cache on the GPU, and returns the logits of the last token or of all. What it says about
itself (`get_max_context_len`, `get_eos_ids`, ...) is read from its constant methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from webpte.errors import InputError
from webpte.runtime.info import ScalarInfo, TensorInfo
from webpte.runtime.program import Program


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


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy, and stays on the GPU."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise InputError(f"temperature must be 0 or more, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k must be 1 or more, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def choose(self, logits: np.ndarray, random: np.random.Generator) -> int:
        """A token from the logits (vocabulary,) of one position."""
        scaled = logits.astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")[: self.top_k]
        weights = np.exp(scaled[order] - scaled[order[0]])
        weights /= weights.sum()
        if self.top_p is not None:
            # The smallest set that reaches top_p: a token counts if those before it do not.
            kept = np.cumsum(weights) - weights < self.top_p
            order, weights = order[kept], weights[kept] / weights[kept].sum()
        return int(random.choice(order, p=weights))


@dataclass
class Generator:
    """A conversation with one program: `position` tokens are in its cache."""

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

    def reset(self) -> None:
        """Start anew. What is in the cache is behind every position that will be looked at."""
        self.position = 0

    def generate(
        self,
        tokens: Sequence[int],
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: Collection[int] = (),
    ) -> Generation:
        """Go on from `position` with `tokens`, and yield what comes after them."""
        sampling = Sampling(temperature, top_k, top_p)
        return Generation(
            self, list(map(int, tokens)), max_new_tokens, sampling, seed, self.eos | set(stop)
        )

    async def feed(self, tokens: Sequence[int], sampling: Sampling, random: Any) -> int:
        """Run the tokens through the model, in chunks if need be; returns the next token."""
        if not tokens:
            raise InputError("there must be at least one token to go on from")
        if self.max_context is not None and self.position + len(tokens) > self.max_context:
            raise InputError(
                f"{self.position} tokens and {len(tokens)} more are over the "
                f"{self.max_context} that the program's context holds"
            )
        start = 0
        while len(tokens) - start > self.max_chunk:
            await self.program.run_unread(
                self.method, *self._arrays(tokens[start : start + self.max_chunk])
            )
            start += self.max_chunk
            self.position += self.max_chunk
        last = tokens[start:]
        if sampling.temperature == 0:
            indices = await self.program.run_argmax(self.method, *self._arrays(last))
            token = int(indices.reshape(-1)[-1])
        else:
            (logits,) = await self.program.run(self.method, *self._arrays(last))
            token = sampling.choose(logits.reshape(-1, logits.shape[-1])[-1], random)
        self.position += len(last)
        return token

    def _arrays(self, tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.asarray([tokens], self._dtypes[0]),  # (1, S)
            np.asarray([self.position], self._dtypes[1]),  # (1,)
        )


class Generation:
    """One answer, as an async iterator of tokens; `tokens` and `stats` grow as it goes.

    It ends after `max_new_tokens`, at a stop token (which is not yielded), or when the context is
    full.
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
        self._pending = prompt
        self._left = max_new_tokens
        self._sampling = sampling
        self._random = np.random.default_rng(seed)
        self._stop = stop

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        full = self._generator.max_context
        room = full is None or self._generator.position + len(self._pending) <= full
        if self._left <= 0 or (self.tokens and not room):
            raise StopAsyncIteration
        started = perf_counter()
        token = await self._generator.feed(self._pending, self._sampling, self._random)
        self._count(len(self._pending), perf_counter() - started)
        self._pending = [token]
        self._left -= 1
        if token in self._stop:
            self._left = 0
            raise StopAsyncIteration
        self.tokens.append(token)
        return token

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
        seed=seed,
        stop=stop,
    )
