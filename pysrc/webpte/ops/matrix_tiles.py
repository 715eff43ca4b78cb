"""Products of many rows by subgroup matrices: what wgsl/lib/matrix_tiles.wgsl is told.

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

from dataclasses import dataclass
from functools import lru_cache

from webpte.ops.products import (
    MAX_K_PARTS,
    MIN_K_PART,
    MOST_CANDIDATES,
    Kernel,
    Product,
    Types,
    cost,
    part_length,
    parts_memory,
    sum_dispatch,
)
from webpte.ops.records import Dispatch, Scratch, ceil_div, fold_grid
from webpte.ops.rows import power_of_two
from webpte.ops.target import Target

K_STEP = 16  # of wgsl/lib/matrix_tiles.wgsl
SHARED_BYTES = 32768  # that the largest tile fits into


@dataclass(frozen=True)
class MatrixTiling:
    """The constants of wgsl/lib/matrix_tiles.wgsl; `speed` is as a `Tiling`'s."""

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

    def tiles(self, product: Product) -> int:
        return ceil_div(product.m, self.rows) * ceil_div(product.n, self.columns)

    @property
    def types(self) -> Types:
        return (
            ("COLUMN_MATRICES", str(self.column_matrices)),
            ("ROW_MATRICES", str(self.row_matrices)),
            ("SUBGROUP_ROWS", str(self.subgroup_rows)),
        )


# Speeds are guesses, in the order that memory that is read suggests: nothing was measured yet.
MATRIX_TILINGS = (
    MatrixTiling(4, 4, 120.0),
    MatrixTiling(4, 2, 100.0),
    MatrixTiling(2, 2, 70.0),
    MatrixTiling(2, 4, 115.0, subgroup_rows=4),
)
Cut = tuple[MatrixTiling, int]  # and into how many parts k is cut


def cuts_of(product: Product) -> list[Cut]:
    """Those that take least time first."""
    most = max(1, min(MAX_K_PARTS, product.k // MIN_K_PART))
    cuts = [(tiling, 1 << i) for tiling in MATRIX_TILINGS for i in range(most.bit_length())]
    return sorted(cuts, key=lambda cut: cost(product, *cut))


@lru_cache(256)  # a model has few sizes, in many layers
def choose_matrix_tiling(product: Product) -> Cut:
    return cuts_of(product)[0]


def tuned_matrix_tiling(name: str, product: Product, target: Target) -> Cut:
    """What was measured on this adapter, or else what `cost` says is the fastest."""
    default = choose_matrix_tiling(product)
    if not target.asks:
        return default
    cuts = (default, *cuts_of(product)[:MOST_CANDIDATES])
    candidates = {_label(cut): cut for cut in cuts}
    shape_class = f"m{power_of_two(product.m)} n{product.n} k{product.k} {product.stored}"
    return target.choice(f"{name} tiles", shape_class, _label(default), candidates)


def _label(cut: Cut) -> str:
    tiling, k_parts = cut
    return f"{tiling.rows}x{tiling.columns}/{tiling.threads} k/{k_parts}"


def takes_matrices(product: Product, target: Target) -> bool:
    """Whether a product of many rows goes by subgroup matrices on this device."""
    there = target.matrices and not target.software and target.shared_bytes >= SHARED_BYTES
    plain = product.type == "f32" and product.batches == 1
    return there and plain and not product.empty and product.k > 0


def halves_memory(product: Product, rows: int) -> Scratch:
    """For rows of k; sizes are powers of two, so that changing shapes share a few buffers."""
    width = K_STEP * ceil_div(product.k, K_STEP)
    return Scratch("matrix halves", power_of_two(4 * rows * width))


def exponents_memory(product: Product) -> Scratch:
    """For the m rows and behind them the n columns."""
    return Scratch("matrix exponents", power_of_two(4 * (product.m + product.n)))


def parts_of(product: Product) -> str:
    """Half floats for each number: what is stored as one needs no second one."""
    return "1" if product.stored == "f16" else "2"


def matrix_dispatches(
    before: Dispatch, kernel: Kernel, product: Product, out: int, target: Target
) -> list[Dispatch]:
    """What makes the half floats and exponents, the product, and where it was cut, its sum.

    `before` binds the memory of half floats and of exponents last, `kernel` first.
    """
    tiling, wanted = tuned_matrix_tiling(kernel.name, product.plain, target)
    k_part = part_length(product.k, wanted)
    k_parts = max(1, ceil_div(product.k, k_part))
    m_parts, n_parts = ceil_div(product.m, tiling.rows), ceil_div(product.n, tiling.columns)
    first = product.plain if k_parts > 1 else product
    written_to = parts_memory(product, k_parts) if k_parts > 1 else out
    written = product.type if k_parts > 1 else product.stored
    types = (("A_PARTS", parts_of(product)), *tiling.types, *product.types(written))
    operands = (*before.bindings[-2:], *kernel.operands)
    multiply = Dispatch(
        kernel=kernel.name,
        bindings=(*operands, first.addend_id, written_to),
        params=first.params(m_parts, n_parts, k_parts, k_part) + kernel.params,
        grid=fold_grid(m_parts * n_parts * k_parts),
        types=(*kernel.types, *types),
        overrides=kernel.overrides,
    )
    dispatches = [before, multiply]
    if k_parts > 1:
        dispatches.append(sum_dispatch(product, k_parts, written_to, out))
    return dispatches
