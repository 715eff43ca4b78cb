"""Rules around GEMMs, mostly quantized; ops/gemm/fused_linear_q4.py lowers their matches."""

from __future__ import annotations

from collections.abc import Sequence

from webpte.engine.format.vulkan import DoubleValue, IntListValue, IntValue
from webpte.engine.graph.graph import Call, Tensor
from webpte.engine.ops.gemm.fused_linear_q4 import (
    CHOOSE_OF,
    GATED_GEMM,
    GATES,
    GEMM_ADD,
    LINEAR_OF,
    NORMED_GEMM,
    PLAIN_LINEARS,
    QUANTIZED_INPUT_LINEARS,
)
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.ops.norm.fused_norm import LAYER_NORM, RMS_NORM
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule

ADD, MUL, SIGMOID = "aten.add.Tensor", "aten.mul.Tensor", "aten.sigmoid.default"
PLAIN_GEMMS = {LINEAR, "aten.mm.default", "aten.addmm.default"}


@rule(70)
def add_after_gemm(calls: Calls, call: Call) -> Match | None:
    """Match a GEMM, views and a sum: the residual becomes the addend of the GEMM."""
    if call.name not in LINEAR_OF and call.name not in PLAIN_GEMMS:
        return None
    addition, views = calls.sole_user(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    before = qparams_before(calls, [call]) if call.name in QUANTIZED_INPUT_LINEARS else ()
    return Match(GEMM_ADD, (*before, call, *views, addition), (addition.args[-1],))


@rule(50)
def gated_gemms(calls: Calls, call: Call) -> Match | None:
    """Match f(gate) * up with two GEMMs of the same x, and x's norm if only they read it."""
    if call.name != MUL:
        return None
    for gated, other in (call.args[:2], call.args[1::-1]):
        activated = _activated(calls, gated)
        up, up_views = calls.producer(other)
        if activated is None or up is None:
            continue
        gate, *rest = activated
        pair = (gate, up)
        if gate is up or not are_of_one_kind(pair):
            continue
        if calls.argument(gate, "x") != calls.argument(up, "x"):
            continue
        before = prologue_before(calls, pair)
        if before is None:
            continue
        # Run call by call, this order keeps few results in memory at once.
        parts = (*before, gate, *rest, up, *up_views, call)
        return Match(GATED_GEMM, parts, (call.args[-1],))
    return None


def are_of_one_kind(linears: Sequence[Call]) -> bool:
    """Return whether a single kernel may take the linear layers: all floats, or quantized alike.

    A layer whose weights are another layer's result is refused, because these would not be in
    memory.
    """
    names = {linear.name for linear in linears}
    kinds = ({LINEAR}, PLAIN_LINEARS - {LINEAR}, QUANTIZED_INPUT_LINEARS)
    given = {linear.args[-1] for linear in linears}
    apart = all(given.isdisjoint(linear.args[:-1]) for linear in linears)
    return apart and any(names <= kind for kind in kinds)


def prologue_before(
    calls: Calls, linears: Sequence[Call], centered: bool = False
) -> tuple[Call, ...] | None:
    """Return the norm and the call that chooses x's scales; None if other calls read the scales.

    The norm is an RMS norm; with `centered` a layer norm is allowed before GEMMs of unrounded x.
    """
    if linears[0].name not in QUANTIZED_INPUT_LINEARS:
        centered = centered and LINEAR not in {linear.name for linear in linears}
        return norm_before(calls, linears[0], set(linears), centered)
    chosen = qparams_before(calls, linears)
    return (*norm_before(calls, linears[0], {*linears, *chosen}), *chosen) if chosen else None


def qparams_before(calls: Calls, linears: Sequence[Call]) -> tuple[Call, ...]:
    """Return the call that chooses scales and zeros for the x of these GEMMs alone."""
    names = ("x_scale", "x_zero", "x")
    asked = {tuple(calls.argument(linear, name) for name in names) for linear in linears}
    if len(asked) > 1:
        return ()
    ((scale, zero, x),) = asked
    choose = calls.writer(scale)
    if choose is None or choose.name not in CHOOSE_OF or calls.argument(choose, "x") != x:
        return ()
    if calls.graph.value_list(choose.args[-1]) != (scale, zero):
        return ()
    outs = {scale, zero}.intersection(calls.graph.outputs)
    alone = all(set(calls.readers(i)) == set(linears) for i in (scale, zero))
    return (choose,) if alone and not outs else ()


@rule(80)
def norm_before_gemm(calls: Calls, call: Call) -> Match | None:
    """Match an rms_norm whose only reader is a GEMM, or the choice of scales for the GEMM's x."""
    if call.name not in PLAIN_LINEARS | QUANTIZED_INPUT_LINEARS:
        return None
    before = prologue_before(calls, [call])
    return Match(NORMED_GEMM, (*before, call), (call.args[-1],)) if before else None


def _activated(calls: Calls, value_id: int) -> list[Call] | None:
    """Return the call that computes an activation's input, and the calls of the activation."""
    last, after = calls.producer(value_id)
    if last is None:
        return None
    if last.name in GATES:
        source, views = calls.producer(last.args[0])
        return None if source is None else [source, *views, last, *after]
    if last.name != MUL:
        return None
    for straight, activated in (last.args[:2], last.args[1::-1]):
        sigmoid, between = calls.producer(activated)
        if sigmoid is not None and sigmoid.name == SIGMOID and sigmoid.args[0] == straight:
            source, views = calls.producer(straight)
            return None if source is None else [source, *views, sigmoid, *between, last, *after]
    return None


def norm_before(
    calls: Calls, linear: Call, readers: set[Call], centered: bool = False
) -> tuple[Call, ...]:
    """Return the norm before some GEMMs and the views between, if nothing else reads it.

    A GEMM that also reads the norm as its weights needs it in memory, and counts as another reader.
    """
    x = calls.argument(linear, "x")
    norm, views = calls.producer(x)
    if norm is None or any(call.args.count(x) > 1 for call in readers):
        return ()
    if norm.name != RMS_NORM and not (centered and is_layer_norm(calls, norm)):
        return ()
    steps = (norm, *views)
    for step, following in zip(steps, (*views, None), strict=True):
        wanted = readers if following is None else {following}
        out = step.args[-1]
        if step.name == LAYER_NORM:
            out, *_ = calls.graph.value_list(out)
        if set(calls.readers(out)) != wanted or out in calls.graph.outputs:
            return ()
    return steps


def is_layer_norm(calls: Calls, norm: Call) -> bool:
    """Return whether a call is a layer norm over the last dim, with a gain and no bias.

    Nothing may read its mean and deviation.
    """
    if norm.name != LAYER_NORM:
        return False
    shape = calls.graph.value(calls.argument(norm, "normalized_shape"))
    gain, bias = (calls.graph.value(calls.argument(norm, name)) for name in ("weight", "bias"))
    _, *others = calls.graph.value_list(norm.args[-1])
    unread = not any(calls.readers(i) or i in calls.graph.outputs for i in others)
    last = isinstance(shape, IntListValue) and len(shape.items) == 1
    return last and unread and isinstance(gain, Tensor) and not isinstance(bias, Tensor)


def is_one(calls: Calls, call: Call, name: str) -> bool:
    """Return whether an argument is absent or the number 1."""
    value_id = calls.argument(call, name)
    value = None if value_id < 0 else calls.graph.value(value_id)
    return value is None or (isinstance(value, IntValue | DoubleValue) and value.value == 1)
