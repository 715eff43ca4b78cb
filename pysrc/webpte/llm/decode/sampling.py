"""Sampler settings: checked as a caller gives them, and converted for the sampling operator.

ops/sampling/sample.py defines the settings. `SamplerSettings.choose` is its reference, so a program
whose logits come to the host generates the same tokens as a program that samples on the GPU.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from webpte.engine.files.json_reader import shown
from webpte.engine.ops.sampling.sample import SETTINGS
from webpte.engine.ops.sampling.sample_numpy import Settings, choose_token
from webpte.engine.ops.sampling.top_logprobs import MOST as MOST_LOGPROBS
from webpte.engine.ops.sampling.top_logprobs import top_logprobs_words
from webpte.errors import InputError

Array = np.ndarray

SEED_BITS = 64
# Settings are float32: values that would become 0 or infinite are clamped to these.
LEAST, MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Sampling:
    """Sampling settings; temperature 0 takes the largest logit, None turns a setting off."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_number(field.name, getattr(self, field.name), field.default is None)
        if not self.temperature >= 0:
            raise InputError(f"temperature must be 0 or more, not {self.temperature}")
        if self.top_k is not None and not self.top_k >= 1:
            raise InputError(f"top_k must be 1 or more, not {self.top_k}; None keeps all tokens")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise InputError(f"min_p must be from 0 to 1, not {self.min_p}")
        penalty = self.repetition_penalty
        if penalty is not None and not penalty > 0:
            raise InputError(
                f"repetition_penalty must be above 0, not {penalty}; above 1 makes tokens rarer "
                "that are in the context already, 1 changes nothing"
            )


def _check_number(name: str, value: object, may_be_absent: bool) -> None:
    """Raise InputError for an option that is not a number, or too large for a float."""
    if value is None and may_be_absent:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} must be a number, not {shown(value)}")
    if name == "top_k" and _is_integer(value):
        return  # an int of any size: it is compared with the vocabulary
    try:
        is_finite = math.isfinite(value)
    except OverflowError:
        raise InputError(f"{name} is too large: no float holds it") from None
    if not is_finite:
        raise InputError(f"{name} must be a finite number, not {value}")


def check_stop(stop: object) -> frozenset[int]:
    """Return the tokens that end an answer; raise InputError if they are not tokens."""
    given = list(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else [None]
    tokens = [int(token) for token in given if _is_integer(token)]
    if len(tokens) < len(given):
        raise InputError(f"stop must be a list of tokens (integers), not {shown(stop)}")
    return frozenset(tokens)


def check_most(most: object, name: str = "max_new_tokens") -> int:
    """Return a limit; raise InputError if the limit is not an integer."""
    if not _is_integer(most):
        raise InputError(f"{name} must be an integer, not {shown(most)}")
    return int(most)


def _is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def seed_words(seed: int | None) -> Array:
    """Return a seed in the operator's form, int32 [2]; None is a new seed each time."""
    if seed is None:
        seed = int.from_bytes(os.urandom(SEED_BITS // 8), "little")
    if not _is_integer(seed) or not 0 <= seed < 1 << SEED_BITS:
        raise InputError(
            f"a seed must be an integer from 0 to 2^{SEED_BITS} - 1, not {shown(seed)}"
        )
    seed = int(seed)
    return np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32).view(np.int32)


LogitsRule = Callable[[Sequence[int], Array], Array]


@dataclass(frozen=True, eq=False)
class SampledToken:
    """A token; `words` are its log-probabilities, packed as in top_logprobs.py, if requested."""

    token: int
    words: Array | None = None


@dataclass(frozen=True, eq=False)
class SamplerSettings:
    """Sampling settings, seed, and the number of top log-probabilities to return (0: none).

    `rule` changes the logits (vocabulary,) after a history, on the host, before a token is chosen.
    """

    sampling: Sampling
    seed: Array  # int32 [2]
    top_logprobs: int = 0
    rule: LogitsRule | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.top_logprobs <= MOST_LOGPROBS:
            raise InputError(f"top_logprobs must be 0 to {MOST_LOGPROBS}, not {self.top_logprobs}")

    @classmethod
    def of(cls, sampling: Sampling, seed: int | None, top_logprobs: int = 0) -> SamplerSettings:
        """Return settings with a seed as an int; None is a new seed."""
        return cls(sampling, seed_words(seed), top_logprobs)

    @property
    def penalized(self) -> bool:
        """Whether tokens that are in the context already become rarer, or more frequent."""
        return self.sampling.repetition_penalty not in (None, 1)

    @property
    def is_greedy(self) -> bool:
        """Whether an argmax of the logits is enough."""
        return self.sampling.temperature == 0 and not self.penalized

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """The operator's flags with_top_k, with_top_p and penalized."""
        top_k, top_p = self.sampling.top_k, self.sampling.top_p
        chance = self.sampling.temperature > 0
        with_top_p = chance and top_p is not None and top_p < 1
        return chance and top_k is not None, with_top_p, self.penalized

    @cached_property
    def values(self) -> Array:
        """The operator's settings tensor, float32 [8]."""
        given = self.sampling
        penalty = 1.0 if given.repetition_penalty is None else given.repetition_penalty
        values = [
            0.0 if given.temperature == 0 else min(max(given.temperature, LEAST), MOST),
            min(given.top_k or 0, MOST),
            1.0 if given.top_p is None else max(given.top_p, LEAST),
            given.min_p or 0.0,
            min(max(penalty, LEAST), MOST),
        ]
        return np.array(values + [0.0] * (SETTINGS - len(values)), np.float32)

    def choose(
        self,
        logits: Array,
        position: int,
        history: Sequence[int] | Array = (),
        allowed: Array | None = None,
    ) -> int:
        """Sample a token from logits (vocabulary,), after a history of `position` tokens.

        `allowed` is made by `mask_of`.
        """
        settings = Settings.of(self.values, *self.flags)
        return choose_token(logits, settings, self.seed, position, history, allowed)

    def on_host(
        self, logits: Array, history: Sequence[int], allowed: Array | None = None
    ) -> SampledToken:
        """Sample the token after the history from the last row of the logits."""
        row = logits.reshape(-1, logits.shape[-1])[-1]
        if self.rule is not None:
            row = np.asarray(self.rule(history, row), row.dtype)
        if self.is_greedy and allowed is None:
            token = int(np.argmax(row))
        else:
            token = self.choose(row, len(history), history, allowed)
        if not self.top_logprobs:
            return SampledToken(token)
        return SampledToken(token, top_logprobs_words(row, token, self.top_logprobs))


GREEDY = Sampling()
