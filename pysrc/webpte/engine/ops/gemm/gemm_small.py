"""Small GEMMs: too few tiles to fill a GPU, and an epilogue in the same dispatch.

    out = f(alpha * A @ B + beta * addend, residual)

wgsl/lib/gemm/gemm_small.wgsl uses small tiles and many workgroups, and splits the sum over k among
a workgroup's invocations. A is [m, k] in memory, B [n, k] or [k, n], and k is a multiple of four.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.gemm.lib.gemm import Gemm, Types


@dataclass(frozen=True)
class SmallTile:
    """The tile of a workgroup in quads of rows and columns; 2 blocks double it both ways."""

    row_quads: int
    column_quads: int
    blocks: int = 1

    @property
    def label(self) -> str:
        rows, columns = (4 * self.blocks * quads for quads in (self.row_quads, self.column_quads))
        return f"{rows}x{columns}/{self.blocks}"

    def parts(self, m: int, n: int) -> tuple[int, int]:
        """Return the number of tiles along m and n."""
        rows, columns = (4 * self.blocks * quads for quads in (self.row_quads, self.column_quads))
        return ceil_div(m, rows), ceil_div(n, columns)

    def types(self, workgroups: int, target: Target) -> Types:
        """Return the text constants of wgsl/lib/gemm/gemm_small.wgsl."""
        return (
            ("AHEAD", str(1 + (workgroups < target.adapter.workgroups(FEW)))),
            ("BLOCKS", str(self.blocks)),
            ("COLUMN_QUADS", str(self.column_quads)),
            ("ROW_QUADS", str(self.row_quads)),
        )


# The largest first, each with how many of its workgroups fill a GPU of 132 cores. If B is [n, k],
# many slices side by side read whole lines of memory, so there are 16 slices.
TILES = {
    True: ((SmallTile(4, 4, 2), 250), (SmallTile(4, 4), 0)),
    False: ((SmallTile(8, 8), 96), (SmallTile(4, 8), 96), (SmallTile(4, 4), 0)),
}
FEW = 264  # fewer workgroups on it leave registers to prefetch another step
# Above this many multiplications, larger tiles are faster.
MOST_WORK = 1 << 29

QUAD_OF_QUADS = "Quad(b[at / 4u])"
QUAD_OF_ELEMENTS = "Quad(Number(b[at]), Number(b[at + 1u]), Number(b[at + 2u]), Number(b[at + 3u]))"


@dataclass(frozen=True)
class SmallGemm:
    """A GEMM of plain matrices: its operands, and the strides between matrices of a batch."""

    gemm: Gemm
    a: Binding
    b: Binding
    a_batch: int
    b_batch: int
    b_k_first: bool
    epilogue: Epilogue
    target: Target

    def dispatch(self, out: Binding) -> Dispatch:
        """Return the single dispatch."""
        gemm, epilogue = self.gemm, self.epilogue
        tile = choose_small_tile(gemm, self.b_k_first, self.target)
        m_parts, n_parts = tile.parts(gemm.m, gemm.n)
        whole = self.b_k_first or gemm.n % 4 == 0
        return Dispatch(
            kernel="gemm_small",
            bindings=(self.a, self.b, gemm.addend_id, epilogue.residual_id, out),
            params=gemm.params(m_parts, n_parts, k_part=gemm.k)
            + pack("2I", self.a_batch, self.b_batch)
            + pack("3fI", *epilogue.first_scalars(3), epilogue.residual_numel),
            grid=fold_grid(m_parts * n_parts * gemm.batches),
            types=(
                ("B_QUAD", QUAD_OF_QUADS if whole else QUAD_OF_ELEMENTS),
                ("B_STORED", f"vec4<{gemm.stored}>" if whole else gemm.stored),
                *epilogue.types,
                *tile.types(m_parts * n_parts * gemm.batches, self.target),
                *gemm.types(gemm.stored),
            ),
            overrides=(("B_K_FIRST", self.b_k_first), epilogue.override),
        )


def choose_small_tile(gemm: Gemm, b_k_first: bool, target: Target, name: str = "") -> SmallTile:
    """Return the tile measured fastest on this adapter, or the default."""
    default = default_small_tile(gemm, b_k_first, target)
    if not target.wants_candidates:
        return default
    candidates = {tile.label: tile for tile in (default, *(t for t, _ in TILES[b_k_first]))}
    rows = f"m{power_of_two(gemm.m)} n{gemm.n} k{gemm.k} x{gemm.batches}"
    shape_class = f"{rows} {gemm.stored} {'nk' if b_k_first else 'kn'}"
    return target.choice(name or "gemm_small", shape_class, default.label, candidates)


def default_small_tile(gemm: Gemm, b_k_first: bool, target: Target) -> SmallTile:
    """Return the largest tile that yields enough workgroups."""
    *larger, (smallest, _) = TILES[b_k_first]
    for tile, enough in larger:
        workgroups = math.prod(tile.parts(gemm.m, gemm.n)) * gemm.batches
        if workgroups >= target.adapter.workgroups(enough):
            return tile
    return smallest


def is_small(gemm: Gemm) -> bool:
    """Return whether a GEMM with many rows is small enough for this kernel."""
    work = gemm.m * gemm.n * gemm.k * gemm.batches
    return 0 < work <= MOST_WORK and gemm.k % 4 == 0 and gemm.stored != "i32"
