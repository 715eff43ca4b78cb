"""Log-probabilities of the tokens that a model generated, and of the likeliest alternatives.

They belong to the model's own distribution: the softmax of the logits, before temperature, filters,
penalties and constraints. So they can be compared between answers with other options.
"""

from __future__ import annotations

from dataclasses import dataclass

from webpte.engine.ops.sampling.top_logprobs import MOST, TopLogprobs
from webpte.errors import InputError
from webpte.llm.decode.sampling import SampledToken


@dataclass(frozen=True)
class Candidate:
    """A token that could have been generated, and the natural logarithm of its probability."""

    token: int
    logprob: float


@dataclass(frozen=True)
class TokenLogprob:
    """A generated token; `top` are the likeliest tokens in its place, from the likeliest down."""

    token: int
    logprob: float
    top: tuple[Candidate, ...]


def logprob_of(sampled: SampledToken, top: int) -> TokenLogprob:
    """Read the log-probabilities that the sampler returned with a token."""
    assert sampled.words is not None
    read = TopLogprobs.of(sampled.words)
    likeliest = zip(read.tokens[:top], read.logprobs, strict=False)
    return TokenLogprob(sampled.token, read.logprob, tuple(Candidate(*one) for one in likeliest))


def sampled_logprobs(logprobs: bool, top: int) -> int:
    """Return the number of log-probabilities that the sampler has to find."""
    if not 0 <= top <= MOST:
        raise InputError(f"top must be from 0 to {MOST}, not {top}")
    if top and not logprobs:
        raise InputError(f"top={top} is for logprobs=True, which lists candidates: give both")
    return max(top, 1) if logprobs else 0
