"""Speculative decoding: tokens are guessed, and one call of the model checks several of them.

A call of a few tokens takes a GPU hardly longer than a call of a single token, because both read
all weights. So a round takes a guess of the next tokens (`proposals.py`), runs the last token and
the guessed tokens in one call, and samples after each of them as a plain step would: with the same
seed, position and history. Sampled tokens count up to and including the first that differs from the
guess. So an answer has the same tokens as without speculation, and a round gives at least one.

Whole rounds run on the GPU, several in one submission (`speculative_rounds.py`): a draft there
proposes, or a lookup. If that is not possible, a round is a proposal and a call for its check.

Whether rounds pay is measured: where they do not, plain steps run instead, and a round is tried
again now and then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import Literal

import numpy as np

from webpte.errors import InputError
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.llm.decode_loop import DecodeLoop
from webpte.llm.kv_session import KVSession
from webpte.llm.proposals import DraftModel, PromptLookup, Proposer, draft_session
from webpte.llm.speculation_times import SpeculationTimes
from webpte.llm.speculative_rounds import FULL, DraftContextError, PipelinedRounds
from webpte.program import Program

Speculate = Literal["lookup"] | Program | None

ROWS = 8  # tokens in a call that checks guesses, the last sampled token included
LEAST_REST, MOST_REST = 8, 128  # plain steps between rounds that do not pay
PLAIN_TRIAL = 16  # plain steps that are timed, at least


class SpeculationState:
    """State of speculation that outlives an answer: measured times, and the draft's session."""

    def __init__(self, session: KVSession) -> None:
        self._session = session
        self._times_of: dict[str, SpeculationTimes] = {}
        self._draft: KVSession | None = None

    def loop(
        self, speculate: Speculate, settings: SamplerSettings, plain: DecodeLoop
    ) -> SpeculativeLoop | None:
        """Return the loop that decodes an answer by speculation; None without a request."""
        if speculate is None:
            return None
        proposer: Proposer
        if speculate == "lookup":
            key, proposer = "lookup", PromptLookup()
        elif isinstance(speculate, Program):
            if self._draft is None or self._draft.program is not speculate:
                self._draft = draft_session(speculate, self._session)
                self._times_of.pop("draft", None)
            key, proposer = "draft", DraftModel(self._draft, settings)
        else:
            raise InputError(
                f'speculate is "lookup", a loaded program that drafts, or None, not {speculate!r}'
            )
        times = self._times_of.setdefault(key, SpeculationTimes())
        return SpeculativeLoop(self._session, settings, plain, proposer, times)


