"""How matrix products are cut into workgroups: what the families around them share.

    out[batch, row, column] = alpha * sum over k of A[row, k] * B[k, column] + beta * addend

Many rows: tiles of wgsl/lib/tiles.wgsl, as large as leaves every core of a GPU something to do;
where even small tiles are too few, several workgroups share the sum over k, and matmul_sum.wgsl
adds up their parts. Few rows: wgsl/lib/slices.wgsl, which reads B once and as fast as it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from webpte.ops.args import TensorArg
from webpte.ops.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack

K_STEP = 16  # of wgsl/lib/tiles.wgsl
SUM_WORKGROUP = 64  # of wgsl/lib/grid.wgsl

Types = tuple[tuple[str, str], ...]
Overrides = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Product:
    """The sizes of a product, and what is added to it."""

    m: int
    n: int
    k: int
    batches: int = 1
    addend: int | None = None  # value id
    addend_strides: tuple[int, int] = (0, 0)  # of a row and of a column
    alpha: float = 1
    beta: float = 0
    type: str = "f32"  # that is computed in: f32 or i32

    @property
    def empty(self) -> bool:
        return self.batches * self.m * self.n == 0

    def with_bias(self, bias: TensorArg | None) -> Product:
        """Adds one number per column, or one for all of them."""
        if bias is None:
            return self
        return replace(self, addend=bias.id, addend_strides=(0, int(bias.numel > 1)), beta=1)

    def params(self, m_parts: int, n_parts: int, k_parts: int = 1, k_part: int = 0) -> bytes:
        """`Product` of wgsl/lib/product.wgsl."""
        scalar = self.type[0]
        return pack(
            f"10I2{scalar}",
            *(self.m, self.n, self.k, self.batches),
            *(m_parts, n_parts, k_parts, k_part or self.k),
            *self.addend_strides,
            *(self.alpha, self.beta),
        )


@dataclass(frozen=True)
class Kernel:
    """A WGSL file and what it needs beside the product: the bindings before the addend's."""

    name: str
    operands: tuple[Binding, ...]
    types: Types = ()
    overrides: Overrides = ()
    params: bytes = b""  # what follows the product in the params block


@dataclass(frozen=True)
class Tiling:
    """The constants of wgsl/lib/tiles.wgsl."""

    threads_m: int
    threads_n: int
    row_quads: int
    column_quads: int

    @property
    def rows(self) -> int:
        return 4 * self.threads_m * self.row_quads

    @property
    def columns(self) -> int:
        return 4 * self.threads_n * self.column_quads

    def tiles(self, product: Product) -> int:
        m_parts, n_parts = ceil_div(product.m, self.rows), ceil_div(product.n, self.columns)
        return m_parts * n_parts * product.batches

    @property
    def types(self) -> Types:
        return (
            ("COLUMN_QUADS", str(self.column_quads)),
            ("ROW_QUADS", str(self.row_quads)),
            ("THREADS_M", str(self.threads_m)),
            ("THREADS_N", str(self.threads_n)),
        )


# Largest first: the larger, the fewer reads per multiplication.
TILINGS = (Tiling(16, 16, 2, 2), Tiling(8, 8, 2, 2), Tiling(8, 8, 1, 1))
# A large GPU has some hundred cores, and each wants more than one workgroup.
ENOUGH_TILES = 256
MIN_K_PART = 128  # below that, a part's own costs show


def choose_tiling(product: Product) -> Tiling:
    for tiling in TILINGS:
        if tiling.tiles(product) >= ENOUGH_TILES:
            return tiling
    return TILINGS[-1]


def split_k(product: Product, tiling: Tiling) -> tuple[int, int]:
    """Parts along k, and the length of each."""
    wanted = ENOUGH_TILES // max(tiling.tiles(product), 1)
    parts = max(1, min(wanted, product.k // MIN_K_PART))
    length = K_STEP * ceil_div(ceil_div(product.k, parts), K_STEP)
    return (ceil_div(product.k, length), length) if length else (1, 0)


def tile_dispatches(kernel: Kernel, product: Product, out: int) -> list[Dispatch]:
    """The product in tiles, and where it was cut along k, the sum of the parts."""
    if product.empty:
        return []
    tiling = choose_tiling(product)
    k_parts, k_part = split_k(product, tiling)
    m_parts, n_parts = ceil_div(product.m, tiling.rows), ceil_div(product.n, tiling.columns)
    plain = replace(product, addend=None, addend_strides=(0, 0), alpha=1, beta=0)
    first = plain if k_parts > 1 else product
    target = parts_memory(product, k_parts) if k_parts > 1 else out
    dispatches = [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, first.addend, target),
            params=first.params(m_parts, n_parts, k_parts, k_part) + kernel.params,
            grid=fold_grid(m_parts * n_parts * k_parts * product.batches),
            types=(*kernel.types, *tiling.types, ("TYPE", product.type)),
            overrides=kernel.overrides,
        )
    ]
    if k_parts > 1:
        dispatches.append(sum_dispatch(product, k_parts, target, out))
    return dispatches


def parts_memory(product: Product, k_parts: int) -> Scratch:
    """Sizes are powers of two, so that changing shapes share a few buffers."""
    elements = k_parts * product.batches * product.m * product.n
    return Scratch("matmul parts", 4 << (elements - 1).bit_length())


def sum_dispatch(product: Product, k_parts: int, parts: Binding, out: int) -> Dispatch:
    elements = product.batches * product.m * product.n
    return Dispatch(
        kernel="matmul_sum",
        bindings=(parts, product.addend, out),
        params=product.params(1, 1, k_parts),
        grid=fold_grid(ceil_div(elements, SUM_WORKGROUP)),
        types=(("TYPE", product.type),),
    )


# Rows that one workgroup of slices takes at once, and up to how many rows slices beat tiles.
ROWS_AT_ONCE = (1, 2, 4)
MAX_SLICED_ROWS = 16


def is_sliced(product: Product) -> bool:
    return product.m <= MAX_SLICED_ROWS


def slice_dispatch(
    kernel: Kernel, product: Product, out: int, lanes: int, threads: int
) -> list[Dispatch]:
    """A product of few rows; `lanes` invocations side by side have four columns each."""
    if product.empty:
        return []
    rows = next((rows for rows in ROWS_AT_ONCE if rows >= product.m), ROWS_AT_ONCE[-1])
    m_parts, n_parts = ceil_div(product.m, rows), ceil_div(product.n, 4 * lanes)
    return [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, product.addend, out),
            params=product.params(m_parts, n_parts) + kernel.params,
            grid=fold_grid(m_parts * n_parts * product.batches),
            types=(
                *kernel.types,
                ("LANES", str(lanes)),
                ("ROWS", str(rows)),
                ("THREADS", str(threads)),
                ("TYPE", product.type),
            ),
            overrides=kernel.overrides,
        )
    ]
