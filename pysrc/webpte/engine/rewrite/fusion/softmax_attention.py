"""The rule for attention written as single ops; see ops/attention/fused_softmax_attention.py."""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.format.vulkan import BoolValue, DoubleValue, IntListValue, IntValue
from webpte.engine.graph.graph import Call, Tensor
from webpte.engine.ops.attention.fused_softmax_attention import (
    ADD,
    ANY,
    BMM,
    DIV,
    EQUAL,
    EXPAND,
    FULL_LIKE,
    MUL,
    NOT,
    PERMUTES,
    SOFTMAX,
    SOFTMAX_ATTENTION,
    SPLIT,
    WHERE,
)
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.linear_q4 import is_one
from webpte.engine.shapes import numel


@rule(40)
def softmax_attention(calls: Calls, call: Call) -> Match | None:
    """Match bmm, scale, mask, softmax, bmm, with the views and permutations, and the split."""
    if call.name != BMM:
        return None
    given, value = call.args[:2]
    weights = _weights(calls, given)
    scores = None if weights is None else _scores(calls, weights)
    if weights is None or scores is None:
        return None
    gemm = scores[0]
    ways = [_source(calls, i, scaled=True) for i in gemm.args[:2]]
    ways.append(_source(calls, value))
    split = _split(calls, [begin for begin, _ in ways])
    query, key, values = (way for _, way in ways)
    end = _end(calls, call)
    parts = (*split, *query, *key, *scores, *weights.parts, *values, call, *end)
    return Match(SOFTMAX_ATTENTION, parts, (parts[-1].args[-1],))


@dataclass(frozen=True)
class _Weights:
    """A softmax over the last dim, and the calls until its rows are multiplied with values.

    The calls `hiding` set rows with only -inf scores to zero, as PyTorch's attention with a mask
    does: `all(scores == -inf)`, written with `any`, and a `where`.
    """

    softmax: Call
    hiding: tuple[Call, ...] = ()
    after: tuple[Call, ...] = ()

    @property
    def parts(self) -> tuple[Call, ...]:
        """The calls in an order in which they can run."""
        return (self.softmax, *self.hiding, *self.after)

    @property
    def score_readers(self) -> int:
        return 2 if self.hiding else 1


def _weights(calls: Calls, value_id: int) -> _Weights | None:
    """Return the softmax over the last dim that computes a value, and the calls after it."""
    call, after = _alone(calls, value_id), list[Call]()
    while call is not None and _keeps_order(calls, call):
        after.insert(0, call)
        call = _alone(calls, call.args[0])
    found = _hidden_rows(calls, call) if call is not None and call.name == WHERE else None
    softmax = call if found is None else found.softmax
    if softmax is None or softmax.name != SOFTMAX:
        return None
    if not _is_last(calls, softmax, softmax.args[1]):
        return None
    return _Weights(softmax, () if found is None else found.hiding, tuple(after))


def _hidden_rows(calls: Calls, where: Call) -> _Weights | None:
    """Return `where(not any(not (scores == -inf)), 0, softmax(scores))` as weights."""
    condition, zeros, given = where.args[:3]
    softmax, filled = calls.writer(given), _alone(calls, zeros)
    chain, value_id = list[Call](), condition
    for name in (NOT, ANY, NOT, EQUAL):
        call = _alone(calls, value_id)
        if call is None or call.name != name:
            return None
        chain.insert(0, call)
        value_id = call.args[0]
    equal, _, some, _ = chain
    if softmax is None or filled is None or filled.name != FULL_LIKE:
        return None
    both = len(calls.readers(given)) == 2 and given not in calls.graph.outputs
    same = softmax.args[0] == value_id and filled.args[0] == given and both
    types = {calls.graph.tensor(i).dtype for i in (given, zeros, where.args[-1])}
    zero = _number(calls, filled.args[1]) == 0
    lowest = _number(calls, equal.args[1]) == -math.inf
    kept = calls.graph.value(some.args[2])
    rows = _is_last(calls, some, some.args[1]) and isinstance(kept, BoolValue) and kept.value
    if not (same and zero and lowest and rows) or len(types) > 1:
        return None
    return _Weights(softmax, (*chain, filled, where))


def _number(calls: Calls, value_id: int) -> float | None:
    value = calls.graph.value(value_id)
    return float(value.value) if isinstance(value, IntValue | DoubleValue) else None


