"""Linear layers of floats by subgroup matrices: see matrix_tiles.py.

matmul_split_f16   the rows of A [m, k] and of B [n, k] as half floats, with their exponents
matmul_subgroup_matrix   the product
"""

from __future__ import annotations

from dataclasses import replace

from webpte.ops.core.records import Dispatch, fold_grid
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import Gemm, GemmKernel
from webpte.ops.gemm.subgroup_matrix import (
    exponents_memory,
    f16_parts,
    matrix_dispatches,
    split_f16_memory,
    takes_matrices,
)

# B becomes half floats with every call, which takes as long as a product of fewer rows by floats,
# and memory as large as B.
FEWEST_ROWS, MOST_BYTES = 128, 1 << 28


def takes_matmul(gemm: Gemm, target: Target) -> bool:
    """For A [m, k] and B [n, k]."""
    small = split_f16_memory(gemm, gemm.m + gemm.n).nbytes <= MOST_BYTES
    return gemm.m >= FEWEST_ROWS and small and takes_matrices(gemm, target)


def matrix_matmul(kernel: GemmKernel, gemm: Gemm, out: int, target: Target) -> list[Dispatch]:
    """`kernel` is that of tiles: it binds A and B."""
    rows = gemm.m + gemm.n
    split = Dispatch(
        kernel="matmul_split_f16",
        bindings=(*kernel.operands, split_f16_memory(gemm, rows), exponents_memory(gemm)),
        params=gemm.params(1, 1),
        grid=fold_grid(rows),
        types=gemm.types(gemm.stored),
        overrides=kernel.overrides,
    )
    parts = (("B_PARTS", f16_parts(gemm)),)
    multiply = replace(
        kernel, name="matmul_subgroup_matrix", operands=(), types=parts, overrides=()
    )
    return matrix_dispatches(split, multiply, gemm, out, target)
