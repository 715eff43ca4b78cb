"""How matrix products are cut into workgroups: what the families around them share.

    out[batch, row, column] = alpha * sum over k of A[row, k] * B[k, column] + beta * addend

Many rows: tiles of wgsl/lib/gemm/gemm_tile.wgsl, as large as leaves every core of a GPU something
to do; where even small tiles are too few, several workgroups share the sum over k, and
gemm_split_k_sum.wgsl adds up their parts. Few rows: wgsl/lib/gemm/gemm_skinny.wgsl, which reads B
once and as fast as it can. A software adapter gets the plain loops of
wgsl/lib/gemm/gemm_simple.wgsl, which it compiles at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, TypeVar

from webpte.ops.core.args import TensorArg
from webpte.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.ops.core.row_reduction import power_of_two
from webpte.ops.core.target import GPU, Target

K_STEP = 16  # of wgsl/lib/gemm/gemm_tile.wgsl
SUM_WORKGROUP = 64  # of wgsl/lib/grid.wgsl

Types = tuple[tuple[str, str], ...]
Overrides = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Gemm:
    """The sizes of a product, and what is added to it."""

    m: int
    n: int
    k: int
    batches: int = 1
    addend: TensorArg | None = None
    addend_strides: tuple[int, int] = (0, 0)  # of a row and of a column
    alpha: float = 1
    beta: float = 0
    stored: str = "f32"  # how the tensors lie in memory: f32, f16 or i32

    @property
    def type(self) -> str:
        """That is computed in, and that parts of sums are stored in."""
        return "i32" if self.stored == "i32" else "f32"

    @property
    def empty(self) -> bool:
        return self.batches * self.m * self.n == 0

    @property
    def plain(self) -> Gemm:
        """The sums alone, with nothing added."""
        return Gemm(self.m, self.n, self.k, self.batches, stored=self.stored)

    def with_bias(self, bias: TensorArg | None) -> Gemm:
        """Adds one number per column, or one for all of them."""
        if bias is None:
            return self
        return replace(self, addend=bias, addend_strides=(0, int(bias.numel > 1)), beta=1)

    def can_add(self, other: TensorArg) -> bool:
        """Whether a tensor with an element for each of the product's may be added to it."""
        return (
            self.addend is None
            and self.batches == 1
            and other.numel == self.m * self.n
            and other.dtype.is_float
        )

    def plus(self, other: TensorArg | None) -> Gemm:
        """With such a tensor added."""
        if other is None:
            return self
        return replace(self, addend=other, addend_strides=(self.n, 1), beta=1)

    @property
    def addend_id(self) -> int | None:
        return None if self.addend is None else self.addend.id

    def types(self, out: str) -> Types:
        """Of wgsl/lib/gemm/gemm.wgsl, for a dispatch whose output has elements `out`."""
        return (("OUT", out), ("STORED", self.stored), ("TYPE", self.type))

    def params(self, m_parts: int, n_parts: int, k_parts: int = 1, k_part: int = 0) -> bytes:
        """`Gemm` of wgsl/lib/gemm/gemm.wgsl."""
        return pack(
            f"10I2{self.type[0]}",
            *(self.m, self.n, self.k, self.batches),
            *(m_parts, n_parts, k_parts, k_part),
            *self.addend_strides,
            *(self.alpha, self.beta),
        )


@dataclass(frozen=True)
class GemmKernel:
    """A WGSL file and what it needs beside the product: the bindings before the addend's."""

    name: str
    operands: tuple[Binding, ...]
    types: Types = ()
    overrides: Overrides = ()
    params: bytes = b""  # what follows the product in the params block


@dataclass(frozen=True)
class TileConfig:
    """The constants of wgsl/lib/gemm/gemm_tile.wgsl, and how fast such tiles are where there are
    enough.
    """

    threads_m: int
    threads_n: int
    row_quads: int
    column_quads: int
    speed: float  # operations per microsecond, in millions

    @property
    def rows(self) -> int:
        return 4 * self.threads_m * self.row_quads

    @property
    def columns(self) -> int:
        return 4 * self.threads_n * self.column_quads

    @property
    def threads(self) -> int:
        return self.threads_m * self.threads_n

    def tiles(self, product: Gemm) -> int:
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


