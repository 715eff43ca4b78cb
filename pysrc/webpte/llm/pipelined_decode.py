"""Steps of a language model that are submitted before the ones before them are seen.

The tokens of a batch come back together, while the next batch runs; they are handed out one by
one. How many steps a batch has adapts: few at first, so that the first words come soon, and then as
many as take about `BATCH_SECONDS`, so that they keep coming evenly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import perf_counter

from webpte.runtime.decode.sampled_delegate import PendingSteps
from webpte.runtime.decode.sampling import SampledToken

BATCH_SECONDS = 0.05
IN_FLIGHT = 2  # batches: one runs while the tokens of the other are on their way

# Submits up to so many steps from a position on; returns why not if that cannot be done.
Submit = Callable[[int, int], Awaitable[PendingSteps | str]]


class Pace:
    """How many steps to submit at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 1
        self._seconds = 0.0  # per step, of the last batch

    @property
    def steps(self) -> int:
        fitting = int(BATCH_SECONDS / self._seconds) if self._seconds else self._most
        return max(1, min(self._next, self._most, fitting))

    def submitted(self) -> None:
        self._next = min(2 * self._next, self._most)

    def ended(self, count: int, seconds: float) -> None:
        self._seconds = seconds / count


class PipelinedDecode:
    """The steps that follow a token which is on the GPU, from `position` on."""

    def __init__(self, position: int, pace: Pace, submit: Submit) -> None:
        self._next = position  # where the next step to be submitted will be
        self._pace = pace
        self._submit = submit
        self._tokens: deque[SampledToken] = deque()
        self._batches: deque[PendingSteps] = deque()
        self._latest = perf_counter()  # when the last batch came
        self.submissions = 0

    @property
    def _coming(self) -> int:
        return len(self._tokens) + sum(batch.count for batch in self._batches)

    async def take(self, wanted: int) -> SampledToken | str:
        """The next token, or why it cannot be had so. `wanted` is how many will be asked for.

        Cancelled, it can be asked again. After an error nothing that is under way is of any use.
        """
        reason = await self._fill(wanted)
        if not self._tokens:
            if not self._batches:
                assert reason is not None
                return reason
            await self._receive()
        return self._tokens.popleft()

    async def _fill(self, wanted: int) -> str | None:
        if not self._coming:
            self._latest = perf_counter()
        while len(self._batches) < IN_FLIGHT and self._coming < wanted:
            steps = min(self._pace.steps, wanted - self._coming)
            batch = await self._submit(self._next, steps)
            if isinstance(batch, str):
                return batch
            self._batches.append(batch)
            self._next += batch.count
            self._pace.submitted()
            self.submissions += 1
        return None

    async def _receive(self) -> None:
        batch = self._batches[0]
        # Whoever is cancelled here leaves the batch to whoever asks next. (`shield` would do, too,
        # but from Python 3.14 on it tells of errors that nobody waits for any more.)
        await asyncio.wait([batch.chosen])
        chosen = batch.chosen.result()
        self._batches.popleft()
        self._tokens.extend(chosen)
        now = perf_counter()
        self._pace.ended(batch.count, now - self._latest)
        self._latest = now