def _is_last(calls: Calls, call: Call, dim_id: int) -> bool:
    """Return whether a call reduces its input over the last dim alone."""
    dim = calls.graph.value(dim_id)
    rank = len(calls.graph.tensor(call.args[0]).dims)
    if isinstance(dim, IntListValue):
        return len(dim.items) == 1 and dim.items[0] in (-1, rank - 1)
    return isinstance(dim, IntValue) and dim.value in (-1, rank - 1)


def _scores(calls: Calls, weights: _Weights) -> list[Call] | None:
    """Return the GEMM that computes the scores, and the scales and the mask after it."""
    calls_after, masked, scaled = list[Call](), False, False
    value_id = weights.softmax.args[0]
    if len(calls.readers(value_id)) != weights.score_readers or value_id in calls.graph.outputs:
        return None
    call = calls.writer(value_id)
    while call is not None and call.name != BMM:
        source = call.args[0]
        if call.name == ADD and not (masked or scaled) and is_one(calls, call, "alpha"):
            masked = True
            if call.args[0] == call.args[1]:
                return None
            if not _leads_to_gemm(calls, source):
                source = call.args[1]
            types = {calls.graph.tensor(i).dtype for i in (*call.args[:2], call.args[-1])}
            if len(types) > 1 or not _is_float_like(calls, call.args[-1], source):
                return None
        elif (scale := _scaled(calls, call)) is not None:
            source, scaled = scale, True
        elif not _keeps_order(calls, call):
            return None
        calls_after.insert(0, call)
        call = _alone(calls, source)
    return None if call is None else [call, *calls_after]


def _leads_to_gemm(calls: Calls, value_id: int) -> bool:
    call = _alone(calls, value_id)
    while call is not None and call.name != BMM:
        scale = _scaled(calls, call)
        if scale is None and not _keeps_order(calls, call):
            return False
        call = _alone(calls, call.args[0] if scale is None else scale)
    return call is not None


def _source(calls: Calls, value_id: int, scaled: bool = False) -> tuple[int, list[Call]]:
    """Return the source of a value, and the views, permutations and scales on the way."""
    way = list[Call]()
    while (call := _alone(calls, value_id)) is not None:
        scale = _scaled(calls, call) if scaled else None
        if scale is None and not _keeps_order(calls, call) and call.name not in PERMUTES:
            break
        way.insert(0, call)
        value_id = call.args[0] if scale is None else scale
    return value_id, way


def _split(calls: Calls, value_ids: list[int]) -> list[Call]:
    """Return the split whose outputs are exactly these values, or None."""
    split = calls.writer(value_ids[0])
    if split is None or split.name != SPLIT or not all(_alone(calls, i) for i in value_ids):
        return []
    given = calls.graph.value_list(split.args[-1])
    return [split] if sorted(given) == sorted(value_ids) else []


def _end(calls: Calls, call: Call) -> list[Call]:
    """Return the views and permutations after the last GEMM, up to the last permutation."""
    way, reader = list[Call](), calls.only_reader(call.args[-1])
    while reader is not None and (calls.is_view(reader) or reader.name in PERMUTES):
        way.append(reader)
        reader = calls.only_reader(reader.args[-1])
    while way and way[-1].name not in PERMUTES:
        way.pop()
    return way


def _alone(calls: Calls, value_id: int) -> Call | None:
    """Return the call that writes a value, if the value has a single reader."""
    return calls.writer(value_id) if calls.only_reader(value_id) is not None else None


def _keeps_order(calls: Calls, call: Call) -> bool:
    if calls.is_view(call):
        return True
    if call.name != EXPAND:
        return False
    # Whether an expansion changes nothing is known at the live sizes: the lowering checks that.
    source, out = calls.graph.tensor(call.args[0]), calls.graph.tensor(call.args[-1])
    return source.dims == out.dims


def _scaled(calls: Calls, call: Call) -> int | None:
    """Return the tensor that a call multiplies or divides by a single number, or None."""
    if call.name not in (MUL, DIV):
        return None
    for source, scale in (call.args[:2], call.args[1::-1])[: 2 if call.name == MUL else 1]:
        one = calls.graph.value(scale)
        out = calls.graph.tensor(call.args[-1])
        single = isinstance(one, Tensor) and numel(one.dims) == 1 and one.dtype == out.dtype
        if single and _is_float_like(calls, call.args[-1], source):
            return source
    return None


def _is_float_like(calls: Calls, out_id: int, source_id: int) -> bool:
    out, source = calls.graph.tensor(out_id), calls.graph.tensor(source_id)
    return source.dims == out.dims and source.dtype == out.dtype and out.dtype.is_float