# Larger tiles read less per multiplication, smaller ones are more: a GPU has many cores to fill.
TILE_CONFIGS = (
    TileConfig(16, 16, 2, 2, 39.0),
    TileConfig(8, 8, 2, 2, 38.0),
    TileConfig(8, 8, 1, 1, 22.0),
)

# What `cost` reckons with, measured on a GPU of 132 cores; for others, the order matters.
CORES, BUSY_THREADS = 132, 40000
BYTES_PER_MICROSECOND, DISPATCH_MICROSECONDS = 3e6, 3.0
MIN_K_PART, MAX_K_PARTS = 128, 64


class GemmTiles(Protocol):
    """What is asked of a tiling, by whatever means its tiles are multiplied."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def speed(self) -> float: ...

    @property
    def types(self) -> Types: ...

    def tiles(self, product: Gemm) -> int: ...


T = TypeVar("T", bound=GemmTiles)


def cost(product: Gemm, tiling: GemmTiles, k_parts: int) -> float:
    """About how many microseconds it takes."""
    workgroups = tiling.tiles(product) * k_parts
    busy = min(1.0, workgroups / CORES, (workgroups * tiling.threads / BUSY_THREADS) ** 0.5)
    operations = 2 * tiling.tiles(product) * tiling.rows * tiling.columns * product.k
    time = operations / (tiling.speed * 1e6) / busy
    if k_parts == 1:
        return time
    moved = (2 * k_parts + 1) * 4 * product.batches * product.m * product.n
    return time + DISPATCH_MICROSECONDS + moved / BYTES_PER_MICROSECOND


def fastest_cuts(product: Gemm, tilings: Sequence[T]) -> list[tuple[T, int]]:
    """Tilings, and into how many parts to cut k: those that take least time first."""
    most = max(1, min(MAX_K_PARTS, product.k // MIN_K_PART))
    cuts = [(tiling, 1 << i) for tiling in tilings for i in range(most.bit_length())]
    return sorted(cuts, key=lambda cut: cost(product, *cut))


@lru_cache(256)  # a model has few sizes, in many layers
def choose_tile_config(product: Gemm) -> tuple[TileConfig, int]:
    return fastest_cuts(product, TILE_CONFIGS)[0]


def part_length(k: int, parts: int) -> int:
    """Whole steps of the kernel, except for the last part."""
    return max(K_STEP, K_STEP * ceil_div(ceil_div(k, parts), K_STEP))


MOST_CANDIDATES = 6


def tuned_tile_config(name: str, product: Gemm, target: Target) -> tuple[TileConfig, int]:
    """What was measured on this adapter, or else what `cost` says is the fastest."""
    rows = f"m{power_of_two(product.m)} n{product.n} k{product.k}"
    shape_class = f"{rows} x{product.batches} {product.stored}"
    return tuned_cut(name, shape_class, product, choose_tile_config(product), TILE_CONFIGS, target)


def tuned_cut(
    name: str,
    shape_class: str,
    product: Gemm,
    default: tuple[T, int],
    tilings: Sequence[T],
    target: Target,
) -> tuple[T, int]:
    if not target.asks:
        return default
    cuts = (default, *fastest_cuts(product, tilings)[:MOST_CANDIDATES])
    candidates = {cut_label(cut): cut for cut in cuts}
    return target.choice(f"{name} tiles", shape_class, cut_label(default), candidates)


def cut_label(cut: tuple[GemmTiles, int]) -> str:
    tiling, k_parts = cut
    return f"{tiling.rows}x{tiling.columns}/{tiling.threads} k/{k_parts}"


def tile_dispatches(
    kernel: GemmKernel, product: Gemm, out: int, target: Target = GPU
) -> list[Dispatch]:
    """The product in tiles, and where it was cut along k, the sum of the parts."""
    if product.empty:
        return []
    return split_k_dispatches(
        kernel, product, out, tuned_tile_config(kernel.name, product.plain, target)
    )


def split_k_dispatches(
    kernel: GemmKernel, product: Gemm, out: int, cut: tuple[GemmTiles, int]
) -> list[Dispatch]:
    tiling, wanted = cut
    k_part = part_length(product.k, wanted)
    k_parts = max(1, ceil_div(product.k, k_part))
    m_parts, n_parts = ceil_div(product.m, tiling.rows), ceil_div(product.n, tiling.columns)
    first = product.plain if k_parts > 1 else product
    written_to = parts_memory(product, k_parts) if k_parts > 1 else out
    written = product.type if k_parts > 1 else product.stored
    dispatches = [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, first.addend_id, written_to),
            params=first.params(m_parts, n_parts, k_parts, k_part) + kernel.params,
            grid=fold_grid(m_parts * n_parts * k_parts * product.batches),
            types=(*kernel.types, *tiling.types, *product.types(written)),
            overrides=kernel.overrides,
        )
    ]
    if k_parts > 1:
        dispatches.append(sum_dispatch(product, k_parts, written_to, out))
    return dispatches


def parts_memory(product: Gemm, k_parts: int) -> Scratch:
    """Sizes are powers of two, so that changing shapes share a few buffers."""
    elements = k_parts * product.batches * product.m * product.n
    return Scratch("matmul parts", 4 * power_of_two(elements))


def sum_dispatch(product: Gemm, k_parts: int, parts: Binding, out: int) -> Dispatch:
    elements = product.batches * product.m * product.n
    return Dispatch(
        kernel="gemm_split_k_sum",
        bindings=(parts, product.addend_id, out),
        params=product.params(1, 1, k_parts),
        grid=fold_grid(ceil_div(elements, SUM_WORKGROUP)),
        types=product.types(product.stored),
    )


def simple_dispatches(kernel: GemmKernel, product: Gemm, out: int) -> list[Dispatch]:
    """The product for a software adapter: blocks of up to 4 x 4, one to an invocation."""
    if product.empty:
        return []
    rows = 1 if product.m == 1 else 4
    m_parts, n_parts = ceil_div(product.m, rows), ceil_div(product.n, 4)
    return [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, product.addend_id, out),
            params=product.params(m_parts, n_parts, k_part=product.k) + kernel.params,
            grid=fold_grid(ceil_div(m_parts * n_parts * product.batches, SUM_WORKGROUP)),
            types=(*kernel.types, ("ROWS", str(rows)), *product.types(product.stored)),
            overrides=kernel.overrides,
        )
    ]


# Rows that one workgroup of slices takes at once, and up to how many rows slices beat tiles.
ROWS_AT_ONCE = (1, 2, 4)
MAX_SLICED_ROWS = 16


def is_skinny(product: Gemm) -> bool:
    return product.m <= MAX_SLICED_ROWS


def rows_at_once(product: Gemm) -> int:
    return next((rows for rows in ROWS_AT_ONCE if rows >= product.m), ROWS_AT_ONCE[-1])


@dataclass(frozen=True)
class SkinnyConfig:
    """The constants of wgsl/lib/gemm/gemm_skinny.wgsl: `lanes` invocations side by side, 4 columns
    each.
    """

    lanes: int
    threads: int


def choose_skinny_config(steps: int, threads: int, most: int) -> SkinnyConfig:
    """As many slices along k as it has steps, `most` at most; lanes for the other threads."""
    slices = min(power_of_two(steps), most)
    return SkinnyConfig(threads // slices, threads)


def skinny_dispatches(
    kernel: GemmKernel, product: Gemm, out: int, slicing: SkinnyConfig
) -> list[Dispatch]:
    """A product of few rows."""
    if product.empty:
        return []
    rows = rows_at_once(product)
    m_parts, n_parts = ceil_div(product.m, rows), ceil_div(product.n, 4 * slicing.lanes)
    return [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, product.addend_id, out),
            params=product.params(m_parts, n_parts, k_part=product.k) + kernel.params,
            grid=fold_grid(m_parts * n_parts * product.batches),
            types=(
                *kernel.types,
                ("LANES", str(slicing.lanes)),
                ("ROWS", str(rows)),
                ("THREADS", str(slicing.threads)),
                *product.types(product.stored),
            ),
            overrides=kernel.overrides,
        )
    ]
