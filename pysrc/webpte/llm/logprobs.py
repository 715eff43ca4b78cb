"""How probable a model found what it said, and what else it might have said.

Of the model's own distribution: softmax of the logits, before temperature, filters, penalties and
constraints. So numbers can be compared from answer to answer, whatever was asked for, and say what
the model thinks rather than what it was made to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from webpte.errors import InputError
from webpte.ops.sampling.top_logprobs import MOST, TopLogprobs
from webpte.runtime.decode.sampling import SampledToken


@dataclass(frozen=True)
class Candidate:
    """A token that might come, and the natural logarithm of its probability."""

    token: int
    logprob: float


@dataclass(frozen=True)
class TokenLogprob:
    """A token that came; `top` are the likeliest there, from the likeliest down."""

    token: int
    logprob: float
    top: tuple[Candidate, ...]

    @classmethod
    def of(cls, chosen: SampledToken, top: int) -> TokenLogprob:
        assert chosen.words is not None
        told = TopLogprobs.of(chosen.words)
        likeliest = zip(told.tokens[:top], told.logprobs, strict=False)
        return cls(chosen.token, told.logprob, tuple(Candidate(*one) for one in likeliest))


def candidates_for(logprobs: bool, top: int) -> int:
    """How many candidates the GPU is to find: the likeliest one is needed in any case."""
    if not 0 <= top <= MOST:
        raise InputError(f"top must be from 0 to {MOST}, not {top}")
    if top and not logprobs:
        raise InputError(f"top={top} says how many candidates logprobs=True is to list: give both")
    return max(top, 1) if logprobs else 0
