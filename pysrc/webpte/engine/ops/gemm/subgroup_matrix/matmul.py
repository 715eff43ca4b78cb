"""Linear layers of floats with subgroup matrices: see tiles.py.

matmul_split_f16         splits the rows of A [m, k] and of B [n, k] into f16, with exponents
matmul_subgroup_matrix   the GEMM
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.core.records import Dispatch, fold_grid
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import Gemm, GemmKernel
from webpte.engine.ops.gemm.subgroup_matrix.tiles import (
    exponents_memory,
    f16_parts,
    matrix_dispatches,
    split_f16_memory,
    takes_matrices,
)

# Each call splits B into f16, which takes as long as a float GEMM with fewer rows, and as much
# memory as B.
FEWEST_ROWS, MOST_BYTES = 128, 1 << 28


def takes_matmul(gemm: Gemm, target: Target) -> bool:
    """Return whether a GEMM of A [m, k] and B [n, k] uses subgroup matrices."""
    small = split_f16_memory(gemm, gemm.m + gemm.n).nbytes <= MOST_BYTES
    return gemm.m >= FEWEST_ROWS and small and takes_matrices(gemm, target)


def matrix_matmul(kernel: GemmKernel, gemm: Gemm, out: int, target: Target) -> list[Dispatch]:
    """Return the split into f16 and the GEMM; `kernel` is the tiled one, which binds A and B."""
    rows = gemm.m + gemm.n
    split = Dispatch(
        kernel="matmul_split_f16",
        bindings=(*kernel.operands, split_f16_memory(gemm, rows), exponents_memory(gemm)),
        params=gemm.params(1, 1),
        grid=fold_grid(rows),
        types=gemm.types(gemm.stored),
        overrides=kernel.overrides,
    )
    multiply = replace(kernel, name="matmul_subgroup_matrix", operands=(), types=(), overrides=())
    return matrix_dispatches(split, multiply, f16_parts(gemm, target), gemm, out, target)
