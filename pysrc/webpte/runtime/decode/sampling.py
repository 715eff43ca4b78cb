"""How the next token is chosen: what a caller asks for, checked, and as an operator takes it.

ops/sampling/sample.py says what the settings mean. `Sampling.choose` is its reference, so a program
whose logits come to the host goes on with the same tokens as one that chooses on the GPU.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from webpte.errors import InputError
from webpte.ops.sampling.sample import SETTINGS
from webpte.ops.sampling.sample_numpy import Settings, choose_token
from webpte.ops.sampling.top_logprobs import MOST as MOST_CANDIDATES
from webpte.ops.sampling.top_logprobs import top_logprobs_words

Array = np.ndarray

SEED_BITS = 64
# Settings are float32: what would be 0 or infinite there is as small or large as this.
LEAST, MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Sampling:
    """Temperature 0 takes the largest logit; a setting that is None is off."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise InputError(f"temperature must be 0 or more, not {self.temperature}")
        if self.top_k is not None and not self.top_k >= 1:
            raise InputError(f"top_k must be 1 or more, not {self.top_k}; None keeps all tokens")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise InputError(f"min_p must be from 0 to 1, not {self.min_p}")
        penalty = self.repetition_penalty
        if penalty is not None and not (penalty > 0 and math.isfinite(penalty)):
            raise InputError(
                f"repetition_penalty must be above 0, not {penalty}; above 1 makes tokens rarer "
                "that were there already, 1 changes nothing"
            )

    @property
    def penalized(self) -> bool:
        return self.repetition_penalty not in (None, 1)

    @property
    def is_greedy(self) -> bool:
        """Whether it takes no more than an argmax of the logits."""
        return self.temperature == 0 and not self.penalized

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """with_top_k, with_top_p and penalized of the operator: the steps that are needed."""
        chance = self.temperature > 0
        with_top_p = chance and self.top_p is not None and self.top_p < 1
        return chance and self.top_k is not None, with_top_p, self.penalized

    @cached_property
    def settings(self) -> Array:
        """The tensor of that name, float32 [8]."""
        penalty = 1.0 if self.repetition_penalty is None else self.repetition_penalty
        values = [
            0.0 if self.temperature == 0 else min(max(self.temperature, LEAST), MOST),
            min(self.top_k or 0, MOST),
            1.0 if self.top_p is None else max(self.top_p, LEAST),
            self.min_p or 0.0,
            min(max(penalty, LEAST), MOST),
        ]
        return np.array(values + [0.0] * (SETTINGS - len(values)), np.float32)

    def choose(
        self,
        logits: Array,
        seed: Array,
        position: int,
        history: Sequence[int] | Array = (),
        allowed: Array | None = None,
    ) -> int:
        """A token from the logits (vocabulary,) that follow `position` tokens, the history.

        `seed` is what `seed_words` gives, `allowed` what `mask_of` does.
        """
        settings = Settings.of(self.settings, *self.flags)
        return choose_token(logits, settings, seed, position, history, allowed)


def seed_words(seed: int | None) -> Array:
    """A seed as the operator takes it, int32 [2]; None is a new one each time."""
    if seed is None:
        seed = int.from_bytes(os.urandom(SEED_BITS // 8), "little")
    if not 0 <= seed < 1 << SEED_BITS:
        raise InputError(f"a seed must be from 0 to 2^{SEED_BITS} - 1, not {seed}")
    return np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32).view(np.int32)


@dataclass(frozen=True, eq=False)
class SampledToken:
    """A token; `words` are those of top_logprobs.py about it, if they were asked for."""

    token: int
    words: Array | None = None


@dataclass(frozen=True, eq=False)
class SamplerSettings:
    """How to choose, the seed of its chance, and how many candidates to tell of (0: nothing)."""

    sampling: Sampling
    seed: Array  # int32 [2]
    candidates: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.candidates <= MOST_CANDIDATES:
            raise InputError(f"there can be 0 to {MOST_CANDIDATES} candidates of a token")

    @classmethod
    def of(cls, sampling: Sampling, seed: int | None, candidates: int = 0) -> SamplerSettings:
        return cls(sampling, seed_words(seed), candidates)

    def on_host(
        self, logits: Array, history: Sequence[int], allowed: Array | None = None
    ) -> SampledToken:
        """The token that follows the history; the last row of the logits tells."""
        row = logits.reshape(-1, logits.shape[-1])[-1]
        if self.sampling.is_greedy and allowed is None:
            token = int(np.argmax(row))
        else:
            token = self.sampling.choose(row, self.seed, len(history), history, allowed)
        if not self.candidates:
            return SampledToken(token)
        return SampledToken(token, top_logprobs_words(row, token, self.candidates))


GREEDY = SamplerSettings(Sampling(), np.zeros(2, np.int32))
