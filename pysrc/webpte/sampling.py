"""How the next token is chosen from logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.errors import InputError


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy, and stays on the GPU."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise InputError(f"temperature must be 0 or more, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k must be 1 or more, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def choose(self, logits: np.ndarray, random: np.random.Generator) -> int:
        """A token from the logits (vocabulary,) of one position."""
        scaled = logits.astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")[: self.top_k]
        weights = np.exp(scaled[order] - scaled[order[0]])
        weights /= weights.sum()
        if self.top_p is not None:
            # The smallest set that reaches top_p: a token counts if those before it do not.
            kept = np.cumsum(weights) - weights < self.top_p
            order, weights = order[kept], weights[kept] / weights[kept].sum()
        return int(random.choice(order, p=weights))
