"""Graphs that sample a token from a program's logits on the GPU, so that little is read back."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.dtypes import DTYPES, DType
from webpte.format.vulkan import BoolValue, IntListValue, IntValue, NullValue, SymIntValue
from webpte.graph.graph import Call, Graph, Tensor, Value
from webpte.ops.core.records import ceil_div
from webpte.ops.sampling.sample import SETTINGS
from webpte.ops.sampling.sample_numpy import WORD_BITS
from webpte.ops.sampling.top_logprobs import words_of
from webpte.runtime.decode.sampling import SamplerSettings
from webpte.shapes import Dims


@dataclass(frozen=True)
class SamplerKind:
    """The kind of sampler: an argmax, or sampling with these steps.

    room          the length of the history, where tokens are penalized
    masked        whether it takes a mask of allowed tokens
    top_logprobs  the number of likeliest tokens it also returns; 0: only the sampled token
    """

    sampled: bool = False
    with_top_k: bool = False
    with_top_p: bool = False
    penalized: bool = False
    room: int = 0
    masked: bool = False
    top_logprobs: int = 0

    @classmethod
    def of(
        cls, settings: SamplerSettings, context: int | None, masked: bool = False
    ) -> SamplerKind | None:
        """Return the kind for these settings; None if it needs a history of unknown length."""
        top_logprobs = settings.top_logprobs
        if settings.is_greedy and not masked:
            return cls(top_logprobs=top_logprobs)
        if settings.penalized and context is None:
            return None
        # The last sampled token needs a place in the history, but none in the cache.
        room = context + 1 if settings.penalized and context is not None else 0
        return cls(True, *settings.flags, room, masked, top_logprobs)

    def graph(self, logits: Tensor) -> Graph:
        """Build the graph: its outputs are the token and, if requested, log-probabilities."""
        if self.sampled:
            graph = sample_graph(logits.dtype, logits.dims, self)
        else:
            graph = argmax_graph(logits.dtype, logits.dims)
        return with_top_logprobs(graph, self.top_logprobs) if self.top_logprobs else graph

    @staticmethod
    def history_dims(room: int) -> Dims:
        """Return the dims of a history: a cache [batch, positions, heads, size] of tokens."""
        return (1, room, 1, 1)


ARGMAX = SamplerKind()


def argmax_graph(dtype: DType, dims: Dims) -> Graph:
    """Build one call of argmax over the last dim, for inputs of up to these dims."""
    values = (
        Tensor(0, dtype, dims, None, None),
        IntValue(-1),
        BoolValue(False),
        Tensor(3, DTYPES["int32"], dims[:-1], None, None),
    )
    return Graph(values, (Call(0, "aten.argmax.default", (0, 1, 2, 3)),), (0,), (3,))


def sample_graph(dtype: DType, dims: Dims, kind: SamplerKind) -> Graph:
    """Build one call of webpte.sample.default, for logits of up to these dims, [1, V] or [1, S, V].

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


def with_top_logprobs(graph: Graph, count: int) -> Graph:
    """Add a call of webpte.top_logprobs.default, which describes the logits and the token."""
    (token,), at = graph.outputs, len(graph.values)
    words = Tensor(at + 1, DTYPES["int32"], (1, words_of(count)), None, None)
    call = Call(len(graph.calls), "webpte.top_logprobs.default", (0, token, at, words.id))
    values, calls = (*graph.values, IntValue(count), words), (*graph.calls, call)
    return Graph(values, calls, graph.inputs, (token, words.id))
