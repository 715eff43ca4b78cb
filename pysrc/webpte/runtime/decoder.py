"""A language model's method, called for the token that it chooses rather than for its logits.

Such a method takes tokens [1, S] and something that tells the position. Where it is one delegate on
a GPU, the choice is made there, too (`SampledDelegate`), and several steps can go in one
submission; elsewhere the logits come back, and the reference of the same operator chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from webpte.runtime.base.error_location import executing
from webpte.runtime.build import Build
from webpte.runtime.decode.rollback_safety import unsafe_state
from webpte.runtime.decode.sampled_delegate import PendingSteps
from webpte.runtime.decode.sampler_graph import SamplerKind
from webpte.runtime.decode.sampling import SampledToken, SamplerSettings
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.request import Input
from webpte.runtime.method import Method


class Decoder:
    """One method. `calling` starts a call: the build that it runs on, and the method there."""

    def __init__(
        self,
        calling: Callable[[], AbstractContextManager[tuple[Build, Method]]],
        found: Callable[[], Method],
    ) -> None:
        self._calling = calling
        self._found = found

    @property
    def follows_position(self) -> bool:
        """Whether it can go back to an earlier position, and on from there."""
        graph = getattr(self._found().only_delegate, "graph", None)
        return graph is not None and unsafe_state(graph) is None

    async def choose(
        self,
        inputs: Sequence[Any],
        choice: SamplerSettings,
        history: Sequence[int],
        room: int | None,
        allowed: np.ndarray | None = None,
    ) -> SampledToken:
        """Run it, and return the token that follows its last one.

        `history` are the tokens before that, those of the call among them; there will be no more
        than `room`, if that is known. `allowed` are the tokens to choose from, as
        webpte.sample.default takes them. The token is also kept on the GPU, for `ahead`.
        """
        with self._calling() as (build, method):
            body = method.only_delegate
            kind = SamplerKind.of(choice, room, allowed is not None)
            if kind is None or not isinstance(body, GpuDelegate):
                (logits,) = await method.run(method.request(inputs))
                return choice.on_host(logits, history, allowed)
            given = method.take_inputs(inputs)
            with executing(method.info.name):
                headed = build.with_head(body, kind)
                extra = self._extra(choice, kind, len(history))
                if allowed is not None:
                    extra.append(allowed)
                if kind.penalized:
                    extra.append(_padded(history, kind.room))
                tokens, *told = await headed.run(given, extra, keep_token=True)
                return SampledToken(
                    int(tokens.reshape(-1)[-1]), told[0].reshape(-1) if told else None
                )

    async def ahead(
        self,
        others: Sequence[Sequence[Input]],
        choice: SamplerSettings,
        length: int,
        room: int | None,
    ) -> PendingSteps | str:
        """Several runs in one submission, each on the token that the one before has chosen.

        The first one's is that of `choose`. `others` are the other inputs of each run, `length` is
        the number of tokens that precede the first one to be chosen. There may be fewer runs than
        asked for; returns why none was submitted, if none was.
        """
        with self._calling() as (build, method):
            body = method.only_delegate
            kind = SamplerKind.of(choice, room)
            if not isinstance(body, GpuDelegate):
                return "the method is not one delegate on a GPU"
            if kind is None:
                return "a penalty needs the program's `get_max_context_len`"
            with executing(method.info.name):
                extra = [self._extra(choice, kind, length + step) for step in range(len(others))]
                return await build.with_head(body, kind).ahead(others, extra)

    @staticmethod
    def _extra(choice: SamplerSettings, kind: SamplerKind, position: int) -> list[Input]:
        """What the head takes besides logits, allowed tokens and history."""
        if not kind.sampled:
            return []
        return [position, choice.sampling.settings, choice.seed]


def _padded(history: Sequence[int], room: int) -> np.ndarray:
    padded = np.zeros(room, np.int32)
    padded[: len(history)] = history
    return padded.reshape(SamplerKind.history_dims(room))
