"""Rules around matrix products; what they become is in ops/gemm/fused_linear_q4.py."""

from __future__ import annotations

from collections.abc import Sequence

from webpte.format.vulkan import DoubleValue, IntValue
from webpte.graph.graph import Call
from webpte.ops.gemm.fused_linear_q4 import (
    CHOOSE_OF,
    GATED_PRODUCT,
    LINEAR_OF,
    NORMED_PRODUCT,
    PLAIN_LINEARS,
    PRODUCT_ADD,
    RMS_NORM,
    ROUNDED_LINEARS,
)
from webpte.ops.gemm.gemv_multi import LINEAR
from webpte.rewrite.fusion.engine import Calls, Match

ADD, MUL, SIGMOID, SILU = (
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.sigmoid.default",
    "aten.silu.default",
)
PLAIN_PRODUCTS = {"aten.linear.default", "aten.mm.default", "aten.addmm.default"}


def add_after_product(calls: Calls, call: Call) -> Match | None:
    """product, views, add: the residual becomes the product's addend."""
    if call.name not in LINEAR_OF and call.name not in PLAIN_PRODUCTS:
        return None
    addition, views = calls.sole_user(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return None
    if addition.args[0] == addition.args[1]:
        return None
    before = rounding_before(calls, [call]) if call.name in ROUNDED_LINEARS else ()
    return Match(PRODUCT_ADD, (*before, call, *views, addition), (addition.args[-1],))


def gated_products(calls: Calls, call: Call) -> Match | None:
    """silu(gate) * up of two products of one x, the norm before them if it is theirs alone."""
    if call.name != MUL:
        return None
    for gated, other in (call.args[:2], call.args[1::-1]):
        silu = _silu(calls, gated)
        up, up_views = calls.producer(other)
        if silu is None or up is None:
            continue
        gate, *rest = silu
        pair = (gate, up)
        if gate is up or not are_of_one_kind(pair):
            continue
        if calls.argument(gate, "x") != calls.argument(up, "x"):
            continue
        before = taken_before(calls, pair)
        if before is None:
            continue
        # In this order little is kept at once where they run one by one.
        parts = (*before, gate, *rest, up, *up_views, call)
        return Match(GATED_PRODUCT, parts, (call.args[-1],))
    return None


def are_of_one_kind(linears: Sequence[Call]) -> bool:
    """Whether one kernel may take them: of floats, or quantized, x being rounded or not.

    None of them may have another's result for its weights: that would be in no memory.
    """
    names = {linear.name for linear in linears}
    kinds = ({LINEAR}, PLAIN_LINEARS - {LINEAR}, ROUNDED_LINEARS)
    given = {linear.args[-1] for linear in linears}
    apart = all(given.isdisjoint(linear.args[:-1]) for linear in linears)
    return apart and any(names <= kind for kind in kinds)


def taken_before(calls: Calls, linears: Sequence[Call]) -> tuple[Call, ...] | None:
    """The norm, and what chooses how x is rounded; None if that is not theirs alone."""
    if linears[0].name not in ROUNDED_LINEARS:
        return norm_before(calls, linears[0], set(linears))
    chosen = rounding_before(calls, linears)
    return (*norm_before(calls, linears[0], {*linears, *chosen}), *chosen) if chosen else None


def rounding_before(calls: Calls, linears: Sequence[Call]) -> tuple[Call, ...]:
    """The call that chooses scales and zeros for the x of these products, and for nobody else."""
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


def norm_before_product(calls: Calls, call: Call) -> Match | None:
    """rms_norm whose only reader is a product, or the choice of how its x is rounded."""
    if call.name not in PLAIN_LINEARS | ROUNDED_LINEARS:
        return None
    before = taken_before(calls, [call])
    return Match(NORMED_PRODUCT, (*before, call), (call.args[-1],)) if before else None


def _silu(calls: Calls, value_id: int) -> list[Call] | None:
    """The call whose result goes through x * sigmoid(x), and those that do it."""
    last, after = calls.producer(value_id)
    if last is None:
        return None
    if last.name == SILU:
        source, views = calls.producer(last.args[0])
        return None if source is None else [source, *views, last, *after]
    if last.name != MUL:
        return None
    for straight, bent in (last.args[:2], last.args[1::-1]):
        sigmoid, between = calls.producer(bent)
        if sigmoid is not None and sigmoid.name == SIGMOID and sigmoid.args[0] == straight:
            source, views = calls.producer(straight)
            return None if source is None else [source, *views, sigmoid, *between, last, *after]
    return None


def norm_before(calls: Calls, linear: Call, readers: set[Call]) -> tuple[Call, ...]:
    """The norm before some products, with the views between, if nobody else reads it.

    Nor they themselves, as weights: what is multiplied with itself has to be somewhere.
    """
    x = calls.argument(linear, "x")
    norm, views = calls.producer(x)
    if norm is None or norm.name != RMS_NORM or any(call.args.count(x) > 1 for call in readers):
        return ()
    steps = (norm, *views)
    for step, following in zip(steps, (*views, None), strict=True):
        wanted = readers if following is None else {following}
        out = step.args[-1]
        if set(calls.readers(out)) != wanted or out in calls.graph.outputs:
            return ()
    return steps


def is_one(calls: Calls, call: Call, name: str) -> bool:
    value_id = calls.argument(call, name)
    value = None if value_id < 0 else calls.graph.value(value_id)
    return value is None or (isinstance(value, IntValue | DoubleValue) and value.value == 1)
