"""Text generation with ExecuTorch's language-model exports.

    async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
        ...

Such a program takes `tokens` (int64 [1, S], S up to its maximum) and `input_pos` (int64 [1]), keeps
its KV cache on the GPU, and returns the logits of the last token or of all. What it says about
itself (`get_max_context_len`, `get_eos_ids`, ...) is read from its constant methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypedDict, Unpack

import numpy as np

from webpte.errors import ExecutionError, InputError, TextError
from webpte.llm.constrain.constraint import Allowed, Constraint
from webpte.llm.kv_session import KVSession
from webpte.llm.logprobs import TokenLogprob, candidates_for
from webpte.llm.pipelined_decode import PipelinedDecode
from webpte.ops.sampling.sample_numpy import mask_of
from webpte.runtime.decode.sampling import SampledToken, SamplerSettings, Sampling
from webpte.runtime.program import Program

__all__ = [
    "Generation",
    "GenerationOptions",
    "GenerationStats",
    "Generator",
    "SamplerSettings",
    "Sampling",
    "generate",
]

STEPS_AHEAD = 16  # in one submission, at most


@dataclass
class GenerationStats:
    """Tokens and seconds of the two phases.

    reused_tokens   of the prompt: they were in the cache already
    submissions     for decoding; fewer than tokens where steps run ahead of the host
    step_by_step    why they do not; None if they do, or if it was not tried
    """

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    reused_tokens: int = 0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    submissions: int = 0
    step_by_step: str | None = None

    @property
    def prefill_tokens_per_second(self) -> float:
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0


class GenerationOptions(TypedDict, total=False):
    """How tokens are chosen: `Sampling` has the meaning of the first five.

    seed         of chance; None is a new one each time
    steps_ahead  how many steps may be in one submission; 1: the host sees every token before the
                 next step. The tokens are the same.
    logprobs     whether to say how probable the model found each token: `Generation.logprobs`
    top          how many of the likeliest tokens to list there, up to 20
    constraint   what the answer may be; each token then waits for the one before
    """

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    seed: int | None
    steps_ahead: int
    logprobs: bool
    top: int
    constraint: Constraint | None


class Generator(KVSession):
    """A conversation with one program, turn by turn.

    Its context is the `position` tokens in the program's cache, and after them `pending`: the last
    token of an answer (also a stop token) is in no cache yet, and is fed with the next turn.

    The cache is the program's: it holds the context of whoever called the method last. A Generator
    notices when that was not itself (another Generator, a direct call), or when `recover` rebuilt
    the program. `generate`, which is given the whole conversation, then feeds all of it again; what
    goes on from the cache raises ContextError until the Generator is `reset`.
    """

    def generate(
        self,
        conversation: Sequence[int],
        max_new_tokens: int,
        *,
        stop: Collection[int] = (),
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """What comes after a conversation, all of which is given.

        Only what is new in it is fed: as much as its beginning has in common with the context is in
        the cache. One answer at a time: it ends when another begins. `stop` are tokens that end the
        answer; the program's own are among them.
        """
        return Generation(self, conversation, True, max_new_tokens, stop, **options)

    def go_on(
        self,
        tokens: Sequence[int],
        max_new_tokens: int,
        *,
        stop: Collection[int] = (),
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """The same after the context and `tokens`, which are added to it."""
        return Generation(self, tokens, False, max_new_tokens, stop, **options)


class Generation:
    """One answer, as an async iterator of tokens; `tokens` and `stats` grow as it goes.

    It ends after `max_new_tokens`, at a stop token (which is not yielded), when the context is
    full, or when its constraint allows no more (`is_complete`). After an error or a cancelled step
    it can be asked for that token again. With `logprobs`, there is one for each of the `tokens`.

    Steps may be under way whose tokens nobody has asked for yet. They leave no trace: whenever it
    ends, the Generator's context is what was yielded, and a stop token.
    """

    def __init__(
        self,
        generator: Generator,
        prompt: Sequence[int],
        whole: bool,
        max_new_tokens: int,
        stop: Collection[int],
        *,
        seed: int | None = None,
        steps_ahead: int = STEPS_AHEAD,
        logprobs: bool = False,
        top: int = 0,
        constraint: Constraint | None = None,
        **sampling: Any,
    ) -> None:
        choice = SamplerSettings.of(Sampling(**sampling), seed, candidates_for(logprobs, top))
        if steps_ahead < 1:
            raise InputError(f"steps_ahead must be 1 or more, not {steps_ahead}")
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.is_complete = False
        self.stats = GenerationStats()
        self._generator = generator
        self._prompt = generator._checked(
            prompt
        )  # empty from when it is in the Generator's context
        self._whole = whole
        self._begun = False
        self._left = max_new_tokens
        self._choice = choice
        self._stop = generator.eos | set(stop)
        self._most_ahead = steps_ahead
        self._ahead: PipelinedDecode | None = None
        self._top = top
        self._constraint: Constraint | None = None
        if steps_ahead == 1:
            self.stats.step_by_step = "steps_ahead is 1"
        if constraint is not None:
            self.constrain(constraint)

    def constrain(self, constraint: Constraint) -> None:
        """What the answer is to be; before it begins."""
        if not constraint.after(()).tokens.size:
            raise InputError("the constraint allows no answer but an empty one")
        self._constraint = constraint
        self.stats.step_by_step = "what a token may be depends on the one before"

    def ignore_stops(self) -> None:
        """Go on for as many tokens as were asked for, whatever they are; for benchmarks."""
        self._stop = frozenset()

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        if not self._begun:
            self._begin()
        if self._left <= 0 or (self.tokens and self._is_full()):
            raise StopAsyncIteration
        self._generator._check_current(self)
        allowed = self._constraint.after(self.tokens) if self._constraint is not None else None
        started, count = perf_counter(), len(self._generator.pending) + len(self._prompt)
        chosen = await self._next(None if allowed is None else self._mask(allowed))
        self._count(count, perf_counter() - started)
        return self._accept(chosen, allowed)

    def _accept(self, chosen: SampledToken, allowed: Allowed | None) -> int:
        token = chosen.token
        self._prompt = []
        self._left -= 1
        ends = token in self._stop and (allowed is None or allowed.may_end)
        if allowed is not None and not ends and token not in allowed.tokens:
            self._left = 0
            raise ExecutionError(
                f"the model gives no number to any of the {allowed.tokens.size} tokens that the "
                "constraint allows; the answer ends here"
            )
        self._generator._add_pending([token])
        if ends:
            self._left = 0
            raise StopAsyncIteration
        self.tokens.append(token)
        if chosen.words is not None:
            self.logprobs.append(TokenLogprob.of(chosen, self._top))
        if self._constraint is not None and self._constraint.after(self.tokens).is_end:
            self._left, self.is_complete = 0, True
        return token

    def _mask(self, allowed: Allowed) -> np.ndarray:
        """As the operator that chooses takes it."""
        if not allowed.tokens.size:
            raise TextError("no token goes on as the constraint wants, and it does not end here")
        ends = sorted(self._stop) if allowed.may_end else []
        tokens = np.concatenate([allowed.tokens, np.array(ends, np.int64)])
        vocabulary = self._generator.vocabulary
        return mask_of(tokens[(tokens >= 0) & (tokens < vocabulary)], vocabulary)

    async def _next(self, allowed: np.ndarray | None) -> SampledToken:
        """The token after the context and the prompt."""
        generator, steps = self._generator, self._ahead
        if steps is not None and generator._follows(steps):
            submitted = steps.submissions
            try:
                chosen = await generator._take(steps, self._left)
            except Exception:
                self._ahead = None  # what is under way is of no use; a cancelled one goes on
                raise
            finally:
                self.stats.submissions += steps.submissions - submitted
            if not isinstance(chosen, str):
                return chosen
            self.stats.step_by_step = chosen
        self._ahead = None
        chosen = await generator._feed(self._prompt, self._choice, allowed)
        self.stats.submissions += bool(self.tokens)
        if self.stats.step_by_step is None:
            self._ahead = generator._steps_ahead(self._choice, self._most_ahead)
        return chosen

    def _begin(self) -> None:
        generator = self._generator
        generator._check_idle()
        if self._whole:
            given = len(self._prompt)
            self._prompt = generator._go_back(self._prompt)
            self.stats.reused_tokens = given - len(self._prompt)
        generator._begin(self)
        if self._left <= 0:  # the prompt is a part of the context all the same
            generator._check_room(self._prompt)
            generator._add_pending(self._prompt)
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
    stop: Collection[int] = (),
    method: str = "forward",
    **options: Unpack[GenerationOptions],
) -> Generation:
    """Generate from an empty context; use a `Generator` to go on with a conversation."""
    return Generator(program, method).generate(tokens, max_new_tokens, stop=stop, **options)
