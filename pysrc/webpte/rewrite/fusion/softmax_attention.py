"""The rule for attention written as single ops; see ops/attention/fused_softmax_attention.py."""

from __future__ import annotations

from webpte.format.vulkan import IntValue
from webpte.graph.graph import Call, Tensor
from webpte.ops.attention.fused_softmax_attention import (
    ADD,
    BMM,
    DIV,
    EXPAND,
    MUL,
    PERMUTES,
    SOFTMAX,
    SOFTMAX_ATTENTION,
    SPLIT,
)
from webpte.rewrite.fusion.engine import Calls, Match
from webpte.rewrite.fusion.linear_q4 import is_one
from webpte.shapes import numel


def softmax_attention(calls: Calls, call: Call) -> Match | None:
    """Match bmm, scale, mask, softmax, bmm, with the views and permutations, and the split."""
    if call.name != BMM:
        return None
    weights, value = call.args[:2]
    found = _softmax(calls, weights)
    if found is None:
        return None
    softmax, after = found
    scores = _scores(calls, softmax.args[0])
    if scores is None:
        return None
    gemm = scores[0]
    ways = [_source(calls, i, scaled=True) for i in gemm.args[:2]]
    ways.append(_source(calls, value))
    split = _split(calls, [begin for begin, _ in ways])
    query, key, values = (way for _, way in ways)
    end = _end(calls, call)
    parts = (*split, *query, *key, *scores, softmax, *after, *values, call, *end)
    return Match(SOFTMAX_ATTENTION, parts, (parts[-1].args[-1],))


def _softmax(calls: Calls, value_id: int) -> tuple[Call, list[Call]] | None:
    """Return the softmax over the last dim that a value comes from, and the views after it."""
    softmax, after = _alone(calls, value_id), list[Call]()
    while softmax is not None and _keeps_order(calls, softmax):
        after.insert(0, softmax)
        softmax = _alone(calls, softmax.args[0])
    if softmax is None or softmax.name != SOFTMAX:
        return None
    dim = calls.graph.value(softmax.args[1])
    rank = len(calls.graph.tensor(softmax.args[0]).dims)
    last = isinstance(dim, IntValue) and dim.value in (-1, rank - 1)
    return (softmax, after) if last else None


def _scores(calls: Calls, value_id: int) -> list[Call] | None:
    """Return the GEMM that computes the scores, and the scales and the mask after it."""
    calls_after, masked, scaled = list[Call](), False, False
    call = _alone(calls, value_id)
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
    """Return the split that gives exactly these values, if there is one."""
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
    """Return the call that writes a value, if only one call reads it."""
    return calls.writer(value_id) if calls.only_reader(value_id) is not None else None


def _keeps_order(calls: Calls, call: Call) -> bool:
    if calls.is_view(call):
        return True
    if call.name != EXPAND:
        return False
    source, out = calls.graph.tensor(call.args[0]), calls.graph.tensor(call.args[-1])
    return source.dims == out.dims and source.exact and out.exact


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
