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
    halves_memory,
    matrix_dispatches,
    parts_of,
    takes_matrices,
)

# B becomes half floats with every call, which takes as long as a product of fewer rows by floats,
# and memory as large as B.
FEWEST_ROWS, MOST_BYTES = 128, 1 << 28


def takes_matmul(product: Gemm, target: Target) -> bool:
    """For A [m, k] and B [n, k]."""
    small = halves_memory(product, product.m + product.n).nbytes <= MOST_BYTES
    return product.m >= FEWEST_ROWS and small and takes_matrices(product, target)


def matrix_matmul(kernel: GemmKernel, product: Gemm, out: int, target: Target) -> list[Dispatch]:
    """`kernel` is that of tiles: it binds A and B."""
    rows = product.m + product.n
    halves = Dispatch(
        kernel="matmul_split_f16",
        bindings=(*kernel.operands, halves_memory(product, rows), exponents_memory(product)),
        params=product.params(1, 1),
        grid=fold_grid(rows),
        types=product.types(product.stored),
        overrides=kernel.overrides,
    )
    parts = (("B_PARTS", parts_of(product)),)
    multiply = replace(
        kernel, name="matmul_subgroup_matrix", operands=(), types=parts, overrides=()
    )
    return matrix_dispatches(halves, multiply, product, out, target)
