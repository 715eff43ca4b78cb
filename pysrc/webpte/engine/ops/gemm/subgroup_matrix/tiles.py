"""GEMMs of many rows with subgroup matrices, in tiles: wgsl/lib/matrix/subgroup_matrix_tile.wgsl.

    out[row, column] = sum over k of A[row, k] * B[k, column], as in lib/gemm.py

A GPU multiplies f16 matrices many times as fast as f32 ones, and accumulates in f32. So a number is
split into the sum of two f16, after its row of A or column of B was divided by the power of two
that brings the largest number near 2^14: no f16 becomes infinite, and only numbers below 2^-17 of
the largest lose digits. Of the four products of two such sums, the product of the second parts is
left out. The error is then:

    2^-22   of each product: the last digits of either number, and the product left out
    2^-24   of the sum so far at most, or twice that if a GPU truncates instead of rounding, for
            each 16 k and each of the three products

Weights of 4 or 8 bits are codes times scales: a scale is split, and its f16 times a code become the
two f16 of their product, with an error of 2^-20 of it at most, and 2^-24 on average.

With `half_products` a number is a single f16, with a single product: an error of 2^-11 of each.

A row with an infinity or NaN, or a column with a scale that is infinite or NaN, gives NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from webpte.engine.ops.core.adapter_classes import LARGE, AdapterClass
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    Types,
    config_label,
    cost,
    fastest_configs,
    split_k_dispatches,
    tuned_config,
)

K_FILL = 32  # longest step along k in wgsl/lib/matrix/split_f16.wgsl
SUBGROUPS = 4  # per workgroup
SHARED_BYTES = 24576  # used by the largest tile
WORKGROUPS_PER_CORE = 2  # that run at the same time


@dataclass(frozen=True)
class MatrixTileConfig:
    """The constants of wgsl/lib/matrix/subgroup_matrix_tile.wgsl; `speed` as in `TileConfig`."""

    row_matrices: int
    column_matrices: int
    speed: float
    subgroup_rows: int = 2
    k_step: ClassVar[int] = K_FILL

    @property
    def rows(self) -> int:
        return 16 * self.subgroup_rows * self.row_matrices

    @property
    def columns(self) -> int:
        return 16 * SUBGROUPS // self.subgroup_rows * self.column_matrices

    @property
    def threads(self) -> int:
        return SUBGROUPS * 32

    def tiles(self, gemm: Gemm) -> int:
        return ceil_div(gemm.m, self.rows) * ceil_div(gemm.n, self.columns)

    def occupancy(self, workgroups: int, adapter: AdapterClass) -> float:
        """Return the used share of all waves of workgroups; a partial wave counts whole."""
        at_once = WORKGROUPS_PER_CORE * adapter.cores
        return workgroups / (at_once * ceil_div(workgroups, at_once))

    @property
    def types(self) -> Types:
        return (
            ("COLUMN_MATRICES", str(self.column_matrices)),
            ("ROW_MATRICES", str(self.row_matrices)),
            ("SUBGROUP_ROWS", str(self.subgroup_rows)),
        )


# Speeds with three products per multiplication.
MATRIX_TILE_CONFIGS = (
    MatrixTileConfig(4, 4, 107.0),
    MatrixTileConfig(4, 2, 68.0),
    MatrixTileConfig(2, 2, 62.0),
    MatrixTileConfig(2, 4, 76.0),
    MatrixTileConfig(2, 2, 55.0, subgroup_rows=1),  # tiles of 32 rows; an estimated speed
)
MatrixConfig = tuple[MatrixTileConfig, int]  # a tile and the number of parts of k


@lru_cache(256)  # a model has few sizes, in many layers
def choose_matrix_tile_config(gemm: Gemm, adapter: AdapterClass = LARGE) -> MatrixConfig:
    return fastest_configs(gemm, MATRIX_TILE_CONFIGS, adapter)[0]


@lru_cache(256)
def choose_whole_tile_config(gemm: Gemm, adapter: AdapterClass = LARGE) -> MatrixConfig:
    """Return the fastest config of a kernel that takes k as a whole."""
    return min(
        ((tiling, 1) for tiling in MATRIX_TILE_CONFIGS),
        key=lambda config: cost(gemm, config[0], 1, adapter),
    )


def tuned_matrix_tile_config(
    name: str, gemm: Gemm, target: Target, whole: bool = False
) -> MatrixConfig:
    """Return the config measured fastest on this adapter, or else estimated to be fastest.

    `whole`: the kernel takes k as a whole.
    """
    products = " half" if target.half_products else ""
    shape_class = f"m{power_of_two(gemm.m)} n{gemm.n} k{gemm.k} {gemm.stored}{products}"
    if not whole:
        default = choose_matrix_tile_config(gemm, target.adapter)
        return tuned_config(name, shape_class, gemm, default, MATRIX_TILE_CONFIGS, target)
    default = choose_whole_tile_config(gemm, target.adapter)
    if not target.wants_candidates:
        return default
    configs = (default, *((tiling, 1) for tiling in MATRIX_TILE_CONFIGS))
    candidates = {config_label(config): config for config in configs}
    return target.choice(f"{name} tiles", shape_class, config_label(default), candidates)


def takes_matrices(gemm: Gemm, target: Target) -> bool:
    """Return whether a GEMM of many rows uses subgroup matrices on this device."""
    there = target.subgroup_matrices and not target.software and target.shared_bytes >= SHARED_BYTES
    plain = gemm.type == "f32" and gemm.batches == 1
    fits = split_f16_memory(gemm, max(gemm.m, gemm.n)).nbytes <= target.binding_bytes
    return there and plain and not gemm.empty and gemm.k > 0 and fits


def split_f16_memory(gemm: Gemm, rows: int) -> Scratch:
    """Return scratch for split rows of k; powers of two let changing shapes share it."""
    width = K_FILL * ceil_div(gemm.k, K_FILL)
    return Scratch("split f16", power_of_two(4 * rows * width))


def exponents_memory(gemm: Gemm) -> Scratch:
    """Return scratch for the exponents of the m rows, then of the n columns."""
    return Scratch("matrix exponents", power_of_two(4 * (gemm.m + gemm.n)))


def f16_parts(gemm: Gemm, target: Target) -> int:
    """Return 1 or 2: the number of f16 terms per number."""
    return 1 if gemm.stored == "f16" or target.half_products else 2


def matrix_dispatches(
    before: Dispatch, kernel: GemmKernel, b_parts: int, gemm: Gemm, out: int, target: Target
) -> list[Dispatch]:
    """Return the split into f16, the GEMM, and with split-K its sum."""
    before, multiply = with_parts(before, kernel, b_parts, f16_parts(gemm, target), target)
    config = tuned_matrix_tile_config(kernel.name, gemm.plain, target)
    return [before, *split_k_dispatches(multiply, gemm, out, config, target)]


def with_parts(
    before: Dispatch, kernel: GemmKernel, b_parts: int, a_parts: int, target: Target
) -> tuple[Dispatch, GemmKernel]:
    """Return the split and the GEMM's kernel with constants for this number of f16 terms.

    `before` binds the split numbers and the exponents last; `kernel` has to bind them first. With a
    single f16 term, shared memory has room for longer steps along k.
    """
    steps = 2 if a_parts == b_parts == 1 else 1
    parts = (("B_PARTS", str(b_parts)), ("A_PARTS", str(a_parts)), ("STEPS", str(steps)))
    multiply = replace(
        kernel,
        operands=(*before.bindings[-2:], *kernel.operands),
        types=(*kernel.types, *parts, *target.matrix_types),
    )
    return replace(before, types=(*before.types, ("PARTS", str(a_parts)))), multiply
