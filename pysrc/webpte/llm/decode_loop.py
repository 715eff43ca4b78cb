"""The decode loop: one token after the other, submitted to the GPU ahead of the host where safe.

A prefill gives the first token; the steps after it take their tokens on the GPU. Steps that are
decoded ahead go to the GPU in batches. The tokens of a batch come back together, while the next
batch runs, and are returned one by one. Batches adapt: few steps at first, so that the first words
come soon, then as many as take about `BATCH_SECONDS`, so that they come evenly. Beside a page that
draws, batches are as short as its `pace` says: a frame waits for all steps that are queued.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from webpte.llm.decode.decode_steps import DecodeSteps, PendingSteps
from webpte.llm.decode.sampling import LogitsRule, SampledToken, SamplerSettings
from webpte.llm.kv_session import KVSession

BATCH_SECONDS = 0.05
IN_FLIGHT = 2  # batches: one runs while the tokens of the other are on their way


@dataclass
class GenerationStats:
    """Tokens and seconds of the two phases, prefill and decode.

    reused_tokens   tokens of the prompt that were in the cache already
    submissions     for decoding; fewer than tokens where steps are decoded ahead of the host
    step_by_step    the reason why no steps are decoded ahead; None if they are, or before a try
    proposed_tokens, accepted_tokens  guessed by speculation, and found to be right
    not_speculating  the reason why no tokens are guessed now; None if they are, or if speculation
                    was not requested
    """

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    reused_tokens: int = 0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    submissions: int = 0
    step_by_step: str | None = None
    proposed_tokens: int = 0
    accepted_tokens: int = 0
    not_speculating: str | None = None

    @property
    def prefill_tokens_per_second(self) -> float:
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0


class DecodeLoop:
    """Decoder of the tokens of an answer in a session.

    submissions   decode steps that were submitted one by one, and batches of steps
    step_by_step  the reason why steps are not decoded ahead; None if they are, or before a try
    """

    def __init__(
        self,
        session: KVSession,
        settings: SamplerSettings,
        most_ahead: int,
        first_ahead: int = 1,
        pace: float | None = None,
    ) -> None:
        """Begin an answer with `most_ahead` steps per submission, `first_ahead` in the first.

        `pace`: milliseconds of steps in flight; None for as many as take `BATCH_SECONDS` each.
        """
        self.submissions = 0
        self.step_by_step = "steps_ahead is 1" if most_ahead == 1 else None
        self._session = session
        self._settings = settings
        self._most_ahead, self._first_ahead, self._pace = most_ahead, first_ahead, pace
        self._has_prefilled = False
        self._steps: PipelinedDecode | SingleSteps | None = None  # the steps after the last prefill
        self._is_refused = False  # whether the program has refused decode steps

    def use_rule(self, rule: LogitsRule) -> None:
        """Change the logits of each token by a rule, on the host; before the first token."""
        self._settings = replace(self._settings, rule=rule)

    @property
    def coming(self) -> int:
        """The number of tokens whose steps are submitted."""
        return 0 if self._steps is None else self._steps.coming

    async def next_token(
        self, prompt: list[int], wanted: int, allowed: np.ndarray | None = None
    ) -> SampledToken:
        """Return the token that follows the session's context and `prompt`.

        `prompt` is empty for all but the first token. `wanted` is the number of tokens still to
        come, the returned token included; `allowed` is the mask of the tokens to sample from, or
        None. After an error or a cancelled call, the same token can be requested again.
        """
        steps = self._steps
        if steps is not None and steps.is_current:
            sampled = await self._take(steps, wanted, allowed)
            if not isinstance(sampled, str):
                return sampled
            self.step_by_step, self._is_refused = self.step_by_step or sampled, True
        self._steps = None
        sampled = await self._session.prefill(prompt, self._settings, allowed)
        self.submissions += self._has_prefilled
        self._has_prefilled = True
        if not self._is_refused:
            self._steps = self._following_steps()
        return sampled

    def _following_steps(self) -> PipelinedDecode | SingleSteps:
        if self.step_by_step is not None:
            return SingleSteps(self._session, self._settings)
        seconds = None if self._pace is None else self._pace / 1000 / IN_FLIGHT
        pace = StepPacer(self._most_ahead, self._first_ahead, seconds)
        return PipelinedDecode(self._session, self._settings, pace)

    async def _take(
        self, steps: PipelinedDecode | SingleSteps, wanted: int, allowed: np.ndarray | None
    ) -> SampledToken | str:
        submitted = steps.submissions
        try:
            with self._session.stepping():
                sampled = await steps.take(wanted, allowed)
        except Exception:
            # batches in flight are useless after an error, but not after a cancellation
            self._steps = None
            raise
        finally:
            self.submissions += steps.submissions - submitted
        if not isinstance(sampled, str):
            self._session.commit_pending()
        return sampled


class SingleSteps:
    """Decode steps one by one, each on the token that the session's last call sampled."""

    coming = 0

    def __init__(self, session: KVSession, settings: SamplerSettings) -> None:
        self._session = session
        self._settings = settings
        self._steps: DecodeSteps | str | None = None  # known once there is a step to run
        self._prefills = session.prefills
        self._is_complete = True  # whether the last step ran to its end
        self.submissions = 0

    @property
    def is_current(self) -> bool:
        """Whether no prefill began since, and the token on the GPU is the pending token."""
        return self._is_complete and self._session.prefills == self._prefills

    async def take(self, wanted: int, allowed: np.ndarray | None) -> SampledToken | str:
        """Return the next token, or the reason why it needs a prefill."""
        if self._steps is None:
            self._steps = self._session.steps(self._settings, masked=allowed is not None)
        if isinstance(self._steps, str):
            return self._steps
        self._is_complete = False
        sampled = await self._session.step(self._steps, allowed)
        if not isinstance(sampled, str):
            self._is_complete = True
            self.submissions += 1
        return sampled


