"""Configs of skinny kernels with quantized weights: how many invocations share a sum over k.

For the many rows of a batched decode step, a workgroup has eight rows, so that it unpacks weights
once for eight products.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.core.records import ceil_div
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.gemv_q4 import MANY_ROWS
from webpte.engine.ops.gemm.lib.gemm import (
    BATCH_ROWS,
    MAX_SKINNY_ROWS,
    ROWS_AT_ONCE,
    Gemm,
    SkinnyConfig,
    choose_skinny_config,
    is_skinny,
    rows_at_once,
)
from webpte.engine.ops.gemm.lib.packed_weights import PackedWeights
from webpte.engine.ops.gemm.subgroup_matrix.tiles import takes_matrices

MAX_BATCH_ROWS = 32
# Threads that fill a GPU of 132 cores, limits of slices and lanes, sizes of workgroups by the room
# in shared memory, and SPARE_BYTES for everything else.
BATCH_THREADS, LEAST_SLICES, MOST_SLICES, LEAST_LANES = 65536, 8, 32, 8
BATCH_SIZES, SPARE_BYTES = (256, 128, 64), 512


def is_batch(gemm: Gemm) -> bool:
    """Return whether a GEMM has the rows of a decode step with many sequences."""
    return MAX_SKINNY_ROWS < gemm.m <= MAX_BATCH_ROWS


def suits_batch(gemm: Gemm, weights: PackedWeights, target: Target) -> bool:
    """Return whether the skinny kernel takes this batch of rows, eight rows per workgroup."""
    return is_batch(gemm) and weights.wide and not takes_matrices(gemm, target)


def batch_config(
    weights: PackedWeights, gemm: Gemm, target: Target, twice: bool = True
) -> SkinnyConfig:
    """Choose slices and lanes for many rows: as few slices as give every core work.

    Adding up the slices takes as long as some units of a slice. Fewer than eight slices would read
    parts of lines of memory. Eight lanes read the same x; with fewer, a quarter of a warp would
    wait for two lines of x. `twice`: an invocation has eight columns of the same matrix, not four.
    """
    tiles = ceil_div(gemm.n, 8 if twice else 4) * ceil_div(gemm.m, BATCH_ROWS)
    wanted = power_of_two(ceil_div(target.adapter.workgroups(BATCH_THREADS), tiles))
    room = next(n for n in BATCH_SIZES if 16 * BATCH_ROWS * n + SPARE_BYTES <= target.shared_bytes)
    slices = min(max(wanted, LEAST_SLICES), MOST_SLICES, room // LEAST_LANES)
    threads = min(max(LEAST_LANES * slices, BATCH_SIZES[1]), room)
    return replace(choose_skinny_config(weights.steps, threads, slices), twice=twice)


def skinny_config(weights: PackedWeights, gemm: Gemm, target: Target) -> SkinnyConfig:
    """Choose the slices and lanes of the skinny kernel.

    A unit of 16 bytes has up to 32 values, so neighbours along k are far apart in x. Lanes that
    read the same x compensate, unless all threads are needed to keep memory busy.
    """
    if not is_skinny(gemm):
        return batch_config(weights, gemm, target)
    if not weights.wide:
        return choose_skinny_config(weights.steps, 128, 128)
    if gemm.n >= target.adapter.workgroups(MANY_ROWS):
        return choose_skinny_config(weights.steps, 64, 16)
    if gemm.m > ROWS_AT_ONCE[-1]:
        return choose_skinny_config(weights.steps, 128, 32)
    many = weights.steps >= 128 and shared_bytes(256, gemm) <= target.shared_bytes
    return choose_skinny_config(weights.steps, 256 if many else 128, 128)


def shared_bytes(threads: int, gemm: Gemm) -> int:
    """Return the bytes of shared memory of linear_q4_skinny.wgsl without a norm.

    A quad per row and invocation, a quad per row for the sums, and a square rounded up to a quad.
    """
    return 16 * (rows_at_once(gemm) * (threads + 1) + 1)
