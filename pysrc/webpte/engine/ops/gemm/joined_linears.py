"""Quantized linear layers of the same x as a single GEMM by subgroup matrices, for many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.gemm.lib.gemm import Gemm, is_skinny
from webpte.engine.ops.gemm.linear_q4 import LinearQ4, gemm_of, kernel_of, row_params, weights_of
from webpte.engine.ops.gemm.subgroup_matrix.linear_q4 import (
    MOST_WEIGHTS,
    STORAGE_BUFFERS,
    JoinedLinears,
)
from webpte.engine.ops.gemm.subgroup_matrix.tiles import MATRIX_TILE_CONFIGS, takes_matrices
from webpte.engine.ops.quant.quantize import RowParams

WIDEST = max(tiling.columns for tiling in MATRIX_TILE_CONFIGS)


def joined_linears(
    linears: Sequence[tuple[LinearQ4, Args]],
    biases: Sequence[TensorArg | None],
    outs: Sequence[TensorArg],
) -> JoinedLinears | None:
    """Return linear layers as a single GEMM; None if they differ too much, or no kernel fits.

    They may differ in nothing but their columns. `biases` are added to the layers' own biases.
    """
    first, target = linears[0][1], linears[0][1].target
    gemms = [gemm_of(op, part) for op, part in linears]
    if is_skinny(gemms[0]) or target.storage_buffers < STORAGE_BUFFERS:
        return None
    if len(linears) > MOST_WEIGHTS or not all(takes_matrices(gemm, target) for gemm in gemms):
        return None
    if any(gemm.addend and bias for gemm, bias in zip(gemms, biases, strict=True)):
        return None
    gemms = [gemm.with_bias(bias) for gemm, bias in zip(gemms, biases, strict=True)]
    weights = [weights_of(op, part) for op, part in linears]
    rows = [row_params(op, part, gemms[0].m) for op, part in linears]
    read = {
        (part.tensor("x").id, *_ids(pair)) for (_, part), pair in zip(linears, rows, strict=True)
    }
    packings = {(w.format, w.inner, w.row_bytes, w.group) for w in weights}
    if len(read) > 1 or len(packings) > 1 or not all(w.in_words for w in weights):
        return None
    x, scales = first.tensor("x"), [w.scales for w in weights]
    floats = [x, *scales, *outs, *(pair.scale for pair in rows if pair)]
    floats += [gemm.addend for gemm in gemms if gemm.addend]
    stored = {tensor.dtype.wgsl for tensor in floats}
    if len(stored) > 1 or _sums_bytes(gemms) > target.binding_bytes:
        return None
    kept = tuple(replace(gemm, stored=x.dtype.wgsl) for gemm in gemms)
    return JoinedLinears(kernel_of(x, weights[0], rows[0]), tuple(weights), kept, target)


def _ids(pair: RowParams | None) -> tuple[int, ...]:
    return () if pair is None else (pair.scale.id, pair.zero.id, pair.inverted)


def _sums_bytes(gemms: Sequence[Gemm]) -> int:
    """Return the most bytes of the sums of all columns, with each layer padded to whole tiles."""
    return 4 * gemms[0].m * sum(gemm.n + WIDEST for gemm in gemms)
