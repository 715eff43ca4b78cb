"""Sampler graphs of one op, as a delegate on a GPU runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import make_delegate, wait
from webpte.engine.dtypes import DTYPES
from webpte.engine.graph.graph import Tensor
from webpte.engine.run.request import RunRequest
from webpte.errors import WebpteError
from webpte.llm.decode.sampler_graph import (
    SamplerKind,
    argmax_graph,
    sample_graph,
    tokens_of_rows,
)
from webpte.llm.decode.sampling import SamplerSettings, Sampling

ROWS = np.random.default_rng(0).normal(0, 2, (1, 4, 50)).astype(np.float32)


def as_cache(history: Sequence[int] | np.ndarray, room: int) -> np.ndarray:
    padded = np.zeros(room, np.int32)
    padded[: len(history)] = history
    return padded.reshape(SamplerKind.history_dims(room))


def test_argmax() -> None:
    async def run() -> Any:
        delegate, _ = await make_delegate(argmax_graph(DTYPES["float32"], (1, 4, 50)))
        return await delegate.run(RunRequest([ROWS]))

    (indices,) = wait(run())
    assert indices.tolist() == ROWS.argmax(axis=-1).tolist()


@pytest.mark.parametrize("penalty", [None, 1.5])
@pytest.mark.parametrize("top_k", [None, 3])
@pytest.mark.parametrize("top_p", [None, 0.8])
def test_sample(penalty: float | None, top_k: int | None, top_p: float | None) -> None:
    """Sample from the last row, whatever their number, as the host does."""
    asked = SamplerSettings.of(Sampling(1.2, top_k, top_p, 0.01, penalty), 99)
    history = np.arange(12, dtype=np.int32)
    kind = SamplerKind(True, *asked.flags, 13)

    async def run() -> None:
        graph = sample_graph(DTYPES["float32"], (1, 4, 50), kind)
        delegate, _ = await make_delegate(graph)
        for count, position in ((4, 4), (1, 5), (2, 7), (1, 12)):
            inputs: list[Any] = [ROWS[:, :count], position, asked.values, asked.seed]
            if kind.penalized:
                inputs.append(as_cache(history, 13))
            (token,) = await delegate.run(RunRequest(inputs))
            row = ROWS[0, count - 1]
            want = asked.choose(row, position, history[:position])
            assert (token.dtype, token.tolist()) == (np.int32, [[want]])

    wait(run())


@pytest.mark.parametrize("dims", [(1, 4, 50), (4, 50)])
@pytest.mark.parametrize("top", [0, 3])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("penalty", [None, 1.5])
def test_a_token_for_each_row(
    dims: tuple[int, ...], top: int, temperature: float, penalty: float | None
) -> None:
    """Each row has the position and the history of its own token."""
    asked = SamplerSettings.of(Sampling(temperature, repetition_penalty=penalty), 99, top)
    history = np.arange(12, dtype=np.int32)
    kind = SamplerKind.of(asked, 12, rows=4)
    assert kind is not None

    async def run() -> None:
        logits = Tensor(0, DTYPES["float32"], dims, None, None)
        delegate, _ = await make_delegate(kind.graph(logits))
        for first in (5, 9):
            inputs: list[Any] = [ROWS.reshape(dims)]
            if kind.sampled:
                inputs += [first, asked.values, asked.seed]
            if kind.penalized:
                inputs.append(as_cache(history, kind.room))
            found = await delegate.run(RunRequest(inputs))
            sampled = tokens_of_rows(found, kind)
            wanted = [asked.on_host(ROWS[0, n], history[: first + n].tolist()) for n in range(4)]
            assert [one.token for one in sampled] == [one.token for one in wanted]
            for one, other in zip(sampled, wanted, strict=True):
                assert (one.words is None) == (other.words is None) == (not top)
                if one.words is not None and other.words is not None:
                    assert one.words.tolist() == other.words.tolist()

    wait(run())


def test_a_history_that_is_full() -> None:
    async def run() -> None:
        kind = SamplerKind(True, penalized=True, room=3)
        graph = sample_graph(DTYPES["float32"], (1, 50), kind)
        delegate, _ = await make_delegate(graph)
        asked = SamplerSettings.of(Sampling(1.0, repetition_penalty=2.0), 1)
        inputs: list[Any] = [ROWS[:, 0], 4, asked.values, asked.seed, as_cache([], 3)]
        with pytest.raises(WebpteError, match="a history of 3 tokens: 4 is not in 0 to 3"):
            await delegate.run(RunRequest(inputs))

    wait(run())
