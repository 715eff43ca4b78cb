"""Graphs of one op that go on from a program's logits on the GPU: only a token is read back."""

from __future__ import annotations

from webpte.dtypes import DTYPES, DType
from webpte.format.vulkan import BoolValue, IntValue, NullValue, SymIntValue
from webpte.graph import Call, Graph, Tensor, Value
from webpte.ops.sample import SETTINGS
from webpte.shapes import Dims


def argmax_graph(dtype: DType, dims: Dims) -> Graph:
    """One call of argmax over the last dim, for inputs of up to these dims."""
    values = (
        Tensor(0, dtype, dims, None, None),
        IntValue(-1),
        BoolValue(False),
        Tensor(3, DTYPES["int32"], dims[:-1], None, None),
    )
    return Graph(values, (Call(0, "aten.argmax.default", (0, 1, 2, 3)),), (0,), (3,))


def sample_graph(
    dtype: DType,
    dims: Dims,
    *,
    context: int = 0,
    with_top_k: bool = False,
    with_top_p: bool = False,
    penalized: bool = False,
) -> Graph:
    """One call of webpte.sample.default, for logits of up to these dims, [1, V] or [1, S, V].

    Inputs: the logits; the position, an int; settings, float32 [8]; the seed, int32 [2]; and where
    it is `penalized`, the history, int32 [context]. Output: the token, int32 [1, 1].
    """
    words = DTYPES["int32"]
    history = Tensor(4, words, (context,), None, None) if penalized else NullValue()
    values: tuple[Value, ...] = (
        Tensor(0, dtype, dims, None, None),
        SymIntValue(0),
        Tensor(2, DTYPES["float32"], (SETTINGS,), None, None),
        Tensor(3, words, (2,), None, None),
        history,
        BoolValue(with_top_k),
        BoolValue(with_top_p),
        BoolValue(penalized),
        Tensor(8, words, (1, 1), None, None),
    )
    call = Call(0, "webpte.sample.default", (0, 4, 1, 2, 3, 5, 6, 7, 8))
    return Graph(values, (call,), (0, 1, 2, 3, *([4] if penalized else [])), (8,))
