"""Rules that change the logits of an answer on the host: biases of tokens, and penalties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.errors import InputError
from webpte.llm.decode.sampling import LogitsRule
from webpte.llm.generation import Generation


@dataclass(frozen=True)
class TokenBiases:
    """Numbers that are added to the logits of tokens.

    biases     by token
    frequency  subtracted for each time that the answer has a token already
    presence   subtracted once if the answer has a token already
    prompt     the number of tokens before the answer
    """

    biases: Mapping[int, float]
    frequency: float
    presence: float
    prompt: int

    def __call__(self, history: Sequence[int], logits: np.ndarray) -> np.ndarray:
        changed = np.array(logits, np.float32)
        for token, bias in self.biases.items():
            if not 0 <= token < len(changed):
                raise InputError(f"there is no token {token}; tokens are 0 to {len(changed) - 1}")
            changed[token] += bias
        if self.frequency or self.presence:
            for token, count in Counter(history[self.prompt :]).items():
                changed[token] -= count * self.frequency + self.presence
        return changed


def change_logits(generation: Generation, rule: LogitsRule) -> None:
    """Change the logits of an answer that has not begun; its tokens are then chosen one by one."""
    reason = "a rule changes the logits on the host"
    generation._plain.use_rule(rule)
    generation._plain.step_by_step = reason
    if generation._speculation is not None:
        generation._speculation.turn_off(reason)
    generation._update_step_stats()
