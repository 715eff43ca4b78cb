"""Products of one row of x with quantized weights: which are taken, and how they are cut.

The counterpart of wgsl/lib/gemm/gemv_q4.wgsl. Its kernels take wide weights whose rows are whole
units and multiples of four in number; the rest is left to the kernels for few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webpte.ops.core.records import Binding, Dispatch, ceil_div, fold_grid
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import Gemm, GemmKernel, Types
from webpte.ops.gemm.packed_weights import BYTES, Quantized

FOLDS, SQUARE_FOLDS, QUAD_BYTES = 8, 32, 16  # of the shader
MOST_STAGED_BYTES = 8192
# Where the rows of W are so many that they alone keep a GPU busy.
MANY_ROWS = 32768


@dataclass(frozen=True)
class RowCut:
    """How a workgroup is made: `slices` invocations along k share four columns."""

    threads: int
    slices: int

    @property
    def label(self) -> str:
        return f"{self.threads}/{self.slices}"

    @property
    def columns(self) -> int:
        return 4 * (self.threads // self.slices)

    def chunk(self, weights: Quantized) -> int:
        """Turns whose x is in shared memory at once: all, unless x is long."""
        turns = ceil_div(weights.steps, self.slices)
        turn_bytes = self.slices * quads_per_unit(weights) * QUAD_BYTES
        return turns if turns * turn_bytes <= MOST_STAGED_BYTES else 1

    def shared_bytes(self, weights: Quantized, matrices: int) -> int:
        """What the shader declares."""
        sums = matrices * (self.threads + self.columns // 4 * FOLDS)
        staged = self.chunk(weights) * self.slices * quads_per_unit(weights)
        return (staged + sums) * QUAD_BYTES + (self.threads + SQUARE_FOLDS) * 4

    def types(self, weights: Quantized, matrices: int) -> Types:
        return (
            ("CHUNK", str(self.chunk(weights))),
            ("MATRICES", str(matrices)),
            ("SLICES", str(self.slices)),
            ("THREADS", str(self.threads)),
            ("UNITS", str(weights.steps)),
            ("X_QUADS", str(quads_per_unit(weights))),
        )


def quads_per_unit(weights: Quantized) -> int:
    """Of x, for the 16 bytes of a unit."""
    return 4 if weights.format == BYTES else 8


def is_gemv(product: Gemm, weights: Sequence[Quantized]) -> bool:
    """Return whether the GEMV kernels take a GEMM."""
    whole = all(w.in_quads and w.inner == w.steps * quads_per_unit(w) * 4 for w in weights)
    return product.m == 1 and product.batches == 1 and product.n > 0 and product.k > 0 and whole


CUTS = tuple(RowCut(*cut) for cut in ((128, 16), (128, 32), (128, 64), (256, 64), (64, 16)))


def choose_cut(weights: Quantized, matrices: int, target: Target) -> RowCut:
    """What was measured on this adapter, or else what was on another; never too large."""
    default = default_cut(weights, matrices, target)
    fitting = [c for c in CUTS if c.shared_bytes(weights, matrices) <= target.shared_bytes]
    candidates = {cut.label: cut for cut in (default, *fitting)}
    shape_class = f"n{weights.rows} k{weights.inner} format{weights.format} x{matrices}"
    return target.choice("gemv_q4", shape_class, default.label, candidates)


def default_cut(weights: Quantized, matrices: int, target: Target) -> RowCut:
    """Measured: many slices where there are few columns, and few where their setting up counts."""
    if weights.rows >= MANY_ROWS:
        wanted = RowCut(128, 16)
    elif weights.steps <= 32:
        wanted = RowCut(128, 32)
    elif matrices > 1:
        wanted = RowCut(256, 64)
    else:
        wanted = RowCut(128, 64)
    if wanted.shared_bytes(weights, matrices) <= target.shared_bytes:
        return wanted
    return RowCut(64, 16)


def row_dispatch(
    kernel: GemmKernel,
    product: Gemm,
    bindings: Sequence[Binding],
    cut: RowCut,
    workgroups: int | None = None,
) -> Dispatch:
    """`bindings` are those behind the kernel's operands."""
    return Dispatch(
        kernel=kernel.name,
        bindings=(*kernel.operands, *bindings),
        params=product.params(1, ceil_div(product.n, cut.columns), k_part=product.k)
        + kernel.params,
        grid=fold_grid(workgroups or ceil_div(product.n, cut.columns)),
        types=(*kernel.types, *product.types(product.stored)),
        overrides=kernel.overrides,
    )
