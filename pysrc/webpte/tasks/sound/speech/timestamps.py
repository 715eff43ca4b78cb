"""Whisper's timestamps: tokens for times, their allowed places, and the segments between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_NEVER = -np.inf


@dataclass(frozen=True)
class TimestampRule:
    """Enforces timestamps in pairs and in order, and wherever they are likely.

    prompt   the number of tokens before the generated tokens
    first    the first timestamp: 0 seconds; the token before it means "no timestamps"
    end      the token that ends an answer; text is before it
    latest   how late the first timestamp may be, in timestamps; None: anywhere
    """

    prompt: int
    first: int
    end: int
    latest: int | None = None

    def __call__(self, history: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Return the logits, with -inf for tokens that may not come next."""
        found, generated = logits.astype(np.float64), history[self.prompt :]
        found[self.first - 1] = _NEVER
        if not generated:
            found[: self.first] = _NEVER
            if self.latest is not None:
                found[self.first + self.latest + 1 :] = _NEVER
            return found
        opened = len(generated) < 2 or generated[-2] >= self.first
        if generated[-1] >= self.first:
            if opened:
                found[self.first :] = _NEVER
            else:
                found[: self.end] = _NEVER
        times = [token for token in generated if token >= self.first]
        if times:
            again = generated[-1] >= self.first and not opened  # a pair may have equal times
            found[self.first : times[-1] + (not again)] = _NEVER
        if _log_sum(found[self.first :]) > found[: self.first].max():
            found[: self.first] = _NEVER
        return found


def _log_sum(logits: np.ndarray) -> float:
    """Return the logarithm of the sum of exponentials."""
    largest = logits.max(initial=_NEVER)
    if largest == _NEVER:
        return float(_NEVER)
    return float(largest + np.log(np.exp(logits - largest).sum()))


@dataclass(frozen=True)
class TimedTokens:
    """Tokens of a window, including timestamps, from a start to an end time, in timestamps."""

    start: int
    end: int
    tokens: tuple[int, ...]


def split(tokens: Sequence[int], first: int, length: int) -> tuple[list[TimedTokens], int]:
    """Return the segments of a window's tokens, and the end of the last segment, in timestamps.

    `length` is the window's. The tokens after the last pair of timestamps are dropped: the next
    window begins there; without a pair, the window is a single segment.
    """
    times = [token >= first for token in tokens]
    cuts = [at + 1 for at in range(len(times) - 1) if times[at] and times[at + 1]]
    if not cuts:
        known = [token for token in tokens if token >= first]
        end = known[-1] - first if known and known[-1] != first else length
        return [TimedTokens(0, end, tuple(tokens))], length
    is_whole = times[-2:] == [False, True]  # no speech after the last time
    if is_whole:
        cuts.append(len(tokens))
    spans, begin = [], 0
    for cut in cuts:
        part = tokens[begin:cut]
        spans.append(TimedTokens(part[0] - first, part[-1] - first, tuple(part)))
        begin = cut
    return spans, length if is_whole else tokens[begin - 1] - first
