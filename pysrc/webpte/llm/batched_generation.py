"""An answer among several that a model generates at once: its state in a scheduler."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from time import perf_counter

from webpte.llm.decode.batched_steps import BatchRow
from webpte.llm.decode.sampling import SamplerSettings
from webpte.llm.generation import GenerationStats
from webpte.llm.logprobs import TokenLogprob

CANCELLED = "cancelled"


class BatchSequence:
    """The tokens of an answer, and the number of them that were submitted.

    tokens   the generated tokens
    slot     its slot of the KV caches; None before it has a slot, and after its end
    written  the number of tokens that are in the slot, or on their way there
    coming   the number of sampled tokens that are on their way back
    """

    def __init__(
        self,
        prompt: Sequence[int],
        settings: SamplerSettings,
        stop: Collection[int],
        most: int,
        limit: int,
    ) -> None:
        """Begin an answer of `most` tokens, of which the context has room for `limit`."""
        self.tokens: list[int] = []
        self.slot: int | None = None
        self.written, self.coming = 0, 0
        self.stats = GenerationStats()
        self.changed = asyncio.Event()
        self.why_ended: str | None = None
        self.error: BaseException | None = None
        self.context = list(prompt)  # prompt and generated tokens
        self._settings, self._stop = settings, frozenset(stop)
        self._most, self._limit = most, min(most, limit)
        self._started = perf_counter()
        if self._limit <= 0:
            self.end("length" if most <= 0 else "full")

    @property
    def ended(self) -> bool:
        return self.why_ended is not None or self.error is not None

    @property
    def wanted(self) -> int:
        """The number of tokens that can be submitted now."""
        if self.ended or len(self.tokens) + self.coming >= self._limit:
            return 0
        return len(self.context) + self.coming - self.written

    def take_rows(self, most: int) -> list[BatchRow]:
        """Return the next rows to submit; a token is sampled after the context's last."""
        if self.slot is None:
            return []
        end = len(self.context) + self.coming
        places = range(self.written, min(end, self.written + most))
        rows = [
            BatchRow(
                self.slot,
                place,
                self.context[place] if place < len(self.context) else None,
                self._settings if place == end - 1 else None,
            )
            for place in places
        ]
        self.written += len(rows)
        self.coming += bool(rows) and rows[-1].settings is not None
        return rows

    def begin(self, slot: int, reused: int) -> None:
        """Join the steps, with the first tokens in a slot already."""
        self.slot, self.written = slot, reused
        self.stats.reused_tokens = reused
        self.stats.prefill_tokens = len(self.context) - reused

    def restart(self) -> None:
        """Compute all tokens again, because the slot has lost them."""
        assert not self.coming
        self.written = 0

    def deliver(self, token: int) -> None:
        """Take a sampled token; ignore it if the answer has ended."""
        self.coming -= 1
        if self.ended:
            return
        now = perf_counter()
        if self.stats.prefill_seconds == 0.0:
            self.stats.prefill_seconds = now - self._started
        else:
            self.stats.decode_tokens += 1
            self.stats.decode_seconds = now - self._started - self.stats.prefill_seconds
        self.stats.submissions += 1
        self.context.append(token)
        if token in self._stop:
            self.end("stop")
            return
        self.tokens.append(token)
        if len(self.tokens) >= self._limit:
            self.end("length" if len(self.tokens) >= self._most else "full")
        self.changed.set()

    def end(self, why: str) -> None:
        self.why_ended = self.why_ended or why
        self.changed.set()

    def fail(self, error: BaseException) -> None:
        if not self.ended:
            self.error = error
            self.changed.set()


class BatchedGeneration:
    """An answer, as an async iterator of tokens; `tokens` and `stats` grow while it is generated.

    The answer ends after `max_new_tokens`, at a stop token (which is not yielded), when the context
    is full, or when it is cancelled. It is generated whether or not somebody iterates it; an answer
    that the caller has dropped is cancelled. `stats.prefill_seconds` is the time until the first
    token.
    """

    def __init__(
        self, sequence: BatchSequence, leave: Callable[[BatchSequence, str], None]
    ) -> None:
        self.logprobs: list[TokenLogprob] = []
        self._sequence = sequence
        self._taken = 0
        self._leave = weakref.finalize(self, leave, sequence, CANCELLED)
        self._leave.atexit = False

    @property
    def stats(self) -> GenerationStats:
        """Tokens and seconds so far."""
        return self._sequence.stats

    @stats.setter
    def stats(self, stats: GenerationStats) -> None:
        self._sequence.stats = stats

    @property
    def tokens(self) -> list[int]:
        """The tokens generated so far, including tokens that were not yielded yet."""
        return self._sequence.tokens

    @property
    def why_ended(self) -> str | None:
        """The reason why the answer ended, once it has: "stop", "length", "full", "cancelled"."""
        return self._sequence.why_ended

    def cancel(self) -> None:
        """End the answer, and free its slot at once for another answer."""
        self._leave()

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        sequence = self._sequence
        while self._taken >= len(sequence.tokens):
            if sequence.error is not None:
                raise sequence.error
            if sequence.ended:
                raise StopAsyncIteration
            sequence.changed.clear()
            await sequence.changed.wait()
        self._taken += 1
        return sequence.tokens[self._taken - 1]

    async def aclose(self) -> None:
        """End the answer, as `cancel` does."""
        self.cancel()
