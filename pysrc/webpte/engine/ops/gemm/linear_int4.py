"""Linear layers of ExecuTorch 0.5 to 0.7: codes of 4 bits, with a scale and a zero per group.

    y = x[..., K] @ W^T
    W[n, k] = (code - 8) * scales[k / group, n, 0] + scales[k / group, n, 1]

Codes lie two to a byte, the first in the high nibble: the weights are bytes [N, K / 2]. The zeros
are what no later format has, so all targets run the plain kernel of linear_q4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.gemm.lib.gemm import Gemm, simple_dispatches
from webpte.engine.ops.gemm.lib.packed_weights import HIGH_FIRST, PackedWeights, check_types
from webpte.engine.ops.gemm.linear_q4 import kernel_of, simple
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray


def weights_of(args: Args) -> PackedWeights:
    """Return the weights of a call, after checking all shapes."""
    x, weight, scales = args.tensor("x"), args.tensor("weight"), args.tensor("scales")
    check_types(args, (x, scales), weight)
    inner, group = x.dims[-1] if x.rank else 0, args.integer("group_size")
    if x.rank == 0 or 2 * weight.dims[1] != inner:
        raise GraphError(
            f"{args.call}: weights {list(weight.dims)} do not fit rows of x {list(x.dims)}"
        )
    if group <= 0 or scales.dims != (inner // group, weight.dims[0], 2) or inner % group:
        raise GraphError(
            f"{args.call}: scales and zeros {list(scales.dims)} do not cover {weight.dims[0]} rows "
            f"of {inner} weights in groups of {group}"
        )
    return PackedWeights(weight, scales, HIGH_FIRST, inner, group, weight.dims[0])


def linear_shape(args: Args) -> tuple[Dims]:
    return ((*args.tensor("x").dims[:-1], weights_of(args).rows),)


def lower_linear(args: Args) -> list[Dispatch]:
    weights, x, out = weights_of(args), args.tensor("x"), args.out
    kernel = simple(kernel_of(x, weights))
    kernel = replace(kernel, overrides=(*kernel.overrides, ("ZEROS", True)))
    stored = float_type(args, x, weights.scales, out)
    gemm = Gemm(numel(x.dims[:-1]), weights.rows, weights.inner, stored=stored)
    return simple_dispatches(kernel, gemm, out.id)


def run_linear(args: Args) -> Array:
    weights, x = weights_of(args), args.array("x")
    packed, pairs = args.array("weight").view(np.uint8), args.array("scales").astype(np.float64)
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(weights.rows, weights.inner)
    scales, zeros = (np.repeat(pairs[..., i].T, weights.group, axis=1) for i in (0, 1))
    result = x.astype(np.float64) @ ((codes.astype(np.float64) - 8) * scales + zeros).T
    return args.out.dtype.cast(result)


register(
    "et_vk.linear_weight_int4.default",
    "x: tensor, weight: tensor, group_size: int, scales: tensor, inner_k_tiles: any = None "
    "-> tensor",
    shape=linear_shape,
    lower=lower_linear,
    reference=run_linear,
)
