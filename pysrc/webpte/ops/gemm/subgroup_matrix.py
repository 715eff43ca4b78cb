"""Products of many rows by subgroup matrices: what wgsl/lib/gemm/subgroup_matrix_tile.wgsl is told.

    out[row, column] = sum over k of A[row, k] * B[k, column], as in products.py

A GPU multiplies matrices of half floats many times as fast as floats, and adds them up in float32.
So a number becomes the sum of two half floats, after its row of A or column of B was divided by a
power of two, which brings the largest of them near 2^14: whatever the numbers are, no half float is
infinite, and those below 2^-17 of the largest are all that lose digits. Of the four products of
such sums that of both second halves is left out. What is off then:

    2^-22   of each product: the last digits of either number, and what is left out
    2^-24   of the sum so far at most, or twice that where a GPU cuts instead of rounding, for each
            16 k of each of the three products

A row with an infinity or NaN, or a column with such a scale, gives NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from webpte.ops.core.records import Dispatch, Scratch, ceil_div
from webpte.ops.core.row_reduction import power_of_two
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import (
    Gemm,
    GemmKernel,
    Types,
    fastest_configs,
    split_k_dispatches,
    tuned_config,
)

K_STEP = 16  # of wgsl/lib/gemm/subgroup_matrix_tile.wgsl
SHARED_BYTES = 32768  # that the largest tile fits into


@dataclass(frozen=True)
class MatrixTileConfig:
    """The constants of wgsl/lib/gemm/subgroup_matrix_tile.wgsl; `speed` is as a `Tiling`'s."""

    row_matrices: int
    column_matrices: int
    speed: float
    subgroup_rows: int = 2

    @property
    def rows(self) -> int:
        return 16 * self.subgroup_rows * self.row_matrices

    @property
    def columns(self) -> int:
        return 16 * 2 * self.column_matrices

    @property
    def threads(self) -> int:
        return 2 * self.subgroup_rows * 32

    def tiles(self, gemm: Gemm) -> int:
        return ceil_div(gemm.m, self.rows) * ceil_div(gemm.n, self.columns)

    @property
    def types(self) -> Types:
        return (
            ("COLUMN_MATRICES", str(self.column_matrices)),
            ("ROW_MATRICES", str(self.row_matrices)),
            ("SUBGROUP_ROWS", str(self.subgroup_rows)),
        )


# Speeds are guesses, in the order that memory that is read suggests. The cuts that they lead to
# came to 49 on a GPU of 132 cores; tile by tile nothing was measured at its full clock.
MATRIX_TILE_CONFIGS = (
    MatrixTileConfig(4, 4, 120.0),
    MatrixTileConfig(4, 2, 100.0),
    MatrixTileConfig(2, 2, 70.0),
    MatrixTileConfig(2, 4, 115.0, subgroup_rows=4),
)
MatrixConfig = tuple[MatrixTileConfig, int]  # and into how many parts k is cut


@lru_cache(256)  # a model has few sizes, in many layers
def choose_matrix_tile_config(gemm: Gemm) -> MatrixConfig:
    return fastest_configs(gemm, MATRIX_TILE_CONFIGS)[0]


def tuned_matrix_tile_config(name: str, gemm: Gemm, target: Target) -> MatrixConfig:
    """What was measured on this adapter, or else what `cost` says is the fastest."""
    shape_class = f"m{power_of_two(gemm.m)} n{gemm.n} k{gemm.k} {gemm.stored}"
    default = choose_matrix_tile_config(gemm)
    return tuned_config(name, shape_class, gemm, default, MATRIX_TILE_CONFIGS, target)


def takes_matrices(gemm: Gemm, target: Target) -> bool:
    """Whether a product of many rows goes by subgroup matrices on this device."""
    there = target.matrices and not target.software and target.shared_bytes >= SHARED_BYTES
    plain = gemm.type == "f32" and gemm.batches == 1
    return there and plain and not gemm.empty and gemm.k > 0


def split_f16_memory(gemm: Gemm, rows: int) -> Scratch:
    """For rows of k; sizes are powers of two, so that changing shapes share a few buffers."""
    width = K_STEP * ceil_div(gemm.k, K_STEP)
    return Scratch("split f16", power_of_two(4 * rows * width))


def exponents_memory(gemm: Gemm) -> Scratch:
    """For the m rows and behind them the n columns."""
    return Scratch("matrix exponents", power_of_two(4 * (gemm.m + gemm.n)))


def f16_parts(gemm: Gemm) -> str:
    """Half floats for each number: what is stored as one needs no second one."""
    return "1" if gemm.stored == "f16" else "2"


def matrix_dispatches(
    before: Dispatch, kernel: GemmKernel, gemm: Gemm, out: int, target: Target
) -> list[Dispatch]:
    """What makes the half floats and exponents, the product, and where it was cut, its sum.

    `before` binds the memory of half floats and of exponents last, `kernel` first.
    """
    multiply = replace(
        kernel,
        operands=(*before.bindings[-2:], *kernel.operands),
        types=(*kernel.types, ("A_PARTS", f16_parts(gemm))),
    )
    config = tuned_matrix_tile_config(kernel.name, gemm.plain, target)
    return [before, *split_k_dispatches(multiply, gemm, out, config)]
