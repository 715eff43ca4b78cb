"""GEMV with quantized weights (a single row of x): the GEMMs that its kernels take, and configs.

The counterpart of wgsl/lib/gemm/gemv_q4.wgsl. Its kernels take wide weights whose rows are whole
units and a multiple of four in number; the skinny kernels take the rest. A row that is rounded to
int8 is multiplied in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import Gemm, GemmKernel, Types
from webpte.engine.ops.gemm.lib.packed_weights import BYTES, LOW_FIRST, PackedWeights
from webpte.engine.ops.gemm.lib.prologue import Prologue, quantizes_x

PARTIALS, SCALAR_PARTIALS, QUAD_BYTES = 8, 32, 16  # also in the shaders
CODE_BYTES = 32  # of x for a unit, in wgsl/lib/gemm/gemv_row_int8.wgsl
MOST_STAGED_BYTES = 8192
# Weights with this many rows keep a GPU of 132 cores busy without many slices along k.
MANY_ROWS = 32768


@dataclass(frozen=True)
class GemvConfig:
    """The constants of a workgroup: `slices` invocations along k share four columns.

    `rounded`: x is rounded to int8.
    """

    threads: int
    slices: int
    rounded: bool = False

    @property
    def label(self) -> str:
        return f"{self.threads}/{self.slices}"

    @property
    def columns(self) -> int:
        return 4 * (self.threads // self.slices)

    def chunk(self, weights: PackedWeights) -> int:
        """Return the count of turns whose x is in shared memory at once: all, or 1 for a long x."""
        turns = ceil_div(weights.steps, self.slices)
        turn_bytes = self.slices * quads_per_unit(weights) * QUAD_BYTES
        return turns if turns * turn_bytes <= MOST_STAGED_BYTES else 1

    def shared_bytes(self, weights: PackedWeights, matrices: int) -> int:
        """Return the bytes of shared memory that the kernel declares."""
        if self.rounded:
            stats = self.threads + SCALAR_PARTIALS
            return (self._sums(matrices) + stats) * QUAD_BYTES + weights.steps * CODE_BYTES
        staged = self.chunk(weights) * self.slices * quads_per_unit(weights)
        return self.float_bytes(staged, matrices)

    def float_bytes(self, staged: int, matrices: int) -> int:
        """Return the bytes for a row of floats, of which so many quads are staged at once."""
        floats = self.threads + SCALAR_PARTIALS
        return (staged + self._sums(matrices)) * QUAD_BYTES + floats * 4

    def _sums(self, matrices: int) -> int:
        return matrices * (self.threads + self.columns // 4 * PARTIALS)

    def types(self, weights: PackedWeights, matrices: int) -> Types:
        """Return the text constants of wgsl/lib/gemm/gemv_q4.wgsl and of what x is."""
        return (
            *(() if self.rounded else (("CHUNK", str(self.chunk(weights))),)),
            ("MATRICES", str(matrices)),
            ("ROW", "int8" if self.rounded else "floats"),
            ("SLICES", str(self.slices)),
            ("THREADS", str(self.threads)),
            ("UNITS", str(weights.steps)),
            *(() if self.rounded else (("X_QUADS", str(quads_per_unit(weights))),)),
        )


def quads_per_unit(weights: PackedWeights) -> int:
    """Return how many quads of x match the 16 bytes of a unit."""
    return 4 if weights.format == BYTES else 8


def is_gemv(
    gemm: Gemm, weights: Sequence[PackedWeights], norm: Prologue | None, target: Target
) -> bool:
    """Return whether the GEMV kernels take a GEMM, and its prologue."""
    whole = all(w.in_quads and w.inner == w.steps * quads_per_unit(w) * 4 for w in weights)
    fits = gemm.m == 1 and gemm.batches == 1 and gemm.n > 0 and gemm.k > 0 and whole
    if norm is None or not quantizes_x(norm):
        return fits
    shared = max(replace(SMALLEST, rounded=True).shared_bytes(w, MOST_MATRICES) for w in weights)
    codes = all(w.format == LOW_FIRST for w in weights) and not norm.centered
    return fits and codes and shared <= target.shared_bytes


SMALLEST, MOST_MATRICES = GemvConfig(64, 16), 2
GEMV_CONFIGS = (
    *(GemvConfig(*sizes) for sizes in ((128, 16), (128, 32), (128, 64), (256, 64))),
    SMALLEST,
)


def choose_gemv_config(
    weights: PackedWeights, matrices: int, target: Target, norm: Prologue | None = None
) -> GemvConfig:
    """Return the config measured fastest on this adapter, or the default; never too large."""
    rounded = quantizes_x(norm)
    default = replace(default_gemv_config(weights, matrices, target), rounded=rounded)
    configs = [replace(config, rounded=rounded) for config in GEMV_CONFIGS]
    fitting = [c for c in configs if c.shared_bytes(weights, matrices) <= target.shared_bytes]
    if default not in fitting:
        default = replace(SMALLEST, rounded=rounded)
    candidates = {config.label: config for config in (default, *fitting)}
    shape_class = f"n{weights.rows} k{weights.inner} format{weights.format} x{matrices}"
    shape_class += " int8" if rounded else ""
    return target.choice("gemv_q4", shape_class, default.label, candidates)


def default_gemv_config(weights: PackedWeights, matrices: int, target: Target) -> GemvConfig:
    """Return many slices for few columns, few if their setup would dominate (measured)."""
    if weights.rows >= target.adapter.workgroups(MANY_ROWS):
        wanted = GemvConfig(128, 16)
    elif weights.steps <= 32:
        wanted = GemvConfig(128, 32)
    elif matrices > 1:
        wanted = GemvConfig(256, 64)
    else:
        wanted = GemvConfig(128, 64)
    return wanted if wanted.shared_bytes(weights, matrices) <= target.shared_bytes else SMALLEST


def gemv_dispatch(
    kernel: GemmKernel,
    gemm: Gemm,
    bindings: Sequence[Binding],
    config: GemvConfig,
    workgroups: int | None = None,
) -> Dispatch:
    """Return the dispatch of a GEMV; `bindings` follow the kernel's operands."""
    return Dispatch(
        kernel=kernel.name,
        bindings=(*kernel.operands, *bindings),
        params=gemm.params(1, ceil_div(gemm.n, config.columns), k_part=gemm.k) + kernel.params,
        grid=fold_grid(workgroups or ceil_div(gemm.n, config.columns)),
        types=(*kernel.types, *gemm.types(gemm.stored)),
        overrides=kernel.overrides,
    )
