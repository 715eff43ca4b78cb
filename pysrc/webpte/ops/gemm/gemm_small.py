"""Products that are too small to fill a GPU with tiles, and what follows them in one dispatch.

    out = f(alpha * A @ B + beta * addend, y)

wgsl/lib/gemm/gemm_small.wgsl says how: small tiles, many workgroups, and the sum over k shared by
the invocations of each. A is [m, k] in memory, B [n, k] or [k, n], and k is whole quads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.ops.core.args import TensorArg
from webpte.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.ops.core.row_reduction import power_of_two
from webpte.ops.core.target import GPU, Target
from webpte.ops.gemm.gemm import Gemm, Types


@dataclass(frozen=True)
class Shape:
    """What a workgroup makes: quads of rows and of columns; with 2 blocks twice as many of both."""

    row_quads: int
    column_quads: int
    blocks: int = 1

    @property
    def label(self) -> str:
        rows, columns = (4 * self.blocks * quads for quads in (self.row_quads, self.column_quads))
        return f"{rows}x{columns}/{self.blocks}"

    def parts(self, m: int, n: int) -> tuple[int, int]:
        rows, columns = (4 * self.blocks * quads for quads in (self.row_quads, self.column_quads))
        return ceil_div(m, rows), ceil_div(n, columns)

    def types(self, workgroups: int) -> Types:
        return (
            ("AHEAD", str(1 + (workgroups < FEW))),
            ("BLOCKS", str(self.blocks)),
            ("COLUMN_QUADS", str(self.column_quads)),
            ("ROW_QUADS", str(self.row_quads)),
        )


# The largest first, each with how many workgroups of it are enough for a GPU of 132 cores. Where B
# is [n, k], many slices side by side read whole lines of memory, so that there are 16 of them.
SHAPES = {
    True: ((Shape(4, 4, 2), 250), (Shape(4, 4), 0)),
    False: ((Shape(8, 8), 96), (Shape(4, 8), 96), (Shape(4, 4), 0)),
}
FEW = 264  # fewer workgroups leave the registers for one step more that is on its way
# From so many multiplications on, tiles that read less are faster.
MOST_WORK = 1 << 29

QUAD_OF_QUADS = "Quad(b[at / 4u])"
QUAD_OF_ELEMENTS = "Quad(Number(b[at]), Number(b[at + 1u]), Number(b[at + 2u]), Number(b[at + 3u]))"


@dataclass(frozen=True)
class Epilogue:
    """What becomes of a product's sums: a formula of them, `x`, and of what lies beside them, `y`.

    That has an element for each of the output's, or (`per_row`) for each row. Where it is shorter
    than the output, y is 0 from its end on.
    """

    beside: TensorArg | None = None
    formula: str = "x"
    scalars: tuple[float, ...] = ()  # a, b and c of the formula
    per_row: bool = False

    @property
    def params(self) -> bytes:
        length = self.beside.numel if self.beside else 0
        return pack("3fI", *[*self.scalars, 0.0, 0.0, 0.0][:3], length)

    @property
    def override(self) -> tuple[str, int]:
        return "BESIDE", 0 if self.beside is None else 1 + self.per_row


def adding(residual: TensorArg | None) -> Epilogue:
    """A sum like the output, if there is something to add."""
    return Epilogue() if residual is None else Epilogue(residual, "x + y")


@dataclass(frozen=True)
class SmallGemm:
    """A product of plain matrices: where they are, and how far apart those of a batch."""

    product: Gemm
    a: Binding
    b: Binding
    a_batch: int
    b_batch: int
    b_k_first: bool
    ending: Epilogue = Epilogue()
    target: Target = GPU

    def dispatch(self, out: Binding) -> Dispatch:
        product = self.product
        shape = choose_shape(product, self.b_k_first, self.target)
        m_parts, n_parts = shape.parts(product.m, product.n)
        whole = self.b_k_first or product.n % 4 == 0
        beside = self.ending.beside
        return Dispatch(
            kernel="gemm_small",
            bindings=(
                *(self.a, self.b, product.addend_id),
                *(None if beside is None else beside.id, out),
            ),
            params=product.params(m_parts, n_parts, k_part=product.k)
            + pack("2I", self.a_batch, self.b_batch)
            + self.ending.params,
            grid=fold_grid(m_parts * n_parts * product.batches),
            types=(
                ("B_QUAD", QUAD_OF_QUADS if whole else QUAD_OF_ELEMENTS),
                ("B_STORED", f"vec4<{product.stored}>" if whole else product.stored),
                ("FORMULA", self.ending.formula),
                *shape.types(m_parts * n_parts * product.batches),
                *product.types(product.stored),
            ),
            overrides=(("B_K_FIRST", self.b_k_first), self.ending.override),
        )


def choose_shape(product: Gemm, b_k_first: bool, target: Target, name: str = "") -> Shape:
    """What was measured on this adapter, or else the largest of which there are enough."""
    default = shape_of(product.m, product.n, product.batches, b_k_first)
    if not target.asks:
        return default
    candidates = {shape.label: shape for shape in (default, *(s for s, _ in SHAPES[b_k_first]))}
    rows = f"m{power_of_two(product.m)} n{product.n} k{product.k} x{product.batches}"
    shape_class = f"{rows} {product.stored} {'nk' if b_k_first else 'kn'}"
    return target.choice(name or "gemm_small", shape_class, default.label, candidates)


def shape_of(m: int, n: int, batches: int, b_k_first: bool) -> Shape:
    """The largest of which there are enough."""
    shapes = SHAPES[b_k_first]
    found = (s for s, enough in shapes if math.prod(s.parts(m, n)) * batches >= enough)
    return next(found, shapes[-1][0])


def is_small(product: Gemm) -> bool:
    """Whether this way is the one for a product of many rows."""
    work = product.m * product.n * product.k * product.batches
    return 0 < work <= MOST_WORK and product.k % 4 == 0 and product.stored != "i32"
