"""Decides from measured times whether to speculate, and how many tokens."""

from __future__ import annotations

from collections.abc import Sequence

TRIALS = 3  # batches of rounds before a judgement
GAIN = 1.1  # that another number of guesses must promise: a change interrupts the GPU


class SpeculationTimes:
    """Measured times of rounds and of plain steps, in seconds, and the tokens that rounds give."""

    def __init__(self) -> None:
        self.plain: float | None = None  # per token
        self.tokens = 1.0  # per round
        self.accepted = 0.7  # fraction of the checked proposals
        self.batches = 0
        self._rounds = 0
        self._seconds: dict[int, float] = {}  # per round, by the number of its proposals
        self._count: int | None = None  # proposals of the last round

    def note_plain(self, tokens: int, seconds: float) -> None:
        """Record a run of plain steps."""
        self.plain = _smoothed(self.plain, seconds / tokens)

    def note_rounds(self, proposed: int, accepted: Sequence[int], seconds: float) -> None:
        """Record rounds that came together: the number of right guesses of each, and their time."""
        self.batches += 1
        self._count = proposed
        if self.batches > 1:  # the first batch builds the plans of the others
            before = self._seconds.get(proposed)
            self._seconds[proposed] = _smoothed(before, seconds / len(accepted))
        for right in accepted:
            self._rounds += 1
            self.tokens += max(0.2, 1 / self._rounds) * (right + 1 - self.tokens)
            judged = min(right + 1, proposed)
            self.accepted += 0.1 * judged * (right / judged - self.accepted)

    @property
    def lacks_plain(self) -> bool:
        """Whether plain steps have to be timed for a judgement."""
        return self.batches >= TRIALS and self.plain is None

    @property
    def loss(self) -> str | None:
        """The reason why rounds do not pay; None if they do, or if it is not known yet."""
        seconds = self._seconds.get(self._count or 0)
        if self.batches < TRIALS or self.plain is None or seconds is None:
            return None
        if seconds < self.tokens * self.plain:
            return None
        return (
            f"rounds give {self.tokens:.1f} tokens in {1000 * seconds:.1f} ms, and a plain step "
            f"takes {1000 * self.plain:.1f} ms"
        )

    def best_count(self, most: int) -> int:
        """Return the number of tokens to propose, for the most tokens per second."""
        if not self._seconds:
            return most
        rate = min(self.accepted, 0.98)

        def speed(count: int) -> float:
            tokens = (1 - rate ** (count + 1)) / (1 - rate)
            return tokens / self._round_seconds(count) * (GAIN if count == self._count else 1)

        return max(range(most, 0, -2), key=speed)

    def _round_seconds(self, count: int) -> float:
        """Return the time of a round of so many proposals, measured or estimated."""
        known = self._seconds
        low, high = min(known), max(known)
        near = min(known, key=lambda one: abs(one - count))
        if low == high:  # half of the time may be for proposals: trials will show
            each = known[near] / 2 / (near + 1)
        else:
            each = max(0.0, known[high] - known[low]) / (high - low)
        return max(known[near] + each * (count - near), known[near] / 8)


def _smoothed(old: float | None, new: float) -> float:
    """Return a moving average of times, in which an outlier counts as twice the average.

    A batch that was held up comes together with the next batch, which then seems to take no time.
    """
    return new if old is None else old + 0.3 * (min(new, 2 * old) - old)