class SpeculativeLoop:
    """Decodes the tokens of an answer in rounds, or by a plain loop where rounds do not pay.

    proposed   tokens that were guessed and checked
    accepted   guessed tokens that were right
    off        the reason why there is no speculation now, or None
    """

    def __init__(
        self,
        session: KVSession,
        settings: SamplerSettings,
        plain: DecodeLoop,
        proposer: Proposer,
        times: SpeculationTimes,
    ) -> None:
        self.proposed = self.accepted = 0
        self.off: str | None = None
        self._session = session
        self._settings = settings
        self._plain = plain
        self._proposer = proposer
        self._times = times
        self._rows = min(ROWS, session.max_chunk)
        self._ready: deque[SampledToken] = deque()  # tokens of the last round, not yet returned
        self._prefills = -1  # the session's prefills after the last round
        self._rest = LEAST_REST
        self._left = 0  # plain steps until the next round
        self._arrivals: list[float] = []  # times of the tokens of this run of plain steps
        self._rounds = 0  # submissions of rounds
        self._ahead: PipelinedRounds | None = None
        self._in_parts: str | None = None  # why rounds cannot run on the GPU as a whole
        self._is_over = False
        if self._rows < 2:
            self.turn_off("the program takes one token per call")

    def turn_off(self, reason: str) -> None:
        """Decode plainly from now on."""
        self.off, self._is_over = reason, True

    @property
    def submissions(self) -> int:
        """Submissions for decoding, the draft's included."""
        return self._plain.submissions + self._rounds + self._proposer.submissions

    async def next_token(
        self, prompt: list[int], wanted: int, allowed: np.ndarray | None = None
    ) -> SampledToken:
        """Return the token that follows the session's context and `prompt`; see `DecodeLoop`."""
        session = self._session
        if prompt or allowed is not None or len(session.pending) != 1:
            return await self._plain.next_token(prompt, wanted, allowed)
        if session.prefills != self._prefills:  # another call may have written to the cache
            self._ready.clear()
        if not self._ready and not self._left and not self._is_over:
            await self._round(wanted)
        if self._ready:
            with session.stepping():
                sampled = self._ready.popleft()
                self._proposer.note(sampled.token)
            session.commit_pending()
            return sampled
        return await self._step(wanted)

    async def _step(self, wanted: int) -> SampledToken:
        """Decode one token plainly."""
        if self._is_over:
            return await self._plain.next_token([], wanted)
        sampled = await self._plain.next_token([], min(wanted, max(1, self._left)))
        self._arrivals.append(perf_counter())
        self._left = max(0, self._left - 1)
        if self._proposer.watch(sampled.token) and self._times.loss is None:
            self._left = min(self._left, self._plain.coming)
        if not self._left:
            times, self._arrivals = self._arrivals, []
            if len(times) >= PLAIN_TRIAL:  # fewer tokens are mostly the start of a pipeline
                self._times.note_plain(len(times) - 1, times[-1] - times[0])
        return sampled

    def _rest_now(self, reason: str) -> None:
        """Decode plainly for a while, and longer the next time."""
        self.off, self._left = reason, self._rest
        self._rest = min(2 * self._rest, MOST_REST)

    async def _round(self, wanted: int) -> None:
        """Propose tokens and check them; without a proposal, plain steps are to follow."""
        session, times, proposer = self._session, self._times, self._proposer
        ahead = self._ahead
        if ahead is not None and ahead.is_current and ahead.coming:
            await self._receive(ahead, wanted)
            return
        if not _has_room(session, self._rows):
            self.turn_off(FULL)
            return
        if wanted < 2 or times.lacks_plain:
            self._left = min(wanted, PLAIN_TRIAL)
            return
        count = times.best_count(min(self._rows, wanted) - 1)
        if self._in_parts is None:
            await self._begin(count, wanted)
            if self._in_parts is None:
                return
        started = perf_counter()
        proposed = await proposer.propose(session.context, count)
        if not self._is_idle(found=bool(proposed)):
            await self._check(proposed, started)

    def _is_idle(self, *, found: bool) -> bool:
        """Turn to plain steps if the last proposal failed, or if nothing was found."""
        if self._proposer.broken is not None:
            self.turn_off(self._proposer.broken)
        elif not found:
            self._rest_now("there is nothing to guess from")
        else:
            return False
        return True

    async def _check(self, proposed: Sequence[int], started: float) -> None:
        """Check proposed tokens in one call."""
        session = self._session
        filled = [*proposed, *[proposed[-1]] * (self._rows - 1 - len(proposed))]
        found = await session.verify(filled, self._settings)
        if isinstance(found, str):
            self.turn_off(found)
            return
        self._rounds += 1
        self._prefills = session.prefills
        right = (a.token == b for a, b in zip(found, filled, strict=False))
        count = next((n for n, same in enumerate(right) if not same), len(filled))
        accepted = min(count, len(proposed))
        self._ready.extend(found[: count + 1])
        self._note(len(proposed), [accepted], perf_counter() - started)

    def _note(self, proposed: int, accepted: Sequence[int], seconds: float) -> None:
        """Record the results of rounds, and rest if they do not pay."""
        self.proposed += proposed * len(accepted)
        self.accepted += sum(accepted)
        self._times.note_rounds(proposed, accepted, seconds)
        self.off = self._times.loss
        if self.off is None:
            self._rest = LEAST_REST
        elif self._ahead is None or not self._ahead.coming:
            self._rest_now(self.off)

    # Rounds on the GPU

    async def _begin(self, count: int, wanted: int) -> None:
        """Begin rounds of so many proposals after the pending token."""
        session, proposer = self._session, self._proposer
        ready = await proposer.catch_up(session.context)
        if not self._is_idle(found=ready):
            settings, draft = self._settings, proposer.session
            ahead = PipelinedRounds(session, draft, settings, count + 1, self._rows)
            await self._receive(ahead, wanted)

    async def _receive(self, ahead: PipelinedRounds, wanted: int) -> None:
        """Submit more rounds, wait for the oldest rounds, and queue their tokens."""
        session, times, self._ahead = self._session, self._times, ahead
        proposed = ahead.count - 1
        changes = self.off is not None or times.best_count(self._rows - 1) != proposed
        changes |= not self._proposer.has_guess
        try:
            with session.stepping():
                if not ahead.coming or not (changes or times.lacks_plain):
                    await self._fill(ahead, wanted)
                if not ahead.coming:
                    self._ahead = None
                    return
                found = await ahead.receive()
        except Exception:
            # rounds in flight are useless after an error, but not after a cancellation
            self._ahead = None
            raise
        for one in found.rounds:
            self._ready.extend(one.sampled)
        self._prefills = session.prefills
        self._note(proposed, [one.accepted for one in found.rounds], found.seconds)

    async def _fill(self, ahead: PipelinedRounds, wanted: int) -> None:
        """Submit more rounds; if then no round is under way, decide how to go on without rounds."""
        before = ahead.submissions
        reason: str | None = None
        is_ready = self._proposer.is_open
        try:
            if is_ready:
                reason = await ahead.fill(wanted / max(1.0, self._times.tokens))
        except DraftContextError:
            is_ready = False
        finally:
            self._rounds += ahead.submissions - before
        if ahead.coming or self._is_idle(found=is_ready):
            return
        if reason == FULL:
            self.turn_off(reason)
        else:
            self._in_parts = reason


def _has_room(session: KVSession, rows: int) -> bool:
    """Return whether a call of so many tokens fits behind the cached tokens, and into a call."""
    most = session.max_context
    return rows <= session.max_chunk and (most is None or session.position + rows <= most)
