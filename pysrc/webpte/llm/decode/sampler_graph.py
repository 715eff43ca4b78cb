"""Graphs that sample a token from a program's logits on the GPU, so that little is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.format.vulkan import BoolValue, IntListValue, IntValue, NullValue, SymIntValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.ops.core.records import ceil_div
from webpte.engine.ops.sampling.sample import SETTINGS
from webpte.engine.ops.sampling.sample_numpy import WORD_BITS
from webpte.engine.ops.sampling.top_logprobs import words_of
from webpte.engine.shapes import Dims
from webpte.llm.decode.sampling import SampledToken, SamplerSettings


@dataclass(frozen=True)
class SamplerKind:
    """The kind of sampler: an argmax, or sampling with these steps.

    room          the length of the history, where tokens are penalized
    masked        whether the sampler takes a mask of allowed tokens
    top_logprobs  the number of likeliest tokens to return, too; 0: only the sampled token
    rows          the number of rows of logits to sample from, a token each; 0: the last row only
    """

    sampled: bool = False
    with_top_k: bool = False
    with_top_p: bool = False
    penalized: bool = False
    room: int = 0
    masked: bool = False
    top_logprobs: int = 0
    rows: int = 0

    @classmethod
    def of(
        cls, settings: SamplerSettings, context: int | None, masked: bool = False, rows: int = 0
    ) -> SamplerKind | None:
        """Return the kind for these settings, or None if they need the host.

        A rule needs the host, and so does a history of unknown length.
        """
        if settings.rule is not None:
            return None
        top_logprobs = settings.top_logprobs
        if settings.is_greedy and not masked:
            return cls(top_logprobs=top_logprobs, rows=rows)
        if settings.penalized and context is None:
            return None
        # The last sampled token needs a place in the history, but no place in the cache.
        room = context + 1 if settings.penalized and context is not None else 0
        return cls(True, *settings.flags, room, masked, top_logprobs, rows)

    def graph(self, logits: Tensor) -> Graph:
        """Build the graph: its outputs are the token and, if requested, log-probabilities.

        With `rows` the outputs are tensors of a single token each, or a tensor of all tokens,
        followed by the log-probabilities.
        """
        if self.rows:
            return rows_graph(logits.dtype, logits.dims, self)
        if self.sampled:
            graph = sample_graph(logits.dtype, logits.dims, self)
        else:
            graph = argmax_graph(logits.dtype, logits.dims)
        return with_top_logprobs(graph, self.top_logprobs) if self.top_logprobs else graph

    def inputs(self, settings: SamplerSettings, position: int) -> list[np.ndarray | int]:
        """Return the graph's inputs between the logits and the allowed tokens.

        `position` is the number of tokens before the sampled token.
        """
        return [position, settings.values, settings.seed] if self.sampled else []

    @staticmethod
    def history_dims(room: int) -> Dims:
        """Return the dims of a history: a cache [batch, positions, heads, size] of tokens."""
        return (1, room, 1, 1)


ARGMAX = SamplerKind()


def argmax_graph(dtype: DType, dims: Dims) -> Graph:
    """Build a call of argmax over the last dim, for inputs of up to these dims."""
    values = (
        Tensor(0, dtype, dims, None, None),
        IntValue(-1),
        BoolValue(False),
        Tensor(3, DTYPES["int32"], dims[:-1], None, None),
    )
    return Graph(values, (Call(0, "aten.argmax.default", (0, 1, 2, 3)),), (0,), (3,))


def sample_graph(dtype: DType, dims: Dims, kind: SamplerKind) -> Graph:
    """Build a call of webpte.sample.default, for logits of up to these dims, [1, V] or [1, S, V].

    Inputs: the logits; the position, an int; settings, float32 [8]; the seed, int32 [2]; if masked,
    the allowed tokens, a bit for each in int32; if penalized, the history, to which the token is
    added. Output: the token, int32 [1, 1].
    """
    words = DTYPES["int32"]
    dims_of_history = SamplerKind.history_dims(kind.room)
    history = Tensor(4, words, dims_of_history, None, None) if kind.penalized else NullValue()
    one = (1, 1, 1, 1)
    values: list[Value] = [
        Tensor(0, dtype, dims, None, None),
        SymIntValue(0),
        Tensor(2, DTYPES["float32"], (SETTINGS,), None, None),
        Tensor(3, words, (2,), None, None),
        history,
        BoolValue(kind.with_top_k),
        BoolValue(kind.with_top_p),
        BoolValue(kind.penalized),
        Tensor(8, words, (1, 1), None, None),
        Tensor(9, words, (ceil_div(dims[-1], WORD_BITS),), None, None)
        if kind.masked
        else NullValue(),
    ]
    calls = [Call(0, "webpte.sample.default", (0, 4, 1, 2, 3, 5, 6, 7, 9, 8))]
    if kind.penalized:
        values += [
            IntListValue(one),
            Tensor(11, words, one, None, None),
            Tensor(12, words, one, None, None),
        ]
        calls.append(Call(1, "aten.view_copy.default", (8, 10, 11)))
        calls.append(Call(2, "update_cache.default", (11, 4, 1, 12)))
    inputs = (0, 1, 2, 3, *([9] if kind.masked else []), *([4] if kind.penalized else []))
    return Graph(tuple(values), tuple(calls), inputs, (8,))


def rows_graph(dtype: DType, dims: Dims, kind: SamplerKind) -> Graph:
    """Build calls that sample a token from each row of the logits.

    Inputs are as for `sample_graph`, with the position of the first row's token, and a history of
    all tokens: each row's token is penalized by the tokens before it.
    """
    graph = sample_graph(dtype, dims, kind) if kind.sampled else argmax_graph(dtype, dims)
    values, calls = list(graph.values), list[Call]()
    tokens: list[int] = []

    def add(value: Value) -> int:
        values.append(value)
        return len(values) - 1

    def number(value: int) -> int:
        return add(IntValue(value))

    def output(dims: Dims) -> int:
        return add(Tensor(len(values), DTYPES["int32"], dims, None, None))

    def call(name: str, *args: int) -> int:
        calls.append(Call(len(calls), name, args))
        return args[-1]

    if kind.sampled:
        given = graph.calls[0].args
        for row in range(kind.rows):
            place = call("add", given[2], number(row), add(SymIntValue(0)))
            args = (*given[:2], place, *given[3:-1], number(row))
            tokens.append(call("webpte.sample.default", *args, output((1, 1))))
    else:
        (argmax,) = graph.calls
        tokens.append(call(argmax.name, *argmax.args))
    words: list[int] = []
    for row in range(kind.rows if kind.top_logprobs else 0):
        if kind.sampled:
            token = tokens[row]
        else:
            part = (number(-1), number(row), number(row + 1), number(1))
            one = output((*dims[:-2], 1))
            token = call("aten.slice_copy.Tensor", tokens[0], *part, one)
        rest = (number(kind.top_logprobs), number(row), output((1, words_of(kind.top_logprobs))))
        words.append(call("webpte.top_logprobs.default", 0, token, *rest))
    return Graph(tuple(values), tuple(calls), graph.inputs, (*tokens, *words))


def with_top_logprobs(graph: Graph, count: int) -> Graph:
    """Add a call of webpte.top_logprobs.default, which describes the logits and the token."""
    (token,), at = graph.outputs, len(graph.values)
    words = Tensor(at + 1, DTYPES["int32"], (1, words_of(count)), None, None)
    call = Call(len(graph.calls), "webpte.top_logprobs.default", (0, token, at, words.id))
    values, calls = (*graph.values, IntValue(count), words), (*graph.calls, call)
    return Graph(values, calls, graph.inputs, (token, words.id))


def tokens_of_rows(found: Sequence[np.ndarray], kind: SamplerKind) -> list[SampledToken]:
    """Return the tokens that a sampler of several rows has found."""
    split = len(found) - (kind.rows if kind.top_logprobs else 0)
    tokens = np.concatenate([part.reshape(-1) for part in found[:split]]).tolist()
    words: list[np.ndarray | None] = [part.reshape(-1) for part in found[split:]]
    words = words or [None] * kind.rows
    return [SampledToken(token, more) for token, more in zip(tokens, words, strict=True)]
