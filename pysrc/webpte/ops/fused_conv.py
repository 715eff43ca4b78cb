"""Convolutions with what follows them in residual networks.

conv_add   convolution + residual, then maybe relu or a clamp: the convolution's own bounds
"""

from __future__ import annotations

import math

from webpte.ops.args import Args
from webpte.ops.conv import Bounds, Ending, lower_image
from webpte.ops.conv_volume import is_volume
from webpte.ops.fused import Part, lower_parts, parts_of, register_fusion
from webpte.ops.records import Dispatch
from webpte.ops.unary import bounds as clamp_bounds

CONV_ADD = "webpte.conv_add"
CONVOLUTION, RELU = "aten.convolution.default", "aten.relu.default"
CLAMPS = frozenset({"aten.clamp.default", "aten.hardtanh.default"})


def bounds_of(part: Part) -> Bounds:
    """Of what comes after the addition."""
    op, args = part
    if op.name == RELU:
        return 0.0, math.inf
    if op.name not in CLAMPS:
        return -math.inf, math.inf
    low, high = clamp_bounds(args)
    return low, high


def lower_conv_add(args: Args) -> list[Dispatch]:
    parts, (out,) = list(parts_of(args)), args.outs
    (_, conv), (_, addition) = parts[:2]
    operands = addition.tensor("self"), addition.tensor("other")
    added = next(tensor for tensor in operands if tensor.id != conv.out.id)
    whole = added.dims == conv.out.dims == out.dims and added.dtype == out.dtype
    if is_volume(conv) or not whole:
        return lower_parts(args)
    return lower_image(conv, Ending(bounds_of(parts[-1]), out, added))


register_fusion(CONV_ADD, lower_conv_add)
