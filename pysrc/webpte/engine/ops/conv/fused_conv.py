"""Convolutions fused with their neighbours: zero padding before, an epilogue after.

conv_block   pad with zeros, convolution, then either
                 a residual (whose last channels may be zeros) and an activation: relu, a clamp
                 or another element-wise op of floats
                 an activation alone, or
                 x where it is positive, else x times the slope of its channel (PReLU)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.conv.conv import lower_image, read_bounds
from webpte.engine.ops.conv.conv3d import is_volume
from webpte.engine.ops.conv.conv_block import (
    BOUNDED,
    BOUNDED_SUM,
    UNBOUNDED,
    ConvBlock,
    PaddedInput,
    clamping,
)
from webpte.engine.ops.conv.conv_geometry import Pair
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import Part, is_view, lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.elementwise import unary
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.move import pad

CONV_BLOCK = "webpte.conv_block"
PLAIN, CLAMPED = "aten.convolution.default", "et_vk.conv_with_clamp.default"
CONVOLUTIONS = frozenset({PLAIN, CLAMPED})
PAD, ADD, MUL = "aten.constant_pad_nd.default", "aten.add.Tensor", "aten.mul.Tensor"
RELU, GREATER, WHERE = "aten.relu.default", "aten.gt.Scalar", "aten.where.self"
MOST_SCALARS = 2  # per epilogue in wgsl/lib/conv/conv_epilogue.wgsl
SLOPED = "select(x * y, x, x > Vec())"


def lower_conv_block(args: Args) -> list[Dispatch]:
    """Lower a convolution with its epilogue, or call by call if no kernel has the epilogue."""
    block = read_block(args, list(parts_of(args)))
    if block is None or (args.target.software and not block.is_simple):
        return lower_parts(args)
    return lower_image(block)


def read_block(args: Args, parts: Sequence[Part]) -> ConvBlock | None:
    """Return the convolution with its epilogue, or None if no kernel has the epilogue."""
    index = next(i for i, (op, _) in enumerate(parts) if op.name in CONVOLUTIONS)
    op, conv = parts[index]
    (out,), after = args.outs, [part for part in parts[index + 1 :] if not is_view(*part)]
    if is_volume(conv) or out.numel != conv.out.numel:
        return None
    padded = None
    if index > 0:
        padded = read_padding(conv, parts[0][1])
        if padded is None:
            return None
    plain = clamping(read_bounds(conv, op.name == CLAMPED))
    epilogue = read_epilogue(conv, after, plain, out)
    return None if epilogue is None else ConvBlock(conv, out, epilogue, padded)


def read_epilogue(
    conv: Args, after: Sequence[Part], plain: Epilogue, out: TensorArg
) -> Epilogue | None:
    """Return the epilogue of the calls after a convolution, or None if the kernels lack it."""
    names = {each.name for each, _ in after}
    if GREATER in names:
        return sloped(conv, after, plain)
    if ADD in names:
        return added(conv, after, plain, out)
    return activated(conv, after[0], plain) if after else plain


def read_padding(conv: Args, part: Args) -> PaddedInput | None:
    """Return the zeros around each image, or None if the pad does anything else."""
    (*rest, height, width), source = pad.borders(part), part.tensor("self")
    if source.rank == 3:
        rest, height = [*rest, height], (0, 0)
    whole = not any(n for pair in rest for n in pair) and min(*height, *width) >= 0
    if not whole or part.number("value") != 0 or conv.flag("transposed"):
        return None
    return PaddedInput(source, Pair(height[0], width[0]))


def activated(conv: Args, last: Part, epilogue: Epilogue) -> Epilogue | None:
    """Return the epilogue of an activation after the sums, or after the sums and the residual."""
    op, part = last
    found = unary.float_formula(op.name, part)
    assert found is not None, "see unary.ACTIVATIONS"
    formula, scalars = (BOUNDED, (0.0, math.inf)) if op.name == RELU else found
    free = epilogue.scalars == UNBOUNDED
    if not free or len(scalars) > MOST_SCALARS or part.out.dtype != conv.out.dtype:
        return None
    if epilogue.residual is not None:
        formula = BOUNDED_SUM if formula == BOUNDED else re.sub(r"\bx\b", "(x + y)", formula)
    return replace(epilogue, formula=formula, scalars=scalars)


def added(conv: Args, after: Sequence[Part], plain: Epilogue, out: TensorArg) -> Epilogue | None:
    """Return a residual and the activation after it.

    The kernel reads a residual without the channels of zeros that pad it.
    """
    index = next(i for i, (op, _) in enumerate(after) if op.name == ADD)
    _, addition = after[index]
    operands = addition.tensor("self"), addition.tensor("other")
    residual = next(tensor for tensor in operands if tensor.id != conv.out.id)
    if residual.dims != conv.out.dims or residual.dtype != out.dtype:
        return None
    if index > 0:
        shorter = without_channels(after[0][1])
        if shorter is None:
            return None
        residual = shorter
    formula = BOUNDED_SUM if plain.scalars == UNBOUNDED else f"{BOUNDED} + y"
    summed = replace(plain, residual=residual, formula=formula)
    return activated(conv, after[index + 1], summed) if len(after) > index + 1 else summed


def without_channels(part: Args) -> TensorArg | None:
    """Return the input of a pad that appends channels of zeros to one image, else None."""
    source = part.tensor("self")
    borders = pad.borders(part)
    others = [pair for i, pair in enumerate(borders) if i != 1]
    alone = not any(n for pair in others for n in pair) and borders[1][0] == 0 <= borders[1][1]
    return source if alone and source.dims[0] == 1 and part.number("value") == 0 else None


def sloped(conv: Args, after: Sequence[Part], plain: Epilogue) -> Epilogue | None:
    """Return the epilogue of a PReLU with a slope per channel."""
    product = next(part for op, part in after if op.name == MUL)
    operands = product.tensor("self"), product.tensor("other")
    slope = next(tensor for tensor in operands if tensor.id != conv.out.id)
    channels = (conv.out.dims[1], *(1 for _ in conv.out.dims[2:]))
    trailing = slope.dims[-len(channels) :]
    per_channel = trailing == channels and slope.numel == channels[0]
    if not per_channel or slope.dtype != conv.out.dtype:
        return None
    return replace(plain, formula=SLOPED, residual=slope, per_row=True)


register_fusion(CONV_BLOCK, lower_conv_block)
