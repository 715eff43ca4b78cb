"""The rule for convolutions; see ops/conv/fused_conv.py."""

from __future__ import annotations

from webpte.engine.format.vulkan import BoolValue, DoubleValue, IntListValue, IntValue
from webpte.engine.graph.graph import Call
from webpte.engine.ops.conv.fused_conv import (
    ADD,
    CLAMPED,
    CONV_BLOCK,
    CONVOLUTIONS,
    GREATER,
    MUL,
    PAD,
    WHERE,
)
from webpte.engine.ops.elementwise.unary import ACTIVATIONS
from webpte.engine.rewrite.fusion.engine import Calls, Match, rule
from webpte.engine.rewrite.fusion.linear_q4 import is_one

Steps = tuple[Call, ...]


@rule(90)
def convolution_block(calls: Calls, call: Call) -> Match | None:
    """Match a convolution, zero padding before it, and a residual, an activation or a slope."""
    if call.name not in CONVOLUTIONS:
        return None
    epilogues = (_sum, _slope, _activation)
    after = next((steps for find in epilogues if (steps := find(calls, call))), ())
    parts = (*_border(calls, call), call, *after)
    return Match(CONV_BLOCK, parts, (parts[-1].args[-1],)) if len(parts) > 1 else None


def _border(calls: Calls, call: Call) -> Steps:
    """Return the call that pads each image with zeros, if only the convolution reads its result."""
    source = calls.argument(call, "input")
    pad = calls.writer(source)
    if pad is None or pad.name != PAD or calls.only_reader(source) is None:
        return ()
    transposed = calls.graph.value(calls.argument(call, "transposed"))
    if not isinstance(transposed, BoolValue) or transposed.value or not _has_zeros(calls, pad):
        return ()
    spatial = len(calls.graph.tensor(source).dims) - 2
    borders = calls.graph.value(calls.argument(pad, "pad"))
    if not isinstance(borders, IntListValue) or min(borders.items, default=0) < 0:
        return ()
    return () if any(borders.items[2 * spatial :]) else (pad,)


def _has_zeros(calls: Calls, pad: Call) -> bool:
    value_id = calls.argument(pad, "value")
    value = None if value_id < 0 else calls.graph.value(value_id)
    return value is None or (isinstance(value, IntValue | DoubleValue) and value.value == 0)


def _sum(calls: Calls, call: Call) -> Steps:
    """Return the sum with a residual, and the activation if it is the sum's only reader."""
    addition = calls.only_reader(call.args[-1])
    if addition is None or addition.name != ADD or not is_one(calls, addition, "alpha"):
        return ()
    if addition.args[0] == addition.args[1]:
        return ()
    steps = (*_channels(calls, call, addition), addition)
    last = calls.only_reader(addition.args[-1])
    fits = last is not None and last.name in ACTIVATIONS and call.name != CLAMPED
    return (*steps, last) if last is not None and fits else steps


def _channels(calls: Calls, call: Call, addition: Call) -> Steps:
    """Return the zero-pad over channels that feeds the residual sum, or None."""
    first, second = addition.args[:2]
    other = second if first == call.args[-1] else first
    pad = calls.writer(other)
    if pad is None or pad.name != PAD or calls.only_reader(other) is None:
        return ()
    return (pad,) if _has_zeros(calls, pad) and pad.index < addition.index else ()


def _activation(calls: Calls, call: Call) -> Steps:
    """Return the activation after the convolution, with the views between."""
    last, views = calls.sole_user(call.args[-1])
    fits = last is not None and last.name in ACTIVATIONS and call.name != CLAMPED
    return (*views, last) if last is not None and fits else ()


def _slope(calls: Calls, call: Call) -> Steps:
    """Return the calls of where(x > 0, x, x * slope), as exporters write PReLU."""
    x = call.args[-1]
    readers = {reader.name: reader for reader in calls.readers(x)}
    if len(calls.readers(x)) != 3 or set(readers) != {GREATER, MUL, WHERE}:
        return ()
    greater, product, chosen = (readers[name] for name in (GREATER, MUL, WHERE))
    zero = calls.graph.value(calls.argument(greater, "other"))
    if not isinstance(zero, IntValue | DoubleValue) or zero.value != 0:
        return ()
    if x in calls.graph.outputs or product.args[0] == product.args[1] or call.name == CLAMPED:
        return ()
    meant = chosen.args[:3] == (greater.args[-1], x, product.args[-1])
    return (greater, product, chosen) if meant else ()
