"""Configs of skinny kernels with quantized weights: how many invocations share a sum over k.

For more rows than usual, those of a decode step of many sequences, a workgroup has eight rows, so
that weights are unpacked once for eight products.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.core.records import ceil_div
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.gemm import (
    BATCH_ROWS,
    MAX_SKINNY_ROWS,
    ROWS_AT_ONCE,
    Gemm,
    SkinnyConfig,
    choose_skinny_config,
    is_skinny,
    rows_at_once,
)
from webpte.engine.ops.gemm.gemv_q4 import MANY_ROWS
from webpte.engine.ops.gemm.packed_weights import PackedWeights
from webpte.engine.ops.gemm.subgroup_matrix import takes_matrices

MAX_BATCH_ROWS = 32
# Threads that fill a GPU of 132 cores, slices of k, lanes; and invocations of a workgroup, by what
# fits shared memory beside SPARE_BYTES.
BATCH_THREADS, LEAST_SLICES, MOST_SLICES, LEAST_LANES = 65536, 8, 32, 8
BATCH_SIZES, SPARE_BYTES = (256, 128, 64), 512


def is_batch(gemm: Gemm) -> bool:
    """Tell whether a GEMM has the rows of a decode step of many sequences."""
    return MAX_SKINNY_ROWS < gemm.m <= MAX_BATCH_ROWS


def suits_batch(gemm: Gemm, weights: PackedWeights, target: Target) -> bool:
    """Tell whether the skinny kernel takes more rows than usual, several times eight."""
    return is_batch(gemm) and weights.wide and not takes_matrices(gemm, target)


def batch_config(
    weights: PackedWeights, gemm: Gemm, target: Target, twice: bool = True
) -> SkinnyConfig:
    """Choose the slices and lanes for many rows: as few slices as leave work for every core.

    Their sums take as long to add up as a slice takes for some units. Fewer than eight would read
    parts of lines of memory. Eight lanes read the same x: with fewer, a quarter of a warp would
    wait for two lines of it. `twice`: an invocation has eight columns of one matrix, not four.
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
    read the same x make up for that, unless all threads are needed to keep memory busy.
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

    A quad of each row for each invocation and for all of them, and a square rounded up to a quad.
    """
    return 16 * (rows_at_once(gemm) * (threads + 1) + 1)
