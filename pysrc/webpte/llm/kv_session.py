"""A conversation in a program's KV cache: the tokens in the cache, and the calls that add more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from webpte.errors import ContextError, InputError
from webpte.llm.decode.decode_steps import DecodeSteps, PendingSteps
from webpte.llm.decode.decoder import Decoder
from webpte.llm.decode.rollback_safety import leaves_traces
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.llm.passed_caches import session_decoder
from webpte.llm.program_signature import (
    check_token_ids,
    context_of,
    embedding_of,
    language_model,
    max_chunk_of,
    position_place,
    signature_of,
    stop_tokens_of,
)
from webpte.llm.saved import SavedContext, check_layout
from webpte.program import Program, call_log_of


class KVSession:
    """A conversation in the KV cache of a program's method.

    The context is the `position` tokens in the cache, followed by the `pending` tokens, which the
    next call writes there: the last token of an answer (a stop token, too) is always pending.

    The cache belongs to the program and holds the conversation of the last caller. A session
    notices when the last caller was another, and when `recover` rebuilt the program.

    max_chunk    the number of tokens that a call takes
    max_context  the number of tokens that the cache holds; None if unknown
    eos          the program's own stop tokens
    vocabulary   the number of tokens that there are
    prefills     the number of calls with tokens of the host, after which earlier steps are stale
    given        the method's inputs besides tokens and position, for the whole conversation
    """

    def __init__(self, program: Program, method: str = "forward", more: bool = False) -> None:
        self.program = program
        self.method = method
        self._log = call_log_of(program)
        tokens, position, logits = language_model(program, method, more)
        self._embedding = embedding_of(program, method)
        self.vocabulary = logits.shape[-1]
        self._dtypes = np.dtype(tokens.dtype), np.dtype(position.dtype)
        self._position_at = position_place(signature_of(program, method))
        self.max_chunk, self._each = max_chunk_of(program, method), position.shape[0] > 1
        self.max_context = context_of(program, method)
        self.eos = stop_tokens_of(program)
        self._cached: list[int] = []
        self._pending: list[int] = []
        self._answer = 0  # the number of the answer that may be continued
        self.prefills, self._busy = 0, False
        self.given: tuple[Any, ...] = ()
        self._claim_cache()

    @property
    def _decoder(self) -> Decoder:
        return session_decoder(self.program, self.method, self._embedding)

    @property
    def position(self) -> int:
        """The number of tokens in the cache."""
        return len(self._cached)

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the context that are not in the cache yet."""
        return tuple(self._pending)

    @property
    def context(self) -> tuple[int, ...]:
        """The whole conversation so far: tokens in the cache, then the pending tokens."""
        return (*self._cached, *self._pending)

    @property
    def is_full(self) -> bool:
        """Whether the pending tokens do not fit into the cache any more."""
        used = len(self._cached) + len(self._pending)
        return self.max_context is not None and used > self.max_context

    def reset(self) -> None:
        """Empty the context. The cache is not cleared: later calls overwrite it from the start."""
        self.check_idle()
        self._cached, self._pending = [], []
        self.end_answer()
        self._claim_cache()

    def append(self, tokens: Sequence[int]) -> None:
        """Add pending tokens to the context."""
        self._pending += tokens

    def reuse_prefix(self, conversation: list[int]) -> list[int]:
        """Cut the context to the prefix it shares with a conversation; return the tokens after it.

        The last token is always returned: the model has to compute the token that follows it.
        """
        _check_not_empty(conversation)
        if self.max_context is not None and len(conversation) > self.max_context:
            raise InputError(
                f"a conversation of {len(conversation)} tokens is over the {self.max_context} that "
                "the program's context holds"
            )
        known = self.context if self._owns_cache else ()
        pairs = zip(known, conversation[:-1], strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if common is None:
            common = min(len(known), max(0, len(conversation) - 1))
        if common < self.position and not self._can_rewind:
            common = 0  # as after `reset`: this state cannot go back to an earlier position
        kept = self.context[:common]
        self._pending = list(kept[self.position :])
        self._cached = list(kept[: self.position])
        return conversation[common:]

    # Checks

    def check_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Return the tokens as ints; raise InputError for tokens outside the vocabulary."""
        return check_token_ids(tokens, self.vocabulary, self.program.name)

    def check_room(self, tokens: Sequence[int]) -> None:
        """Raise InputError if the cache cannot hold the context and these tokens."""
        if self.max_context is None:
            return
        if self.position + len(self._pending) + len(tokens) > self.max_context:
            pending = f", {len(self._pending)} pending" if self._pending else ""
            raise InputError(
                f"{self.position} tokens{pending} and {len(tokens)} more are over the "
                f"{self.max_context} that the program's context holds"
            )

    def check_idle(self) -> None:
        """Raise ContextError while a call of this session is under way."""
        if self._busy:
            raise ContextError(
                "one answer at a time: this Generator is busy with another; await that first, or "
                "load the program once more for a second conversation"
            )

    # Answers

    def begin_answer(self) -> int:
        """End the current answer and return the number of a new answer."""
        self._answer += 1
        return self._answer

    def end_answer(self) -> None:
        """End the current answer: it cannot be continued any more."""
        self._answer += 1

    def check_answer(self, number: int) -> None:
        """Raise ContextError if an answer has ended because another answer began."""
        if self._answer != number:
            raise ContextError(
                "one answer at a time: this one ended when the Generator began another, was "
                "given tokens by prefill(), or was reset"
            )

    # Prefill

    async def prefill(
        self, tokens: list[int], settings: SamplerSettings, allowed: np.ndarray | None = None
    ) -> SampledToken:
        """Write the pending tokens and `tokens` to the cache; return the token that follows.

        The returned token is not part of the context. `allowed` is the mask of the tokens to sample
        from, or None. If this fails or is cancelled, the context does not change. Where a program's
        state does not follow the position, the cache is then unknown: the session raises
        ContextError until `reset`.
        """
        self.check_room(tokens)
        context = [*self._pending, *tokens]
        _check_not_empty(context)
        with self._alone():
            calls = self._log.calls(self.method)
            try:
                sampled = await self._prefill_chunks(context, settings, allowed)
            except BaseException as error:
                # Where state follows the position, the next prefill writes the same rows again.
                run = self._log.calls(self.method) - calls
                self._is_broken |= not self._can_rewind and leaves_traces(error, run)
                raise
        self._cached += context
        self._pending = []
        return sampled

    async def _prefill_chunks(
        self, tokens: list[int], settings: SamplerSettings, allowed: np.ndarray | None
    ) -> SampledToken:
        history, position = self._history([*self._cached, *tokens]), self.position
        *chunks, last = self._chunks(tokens)
        for chunk in chunks:
            given = await self._inputs(chunk, position)
            with self._writing(position):
                await self._decoder.run_unread(given)
            position += len(chunk)
        given = await self._inputs(last, position)
        with self._writing(position):
            return await self._decoder.sample(given, settings, history, self.max_context, allowed)

    def _chunks(self, tokens: list[int]) -> list[list[int]]:
        """Split tokens into the tokens of each call."""
        most = self.max_chunk
        return [tokens[at : at + most] for at in range(0, len(tokens), most)]

    def _history(self, tokens: list[int]) -> list[int]:
        """Return the tokens that the sampler penalizes."""
        return tokens

    async def _inputs(self, tokens: Sequence[int], position: int) -> tuple[Any, ...]:
        """Return the method's inputs: tokens (1, S), position (1,), and the `given` inputs."""
        places, before = self._places(position, len(tokens)), self._position_at - 1
        first = np.asarray([tokens], self._dtypes[0]), *self.given[:before]
        return *first, places, *self.given[before:]

    def _places(self, position: int, count: int) -> np.ndarray:
        """Return the first position (1,), or all positions (S,) if the method takes them."""
        return np.arange(position, position + (count if self._each else 1), dtype=self._dtypes[1])

    @contextmanager
    def _writing(self, position: int) -> Iterator[None]:
        """Check before and after a prefill call that this session has the cache."""
        if not position:
            self._claim_cache()  # the state before the first token does not matter
        with self._own_call():
            self.prefills += 1
            yield
        self._check_cache()

    @contextmanager
    def _own_call(self) -> Iterator[None]:
        """Check the cache, and count at most one call in this block as the session's."""
        self._check_cache()
        before = self._log.calls(self.method)
        try:
            yield
        finally:
            # A call that was refused at once (the program is closed) was not counted.
            self._calls = before + min(1, self._log.calls(self.method) - before)

    # Speculation: tokens that may follow, checked in one call

    async def verify(
        self, proposed: Sequence[int], settings: SamplerSettings
    ) -> list[SampledToken] | str:
        """Run the pending token and proposed tokens; return the token that follows each of them.

        The context does not change. The cache has the rows of all these tokens: `commit_pending`
        counts the rows of tokens that turn out right. Returns the reason if the program cannot do
        this.
        """
        assert len(self._pending) == 1
        tokens, position = [*self._pending, *proposed], self.position
        with self._alone(), self._writing(position):
            given, history = await self._inputs(tokens, position), [*self._cached, *tokens]
            decoder = self._decoder
            return await decoder.sample_rows(given, settings, history, self.max_context)

    # Saving: the context with its rows in the cache

    async def save(self, *, or_empty: bool = False) -> SavedContext:
        """Return the context with the contents of the cache.

        If the contents are gone, raise ContextError, or return an empty context with `or_empty`.
        """
        decoder = self._decoder
        decoder.cache_layout()  # raises if the program has other state
        if self._cached and not or_empty:
            self._check_cache()
        with self._alone():
            is_known = self._owns_cache or not self._cached
            tokens = tuple(self._cached) if is_known else ()
            pending = tuple(self._pending) if is_known else ()
            caches = await decoder.read_caches(len(tokens))
            return SavedContext(await decoder.fingerprint(), tokens, pending, tuple(caches))

    async def restore(self, saved: SavedContext) -> None:
        """Continue a saved context; if that fails, the context is unchanged or empty."""
        decoder = self._decoder
        check_layout(saved, decoder.cache_layout())
        tokens, pending = self.check_tokens(saved.tokens), self.check_tokens(saved.pending)
        if self.max_context is not None and len(tokens) > self.max_context:
            raise InputError(
                f"a saved conversation of {len(tokens)} tokens is over the {self.max_context} that "
                "the program's context holds"
            )
        with self._alone():
            if saved.program != await decoder.fingerprint():
                raise InputError(f"the conversation was not saved with {self.program.name}")
            self._cached, self._pending = [], []
            self.end_answer()
            await decoder.write_caches(saved.caches)
            self._claim_cache()
            self._cached, self._pending = tokens, pending

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other calls of the session away."""
        self.check_idle()
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    # Decode steps, which take their token from the step before, on the GPU

    def steps(self, settings: SamplerSettings, masked: bool = False) -> DecodeSteps | str:
        """Return the steps that follow a prefill, or the reason why they cannot.

        With `masked`, each step takes a mask of allowed tokens.
        """
        return self._decoder.steps(settings, self.max_context, masked)

    async def step(self, steps: DecodeSteps, allowed: np.ndarray | None) -> SampledToken | str:
        """Run a step on the pending token, which the last call has sampled; see `submit`."""
        with self._own_call():
            return await steps.sample(self.position, allowed)

    async def submit(self, steps: DecodeSteps, position: int, count: int) -> PendingSteps | str:
        """Submit up to `count` decode steps from a position on, or return why no step can run.

        The first step takes the token that the last call sampled.
        """
        most = count if self.max_context is None else self.max_context - position
        if (count := min(count, most)) < 1:
            return "the context is full"
        with self._own_call():
            return await steps.submit(position, count)

    @contextmanager
    def calling_ahead(self, given: bool = False) -> Iterator[Decoder]:
        """Yield the decoder for a call on this session's cache, with `given` tokens or without."""
        with self._own_call():
            self.prefills += given
            yield self._decoder

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Keep other calls of the session away while a step that was decoded ahead is awaited."""
        self.check_idle()
        self._check_cache()
        self._log.check_open()
        with self._alone():
            yield
        self._check_cache()

    def commit_pending(self) -> None:
        """Count the pending tokens as cached: a step that was decoded ahead has written them."""
        self._cached += self._pending
        self._pending = []

    # Whose conversation the cache holds

    @property
    def _can_rewind(self) -> bool:
        return self._decoder.follows_position

    def _claim_cache(self) -> None:
        self._calls = self._log.calls(self.method)
        self._generation = self._log.generation
        self._is_broken = False  # whether an interrupted prefill left unknown state

    @property
    def _owns_cache(self) -> bool:
        """Whether the cache holds the tokens that this session wrote."""
        log = self._log
        known = log.calls(self.method) == self._calls and log.generation == self._generation
        return known and not self._is_broken

    def _check_cache(self) -> None:
        """Raise ContextError if the cache does not hold this conversation."""
        if self._owns_cache:
            return
        advice = "call reset() and prefill the conversation again, or make a new Generator"
        if self._log.generation != self._generation:
            raise ContextError(
                f"{self.program.name} was rebuilt by recover(), and its cache is empty: {advice}"
            )
        if self._is_broken:
            raise ContextError(
                f"{self.program.name}: a prefill was interrupted, and the state of this program is "
                f"not known to follow the position, so the cache is unknown: {advice}"
            )
        raise ContextError(
            f"{self.program.name}: method {self.method!r} was called by another Generator or "
            f"directly, or another LoRA was chosen, so its cache does not hold this conversation "
            f"any more: {advice}"
        )


def _check_not_empty(tokens: Sequence[int]) -> None:
    if not tokens:
        raise InputError("there must be at least one token to continue from")
