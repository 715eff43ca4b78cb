"""Rounds of speculative decoding in flight: tokens are guessed and checked on the GPU.

The start of a round follows from the number of right guesses in the round before, which the GPU
knows first. So rounds are submitted before the host has seen the tokens of earlier rounds, as
decode steps are (`decode.py`), and each submission has several rounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from webpte.errors import ContextError
from webpte.llm.decode.decode_steps import StepPacker
from webpte.llm.decode.guessed_rounds import (
    IN_FLIGHT,
    MOST_ROUNDS,
    PendingRounds,
    Round,
    RoundStart,
)
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampling import SamplerSettings
from webpte.llm.decode_loop import StepPacer
from webpte.llm.kv_session import KVSession

FULL = "the context is nearly full"


class DraftContextError(ContextError):
    """The draft's cache does not hold the conversation any more: another caller has used it."""


@dataclass(frozen=True)
class RoundBatchResult:
    """Rounds that came together, and the seconds since the rounds before."""

    rounds: list[Round]
    seconds: float


class PipelinedRounds:
    """Rounds in flight, which follow the session's only pending token.

    The draft's cache has everything before that token. Without a draft, tokens are guessed from the
    conversation itself.
    """

    def __init__(
        self,
        session: KVSession,
        draft: KVSession | None,
        settings: SamplerSettings,
        count: int,
        most: int,
    ) -> None:
        """Begin with rounds of `count` tokens; the largest rounds have `most`."""
        self.count = count
        self.submissions = 0
        self._session, self._draft, self._settings, self._most = session, draft, settings, most
        self._prefills: int | None = None
        (self._last,) = session.pending  # the first token of the oldest round that is awaited
        self._position = session.position  # position of the last token
        self._known: dict[SampledDelegate, StepPacker] = {}
        self._pace = StepPacer(MOST_ROUNDS)
        self._batches: deque[PendingRounds] = deque()
        self._latest = 0.0  # the time when the last batch came

    @property
    def is_current(self) -> bool:
        """Whether no prefill began since the first round."""
        return self._prefills is None or self._session.prefills == self._prefills

    @property
    def coming(self) -> int:
        """The number of rounds that are under way."""
        return sum(batch.count for batch in self._batches)

    async def fill(self, wanted: float) -> str | None:
        """Submit rounds until the pipeline is full, or has `wanted`; else return why not.

        The reason lasts, unless other rounds are in flight.
        """
        while len(self._batches) < IN_FLIGHT and self.coming < wanted:
            rounds = min(self._pace.steps, -int(-(wanted - self.coming) // 1), self._room())
            if rounds < 1:
                return FULL
            batch = await self._submit(rounds)
            if isinstance(batch, str):
                return batch
            if not self._batches:
                self._latest = perf_counter()
            self._batches.append(batch)
            self._pace.submitted()
            self.submissions += 1
        return None

    def _room(self) -> int:
        """Return the number of rounds for which the caches have room."""
        sessions = (self._session, *([self._draft] if self._draft else []))
        sizes = [one.max_context for one in sessions if one.max_context is not None]
        used = self._position + self.coming * self.count
        return min((size - used) // self.count for size in sizes) if sizes else MOST_ROUNDS

    async def _submit(self, rounds: int) -> PendingRounds | str:
        first, coming = self._position, self.coming
        places = range(first + coming, first + coming * self.count + 1)
        start = RoundStart(first, self._session.context) if self._prefills is None else None
        given = start is not None
        with ExitStack() as calls:
            try:
                draft = calls.enter_context(self._draft.calling_ahead()) if self._draft else None
            except ContextError as error:
                raise DraftContextError(str(error)) from error
            decoder = calls.enter_context(self._session.calling_ahead(given))
            batch = await decoder.rounds_ahead(
                *(draft, self._settings, places, rounds, start, self.count, self._most),
                known=self._known,
                room=self._session.max_context,
            )
        if not isinstance(batch, str):
            self._prefills = self._session.prefills
        return batch

    async def receive(self) -> RoundBatchResult:
        """Wait for the oldest rounds, and add their tokens to the draft's context.

        After a cancelled call they can be awaited again.
        """
        batch = self._batches[0]
        await asyncio.wait([batch.found])  # see `PipelinedDecode`
        rounds = batch.found.result()
        self._batches.popleft()
        now = perf_counter()
        seconds, self._latest = now - self._latest, now
        self._pace.ended(batch.count, seconds)
        for one in rounds:
            tokens = [sampled.token for sampled in one.sampled]
            if self._draft is not None:
                self._draft.append([self._last, *tokens[:-1]])
                self._draft.commit_pending()
            self._last = tokens[-1]
            self._position += len(tokens)
        return RoundBatchResult(rounds, seconds)
