"""Speculative decoding: tokens are guessed, and one call of the model checks several of them.

A call of a few tokens takes a GPU hardly longer than a call of one, because both read all weights.
So a round takes a guess of the tokens that come next (`proposals.py`), runs the last token and the
guessed ones in one call, and samples after each of them as a plain step would: with the same seed,
position and history. Sampled tokens count up to and including the first that differs from the
guess. So an answer has the tokens that it has without speculation, and a round gives one at least.

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
from webpte.llm.decode import DecodeLoop
from webpte.llm.kv_session import KVSession
from webpte.llm.proposals import DraftModel, PromptLookup, Proposer, draft_session
from webpte.runtime.decode.sampling import SampledToken, SamplerSettings
from webpte.runtime.program import Program

Speculate = Literal["lookup"] | Program | None

ROWS = 8  # tokens in a call that checks guesses, the last sampled one included
LEAST_REST, MOST_REST = 8, 128  # plain steps between rounds that do not pay
TRIALS = 3  # rounds before a judgement


class Payoff:
    """Measured times of rounds and of plain steps, in seconds, and what rounds give."""

    def __init__(self) -> None:
        self.plain: float | None = None  # per token
        self.verify: float | None = None  # per round, without its proposal
        self.propose = 0.0  # per proposed token
        self.tokens = 1.0  # per round
        self.accepted = 0.7  # of the proposals that were looked at
        self.rounds = 0

    def note_plain(self, tokens: int, seconds: float) -> None:
        """Note a run of plain steps."""
        self.plain = _smoothed(self.plain, seconds / tokens)

    def note_round(
        self, proposed: int, accepted: int, tokens: int, proposing: float, verifying: float
    ) -> None:
        """Note a round: how many tokens it proposed and gave, and the seconds of its two parts."""
        self.rounds += 1
        if self.rounds > 1:  # the first one builds what the others run
            self.verify = _smoothed(self.verify, verifying)
            self.propose = _smoothed(self.propose or None, proposing / proposed)
        self.tokens += max(0.2, 1 / self.rounds) * (tokens - self.tokens)
        judged = min(accepted + 1, proposed)
        self.accepted += 0.1 * judged * (accepted / judged - self.accepted)

    @property
    def loss(self) -> str | None:
        """The reason why rounds do not pay; None if they do, or if it is not known yet."""
        if self.rounds < TRIALS or self.plain is None or self.verify is None:
            return None
        seconds = self.verify + self.propose * self.best_count(ROWS - 1)
        if seconds < self.tokens * self.plain:
            return None
        return (
            f"rounds give {self.tokens:.1f} tokens in {1000 * seconds:.1f} ms, and a plain step "
            f"takes {1000 * self.plain:.1f} ms"
        )

    def best_count(self, most: int) -> int:
        """Return how many tokens to propose, for the most tokens per second."""
        if self.verify is None or not self.propose:
            return most
        verify, propose, rate = self.verify, self.propose, min(self.accepted, 0.98)

        def speed(count: int) -> float:
            return (1 - rate ** (count + 1)) / (1 - rate) / (verify + count * propose)

        return max(range(most, 0, -2), key=speed)


def _smoothed(old: float | None, new: float) -> float:
    """Follow lower times at once, and higher ones slowly: single steps may be held up."""
    return new if old is None or new < old else old + 0.2 * (new - old)


class Speculators:
    """The parts of speculation that last from answer to answer: times, and a draft's context."""

    def __init__(self, session: KVSession) -> None:
        self._session = session
        self._payoffs: dict[str, Payoff] = {}
        self._draft: KVSession | None = None

    def loop(
        self, speculate: Speculate, settings: SamplerSettings, plain: DecodeLoop
    ) -> SpeculativeLoop | None:
        """Return the loop that decodes an answer by speculation; None if none is requested."""
        if speculate is None:
            return None
        proposer: Proposer
        if speculate == "lookup":
            key, proposer = "lookup", PromptLookup()
        elif isinstance(speculate, Program):
            if self._draft is None or self._draft.program is not speculate:
                self._draft = draft_session(speculate, self._session)
                self._payoffs.pop("draft", None)
            key, proposer = "draft", DraftModel(self._draft, settings)
        else:
            raise InputError(
                f'speculate is "lookup", a loaded program that drafts, or None, not {speculate!r}'
            )
        payoff = self._payoffs.setdefault(key, Payoff())
        return SpeculativeLoop(self._session, settings, plain, proposer, payoff)


