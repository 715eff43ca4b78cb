"""Text generation with ExecuTorch's language-model exports.

    async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
        ...

The program takes `tokens` (int64 [1, S], S up to its maximum) and `input_pos` (int64 [1]), keeps
its KV cache on the GPU, and returns the logits of the last token or of all. Its limits and stop
tokens are read from its constant methods (`get_max_context_len`, `get_eos_ids`, ...). Other
programs have the methods `token_embedding` and `text_decoder`, and perhaps `vision_encoder` for
pictures.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from time import perf_counter
from typing import Any, TypedDict, Unpack

import numpy as np

from webpte.engine.ops.sampling.sample_numpy import mask_of
from webpte.errors import ExecutionError, InputError, TextError
from webpte.llm.constrain.constraint import Allowed, Constraint
from webpte.llm.decode.sampling import (
    GREEDY,
    SampledToken,
    SamplerSettings,
    Sampling,
    check_most,
    check_stop,
)
from webpte.llm.decode_loop import DecodeLoop, GenerationStats
from webpte.llm.kv_session import KVSession
from webpte.llm.logprobs import TokenLogprob, logprob_of, sampled_logprobs
from webpte.llm.picture_session import LatePixels, Picture, PictureSession, session_of
from webpte.llm.program_signature import language_method
from webpte.llm.saved import SavedContext, read_saved
from webpte.llm.speculation import Speculate, SpeculationState
from webpte.program import Program

__all__ = [
    "Generation",
    "GenerationOptions",
    "GenerationStats",
    "Generator",
    "Sampling",
    "generate",
]

STEPS_AHEAD = 16  # steps in a submission, at most


class GenerationOptions(TypedDict, total=False):
    """Options of an answer; `Sampling` explains the first five.

    seed         of the random numbers; None is a new seed each time
    steps_ahead  the largest number of steps in one submission; 1: the host sees every token before
                 the next step. The tokens are the same.
    pace         milliseconds of work that the GPU has ahead while it decodes, so that a page can
                 draw in between; None: as much as is fastest. A step is never divided
    logprobs     whether to fill `Generation.logprobs`: how probable the model found each token
    top          the number of likeliest tokens to list there, up to 20
    constraint   restricts the answer; each token then waits for the token before
    speculate    guesses tokens, which the model checks several at a time: "lookup" (the tokens
                 that followed earlier in the conversation), or a smaller program with the same
                 vocabulary that drafts. The tokens of the answer stay the same.
    """

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    seed: int | None
    steps_ahead: int
    pace: float | None
    logprobs: bool
    top: int
    constraint: Constraint | None
    speculate: Speculate


class Generator:
    """A conversation with a program, turn by turn.

    The context is the `position` tokens in the program's KV cache, followed by the `pending`
    tokens, which the next turn writes there: the last token of an answer (a stop token, too) is
    pending.

    The cache belongs to the program and holds the conversation of the last caller. A Generator
    notices when the last caller was another (another Generator, a direct call), and when `recover`
    rebuilt the program. `generate`, which is given the whole conversation, then computes all of it
    again; `continue_` and `prefill` raise ContextError until the Generator is `reset`.

    max_chunk    the number of tokens that a call takes
    max_context  the number of tokens that the cache holds; None if unknown
    eos          the program's own stop tokens
    """

    def __init__(self, program: Program, method: str = "forward") -> None:
        method = language_method(program, method)
        self._session = session = session_of(program, method)
        self.program, self.method = program, method
        self.max_chunk, self.max_context = session.max_chunk, session.max_context
        self.eos = session.eos
        self._speculators = SpeculationState(session)

    @property
    def vocabulary(self) -> int:
        """The number of tokens: the last dim of the logits."""
        return self._session.vocabulary

    @property
    def position(self) -> int:
        """The number of tokens in the cache."""
        return self._session.position

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the context that are not in the cache yet."""
        return self._session.pending

    @property
    def context(self) -> tuple[int, ...]:
        """The whole conversation so far: tokens in the cache, then the pending tokens."""
        return self._session.context

    def reset(self) -> None:
        """Empty the context, and end the current answer."""
        self._session.reset()

    def picture(
        self, pixels: np.ndarray | LatePixels, grid: tuple[int, int] | None = None
    ) -> Picture:
        """Return a picture for prompts; `pixels` are the input of the program's `vision_encoder`.

        `grid` has the rows and columns of embeddings, for models that see a grid of patches.

        The picture's `tokens` go to its place in a conversation. It is encoded when its tokens are
        computed, so not while they are in a prefix that is in the cache. Keep the picture as long
        as you use its tokens after other prompts.
        """
        if not isinstance(self._session, PictureSession):
            raise InputError(f"{self.program.name} sees no pictures: it has no vision_encoder")
        return self._session.picture(pixels, grid)

    async def save(self) -> bytes:
        """Return the context with the contents of the KV cache, for `restore`.

        `save` also works between two tokens of an answer, which can then go on, here and there.
        """
        return (await save_context(self)).to_bytes()

    async def restore(self, data: bytes) -> None:
        """Continue a context that was saved with the same program, on any device.

        The program must be loaded with the same `kv_cache`. Data that is damaged, or of another
        program, is refused with an InputError, and the context does not change.
        """
        saved, _ = read_saved(data)
        await restore_context(self, saved)

    async def prefill(
        self, tokens: Sequence[int], sampling: Sampling = GREEDY, seed: int | None = None
    ) -> int:
        """Add `tokens` to the context and the cache; return the token that the model puts next.

        The returned token is not part of the context; `seed` is as in `GenerationOptions`. If this
        fails or is cancelled, the context does not change. Where a program's state does not follow
        the position, the cache is then unknown: the Generator raises ContextError until it is
        `reset`.
        """
        settings = SamplerSettings.of(sampling, seed)
        sampled = await self._session.prefill(self._session.check_tokens(tokens), settings)
        self._session.end_answer()
        return sampled.token

    def generate(
        self,
        conversation: Sequence[int],
        max_new_tokens: int,
        *,
        stop: Collection[int] = (),
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """Answer a conversation, which is given from its beginning.

        Only its new tokens are computed: the prefix that it shares with the context is in the
        cache. An answer ends when the next begins. `stop` are tokens that end the answer, besides
        the program's own.
        """
        given = self._session, self._speculators, conversation
        return Generation(*given, True, max_new_tokens, stop, **options)

    def continue_(
        self,
        tokens: Sequence[int],
        max_new_tokens: int,
        *,
        stop: Collection[int] = (),
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """Answer the context followed by `tokens`, which are added to it; else as `generate`."""
        given = self._session, self._speculators, tokens
        return Generation(*given, False, max_new_tokens, stop, **options)


class Generation:
    """An answer, as an async iterator of tokens; `tokens` and `stats` grow as it is iterated.

    It ends after `max_new_tokens`, at a stop token (which is not yielded), when the context is
    full, or when its constraint allows no more (`is_complete`). After an error or a cancelled step
    the same token can be requested again. With `logprobs`, the list of that name has an entry for
    each of the `tokens`.

    Steps may be under way whose tokens nobody has requested yet. They leave no trace: whenever the
    answer ends, the Generator's context is the yielded tokens, and a stop token.
    """

    def __init__(
        self,
        session: KVSession,
        speculators: SpeculationState,
        prompt: Sequence[int],
        whole: bool,
        max_new_tokens: int,
        stop: Collection[int],
        *,
        seed: int | None = None,
        steps_ahead: int = STEPS_AHEAD,
        pace: float | None = None,
        logprobs: bool = False,
        top: int = 0,
        constraint: Constraint | None = None,
        speculate: Speculate = None,
        **sampling: Any,
    ) -> None:
        """Begin an answer to a prompt: the `whole` conversation, or tokens to add to it."""
        settings = SamplerSettings.of(Sampling(**sampling), seed, sampled_logprobs(logprobs, top))
        if check_most(steps_ahead, "steps_ahead") < 1:
            raise InputError(f"steps_ahead must be 1 or more, not {steps_ahead}")
        if pace is not None and not pace > 0:
            raise InputError(f"pace must be milliseconds above 0, or None, not {pace}")
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.is_complete = False
        self.stats = GenerationStats()
        self._session = session
        self._plain = DecodeLoop(session, settings, steps_ahead, pace=pace)
        self._speculation = speculators.loop(speculate, settings, self._plain)
        # empty once the prompt is in the session's context
        self._prompt = session.check_tokens(prompt)
        self._whole = whole
        self._answer: int | None = None  # the answer's number in the session, once it has begun
        self._most = self._left = check_most(max_new_tokens)
        self._stop = session.eos | check_stop(stop)
        self._stopped = False
        self._top = top
        self._constraint: Constraint | None = None
        self._update_step_stats()
        if constraint is not None:
            constrain(self, constraint)

    @property
    def why_ended(self) -> str:
        """The reason why the answer ended, once it has: "stop", "length" or "full"."""
        if self.is_complete or self._stopped:
            return "stop"
        return "length" if len(self.tokens) >= self._most else "full"

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        session = self._session
        answer = self._begin() if self._answer is None else self._answer
        if self._left <= 0 or (self.tokens and session.is_full):
            raise StopAsyncIteration
        session.check_answer(answer)
        allowed = self._constraint.after(self.tokens) if self._constraint is not None else None
        mask = None if allowed is None else self._mask(allowed)
        started, count = perf_counter(), len(session.pending) + len(self._prompt)
        try:
            loop = self._speculation or self._plain
            sampled = await loop.next_token(self._prompt, self._left, mask)
        finally:
            self._update_step_stats()
        self._update_time_stats(count, perf_counter() - started)
        return self._accept(sampled, allowed)

    def _begin(self) -> int:
        """Begin the answer in the session; return its number there."""
        session = self._session
        session.check_idle()
        if self._whole:
            given = len(self._prompt)
            self._prompt = session.reuse_prefix(self._prompt)
            self.stats.reused_tokens = given - len(self._prompt)
        answer = session.begin_answer()
        if self._left <= 0:  # the prompt becomes a part of the context all the same
            session.check_room(self._prompt)
            session.append(self._prompt)
        self._answer = answer
        return answer

    def _accept(self, sampled: SampledToken, allowed: Allowed | None) -> int:
        """Add a token to the context; return it, unless it ends the answer."""
        token = sampled.token
        self._prompt = []
        self._left -= 1
        ends = token in self._stop and (allowed is None or allowed.may_end)
        if allowed is not None and not ends and token not in allowed.tokens:
            self._left = 0
            raise ExecutionError(
                f"the model gives no number to any of the {allowed.tokens.size} tokens that the "
                "constraint allows; the answer ends here"
            )
        self._session.append([token])
        if ends:
            self._left, self._stopped = 0, True
            raise StopAsyncIteration
        self.tokens.append(token)
        if sampled.words is not None:
            self.logprobs.append(logprob_of(sampled, self._top))
        if self._constraint is not None and self._constraint.after(self.tokens).is_end:
            self._left, self.is_complete = 0, True
        return token

    def _mask(self, allowed: Allowed) -> np.ndarray:
        """Return the allowed tokens as the mask that the sampler takes."""
        if not allowed.tokens.size:
            raise TextError(
                "the constraint can be neither continued nor ended here: no token is allowed"
            )
        ends = sorted(self._stop) if allowed.may_end else []
        tokens = np.concatenate([allowed.tokens, np.array(ends, np.int64)])
        vocabulary = self._session.vocabulary
        return mask_of(tokens[(tokens >= 0) & (tokens < vocabulary)], vocabulary)

    def _update_step_stats(self) -> None:
        stats, plain, speculation = self.stats, self._plain, self._speculation
        stats.submissions, stats.step_by_step = plain.submissions, plain.step_by_step
        if speculation is not None:
            stats.submissions = speculation.submissions
            stats.proposed_tokens, stats.accepted_tokens = (
                speculation.proposed,
                speculation.accepted,
            )
            stats.not_speculating = speculation.off

    def _update_time_stats(self, tokens: int, seconds: float) -> None:
        if self.stats.prefill_tokens == 0:
            self.stats.prefill_tokens, self.stats.prefill_seconds = tokens, seconds
        else:
            self.stats.decode_tokens += tokens
            self.stats.decode_seconds += seconds


# The package's own use of answers: no part of the public API


def constrain(generation: Generation, constraint: Constraint) -> None:
    """Restrict an answer that has not begun."""
    if not constraint.after(()).tokens.size:
        raise InputError("the constraint allows no answer but an empty one")
    generation._constraint = constraint
    reason = "what a token may be depends on the one before"
    generation._plain.step_by_step = reason
    if generation._speculation is not None:
        generation._speculation.turn_off(reason)
    generation._update_step_stats()


async def save_context(generator: Generator, *, or_empty: bool = False) -> SavedContext:
    """Return the context of a Generator with the contents of its KV cache.

    If the contents are gone, raise ContextError, or return an empty context with `or_empty`.
    """
    return await generator._session.save(or_empty=or_empty)


async def restore_context(generator: Generator, saved: SavedContext) -> None:
    """Continue a context that was saved."""
    await generator._session.restore(saved)


def ignore_stops(generation: Generation) -> None:
    """Do not end at stop tokens, but decode as many tokens as requested; for benchmarks."""
    generation._stop = frozenset()


def generate(
    program: Program,
    tokens: Sequence[int],
    max_new_tokens: int,
    *,
    stop: Collection[int] = (),
    method: str = "forward",
    **options: Unpack[GenerationOptions],
) -> Generation:
    """Generate from an empty context; a `Generator` continues a conversation."""
    return Generator(program, method).generate(tokens, max_new_tokens, stop=stop, **options)
