"""Convolutions with what is around them: zeros before, a sum, a bend or a slope after.

conv_block   pad with zeros, convolution, then one of
                 a residual (whose last channels may be zeros), then relu, a clamp or another
                 element-wise op of floats
                 such an op alone
                 x where it is positive, else x times the slope of its channel (PReLU)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from webpte.ops.conv.conv import lower_image, read_bounds
from webpte.ops.conv.conv3d import is_volume
from webpte.ops.conv.conv_epilogue import BOUNDED, BOUNDED_SUM, ConvEpilogue, Padded
from webpte.ops.conv.conv_geometry import Pair
from webpte.ops.core.args import Args, TensorArg
from webpte.ops.core.fused_call import Part, is_view, lower_parts, parts_of, register_fusion
from webpte.ops.core.records import Dispatch
from webpte.ops.elementwise import unary
from webpte.ops.move import pad

CONV_BLOCK = "webpte.conv_block"
PLAIN, CLAMPED = "aten.convolution.default", "et_vk.conv_with_clamp.default"
CONVOLUTIONS = frozenset({PLAIN, CLAMPED})
PAD, ADD, MUL = "aten.constant_pad_nd.default", "aten.add.Tensor", "aten.mul.Tensor"
RELU, GREATER, WHERE = "aten.relu.default", "aten.gt.Scalar", "aten.where.self"
ACTIVATIONS = frozenset({*unary.FLOAT_UNARY, unary.GELU_NAME})
MOST_SCALARS = 2  # that the kernels have room for
SLOPED = "select(x * y, x, x > Vec())"


def lower_conv_block(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    ending = read_ending(args, parts)
    if ending is None or (args.target.software and not ending.is_simple):
        return lower_parts(args)
    _, conv = next(part for part in parts if part[0].name in CONVOLUTIONS)
    return lower_image(conv, ending)


def read_ending(args: Args, parts: Sequence[Part]) -> ConvEpilogue | None:
    """None where the kernels do not end so."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in CONVOLUTIONS)
    op, conv = parts[index]
    (out,), after = args.outs, [part for part in parts[index + 1 :] if not is_view(*part)]
    if is_volume(conv) or out.numel != conv.out.numel:
        return None
    ending = ConvEpilogue(out, read_bounds(conv, op.name == CLAMPED))
    if index > 0:
        padded = read_padding(conv, parts[0][1])
        if padded is None:
            return None
        ending = replace(ending, padded=padded)
    names = {each.name for each, _ in after}
    if GREATER in names:
        return sloped(conv, after, ending)
    if ADD in names:
        return added(conv, after, ending)
    return bent(conv, after[0], ending) if after else ending


def read_padding(conv: Args, part: Args) -> Padded | None:
    """Zeros around each image alone, and none that are cut off."""
    (*rest, height, width), source = pad.borders(part), part.tensor("self")
    if source.rank == 3:
        rest, height = [*rest, height], (0, 0)
    whole = not any(n for pair in rest for n in pair) and min(*height, *width) >= 0
    if not whole or part.number("value") != 0 or conv.flag("transposed"):
        return None
    return Padded(source, Pair(height[0], width[0]))


def bent(conv: Args, last: Part, ending: ConvEpilogue) -> ConvEpilogue | None:
    """An element-wise op of the sums, or of their sum with what is beside them."""
    op, part = last
    found = unary.float_formula(op.name, part)
    assert found is not None, "see ACTIVATIONS"
    formula, scalars = (BOUNDED, (0.0, math.inf)) if op.name == RELU else found
    free = ending.scalars == (-math.inf, math.inf)
    if not free or len(scalars) > MOST_SCALARS or part.out.dtype != conv.out.dtype:
        return None
    low, high = (*scalars, 0.0, 0.0)[:2]
    if ending.beside is not None:
        formula = BOUNDED_SUM if formula == BOUNDED else re.sub(r"\bx\b", "(x + y)", formula)
    return replace(ending, formula=formula, scalars=(low, high))


def added(conv: Args, after: Sequence[Part], ending: ConvEpilogue) -> ConvEpilogue | None:
    """A residual, and what follows; one that was longer by channels of zeros is read as it was."""
    index = next(i for i, (op, _) in enumerate(after) if op.name == ADD)
    _, addition = after[index]
    operands = addition.tensor("self"), addition.tensor("other")
    beside = next(tensor for tensor in operands if tensor.id != conv.out.id)
    if beside.dims != conv.out.dims or beside.dtype != ending.out.dtype:
        return None
    if index > 0:
        shorter = without_channels(after[0][1])
        if shorter is None:
            return None
        beside = shorter
    free = ending.scalars == (-math.inf, math.inf)
    formula = BOUNDED_SUM if free else f"{BOUNDED} + y"
    summed = replace(ending, beside=beside, formula=formula)
    return bent(conv, after[index + 1], summed) if len(after) > index + 1 else summed


def without_channels(part: Args) -> TensorArg | None:
    """What a pad adds channels of zeros to, behind all others of one image."""
    source = part.tensor("self")
    borders = pad.borders(part)
    others = [pair for i, pair in enumerate(borders) if i != 1]
    alone = not any(n for pair in others for n in pair) and borders[1][0] == 0 <= borders[1][1]
    return source if alone and source.dims[0] == 1 and part.number("value") == 0 else None


def sloped(conv: Args, after: Sequence[Part], ending: ConvEpilogue) -> ConvEpilogue | None:
    product = next(part for op, part in after if op.name == MUL)
    operands = product.tensor("self"), product.tensor("other")
    slope = next(tensor for tensor in operands if tensor.id != conv.out.id)
    channels = (conv.out.dims[1], *(1 for _ in conv.out.dims[2:]))
    trailing = slope.dims[-len(channels) :]
    per_channel = trailing == channels and slope.numel == channels[0]
    if not per_channel or slope.dtype != conv.out.dtype:
        return None
    return replace(ending, formula=SLOPED, beside=slope, per_channel=True)


register_fusion(CONV_BLOCK, lower_conv_block)