class SpeculativeLoop:
    """Decodes the tokens of one answer in rounds, or by a plain loop where those do not pay.

    proposed   tokens that were guessed and checked
    accepted   those of them that were right
    off        the reason why there is no speculation now; None if there is
    """

    def __init__(
        self,
        session: KVSession,
        settings: SamplerSettings,
        plain: DecodeLoop,
        proposer: Proposer,
        payoff: Payoff,
    ) -> None:
        self.proposed = self.accepted = 0
        self.off: str | None = None
        self._session = session
        self._settings = settings
        self._plain = plain
        self._proposer = proposer
        self._payoff = payoff
        self._rows = min(ROWS, session.max_chunk)
        self._ready: deque[SampledToken] = deque()  # of the last round
        self._prefills = -1  # of the session, after the last round
        self._rest = LEAST_REST
        self._left = 0  # plain steps until the next round
        self._run, self._seconds = 0, 0.0  # tokens of this run of plain steps, and their time
        self._rounds = 0
        self._is_over = False
        if self._rows < 2:
            self.turn_off("the program takes one token per call")

    def turn_off(self, reason: str) -> None:
        """Decode plainly from now on."""
        self.off, self._is_over = reason, True

    @property
    def submissions(self) -> int:
        """Submissions for decoding, those of a draft included."""
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
            session.commit_pending()
            return sampled
        return await self._step(wanted)

    async def _step(self, wanted: int) -> SampledToken:
        """Decode one token plainly."""
        if self._is_over:
            return await self._plain.next_token([], wanted)
        started = perf_counter()
        sampled = await self._plain.next_token([], min(wanted, max(1, self._left)))
        self._run += 1
        self._seconds += perf_counter() - started
        self._left = max(0, self._left - 1)
        if self._proposer.watch(sampled.token) and self._payoff.loss is None:
            self._left = min(self._left, self._plain.coming)
        if not self._left:
            if self._run >= LEAST_REST:
                self._payoff.note_plain(self._run, self._seconds)
            self._run, self._seconds = 0, 0.0
        return sampled

    def _rest_now(self, reason: str) -> None:
        """Decode plainly for a while, and longer the next time."""
        self.off, self._left = reason, self._rest
        self._rest = min(2 * self._rest, MOST_REST)

    async def _round(self, wanted: int) -> None:
        """Propose tokens and check them: what comes out is ready, or plain steps are to follow."""
        session, payoff = self._session, self._payoff
        if not session.room_for(self._rows):
            self.turn_off("the context is nearly full")
            return
        if wanted < 2 or (payoff.rounds == TRIALS and payoff.plain is None):
            self._left = min(wanted, LEAST_REST)
            return
        count = payoff.best_count(min(self._rows, wanted) - 1)
        proposed = await self._proposer.propose(session.context, count)
        if self._proposer.broken is not None:
            self.turn_off(self._proposer.broken)
        elif not proposed:
            self._rest_now("there is nothing to guess from")
        else:
            await self._check(proposed)

    async def _check(self, proposed: Sequence[int]) -> None:
        session, payoff = self._session, self._payoff
        filled = [*proposed, *[proposed[-1]] * (self._rows - 1 - len(proposed))]
        started = perf_counter()
        found = await session.verify(filled, self._settings)
        if isinstance(found, str):
            self.turn_off(found)
            return
        seconds = perf_counter() - started
        self._rounds += 1
        self._prefills = session.prefills
        right = (a.token == b for a, b in zip(found, filled, strict=False))
        count = next((n for n, same in enumerate(right) if not same), len(filled))
        accepted = min(count, len(proposed))
        self.proposed += len(proposed)
        self.accepted += accepted
        self._ready.extend(found[: count + 1])
        payoff.note_round(len(proposed), accepted, count + 1, self._proposer.seconds, seconds)
        self.off = payoff.loss
        if self.off is None:
            self._rest = LEAST_REST
        else:
            self._rest_now(self.off)