class StepPacer:
    """Chooser of the number of steps to submit: as many as take `seconds`, or `BATCH_SECONDS`."""

    def __init__(self, most: int, first: int = 1, seconds: float | None = None) -> None:
        self._most = most
        self._next = first
        self._wanted = seconds
        self._fitting = most  # steps, as the last batch tells

    @property
    def steps(self) -> int:
        return max(1, min(self._next, self._most, self._fitting))

    def submitted(self) -> None:
        """Double the size of the next batch, after a submission."""
        self._next = min(2 * self._next, self._most)

    def ended(self, count: int, seconds: float) -> None:
        """Note that a batch of `count` steps took so many seconds.

        A part of them is the way to the host, which more steps would share: after a batch that took
        less than wanted, the next may have a step more.
        """
        wanted = BATCH_SECONDS if self._wanted is None else self._wanted
        fitting = int(wanted * count / seconds) if seconds else self._most
        self._fitting = max(fitting, count + 1) if seconds < wanted else fitting


class PipelinedDecode:
    """Decode steps in flight, which follow the token that the session's last call sampled."""

    def __init__(self, session: KVSession, settings: SamplerSettings, pace: StepPacer) -> None:
        self._session = session
        self._settings = settings
        self._pace = pace
        self._steps: DecodeSteps | str | None = None  # known once there are steps to submit
        self._prefills = session.prefills
        self._next = session.position  # position of the next step to submit
        self._tokens: deque[SampledToken] = deque()
        self._batches: deque[PendingSteps] = deque()
        self._latest = perf_counter()  # the time when the last batch came
        self.submissions = 0

    @property
    def is_current(self) -> bool:
        """Whether no prefill began since; even a failed prefill may have written to the cache."""
        return self._session.prefills == self._prefills

    @property
    def coming(self) -> int:
        """The number of tokens that are there or under way."""
        return len(self._tokens) + sum(batch.count for batch in self._batches)

    async def take(self, wanted: int, allowed: np.ndarray | None) -> SampledToken | str:
        """Return the next token, or the reason why it cannot be decoded ahead.

        `wanted` is the number of tokens still to come, without a mask. After a cancelled call the
        token can be requested again; after an error the batches in flight are useless.
        """
        assert allowed is None, "what is allowed next is not known before"
        reason = await self._fill(wanted)
        if not self._tokens:
            if not self._batches:
                assert reason is not None
                return reason
            await self._receive()
        return self._tokens.popleft()

    async def _fill(self, wanted: int) -> str | None:
        """Submit batches until enough are in flight; return the reason if a batch was refused."""
        if not self.coming:
            self._latest = perf_counter()
        while len(self._batches) < IN_FLIGHT and self.coming < wanted:
            if self._steps is None:
                self._steps = self._session.steps(self._settings)
            if isinstance(self._steps, str):
                return self._steps
            count = min(self._pace.steps, wanted - self.coming)
            batch = await self._session.submit(self._steps, self._next, count)
            if isinstance(batch, str):
                return batch
            self._batches.append(batch)
            self._next += batch.count
            self._pace.submitted()
            self.submissions += 1
        return None

    async def _receive(self) -> None:
        """Wait for the oldest batch, and queue its tokens."""
        batch = self._batches[0]
        # A cancelled call leaves the batch to the next call. (`shield` would do, too, but from
        # Python 3.14 on it logs errors that nobody awaits any more.)
        await asyncio.wait([batch.sampled])
        sampled = batch.sampled.result()
        self._batches.popleft()
        self._tokens.extend(sampled)
        now = perf_counter()
        self._pace.ended(batch.count, now - self._latest)
        self._latest = now
