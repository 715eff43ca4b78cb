"""GEMM sizes, tile configs and dispatches: the base of the families around matrix multiplication.

    out[batch, row, column] = alpha * sum over k of A[row, k] * B[k, column] + beta * addend

Many rows: the largest tiles of wgsl/lib/gemm/gemm_tile.wgsl that still give every core of a GPU
work. If even small tiles are too few, several workgroups share the sum over k (split-K), and
gemm_split_k_sum.wgsl adds up their parts. Few rows (skinny): wgsl/lib/gemm/gemm_skinny.wgsl, which
reads B only once. A software adapter gets the plain loops of wgsl/lib/gemm/gemm_simple.wgsl, which
compile fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

from webpte.engine.ops.core.adapter_classes import LARGE, AdapterClass
from webpte.engine.ops.core.args import TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import GPU, Target

K_STEP = 16  # also in wgsl/lib/gemm/gemm_tile.wgsl

Types = tuple[tuple[str, str], ...]
Overrides = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Gemm:
    """The sizes of a matrix multiplication, and the addend."""

    m: int
    n: int
    k: int
    batches: int = 1
    addend: TensorArg | None = None
    addend_strides: tuple[int, int] = (0, 0)  # between rows and between columns
    alpha: float = 1
    beta: float = 0
    stored: str = "f32"  # element type of the tensors in memory: f32, f16 or i32

    @property
    def type(self) -> str:
        """Element type of the arithmetic and of stored partial sums."""
        return "i32" if self.stored == "i32" else "f32"

    @property
    def empty(self) -> bool:
        return self.batches * self.m * self.n == 0

    @property
    def plain(self) -> Gemm:
        """Copy without the addend."""
        return Gemm(self.m, self.n, self.k, self.batches, stored=self.stored)

    def with_bias(self, bias: TensorArg | None) -> Gemm:
        """Return a copy that adds a bias: a number per column, or a single number."""
        if bias is None:
            return self
        return replace(self, addend=bias, addend_strides=(0, int(bias.numel > 1)), beta=1)

    def can_add(self, other: TensorArg) -> bool:
        """Return whether a tensor can become the addend: an element for each output."""
        return (
            self.addend is None
            and self.batches == 1
            and other.numel == self.m * self.n
            and other.dtype.is_float
        )

    def plus(self, other: TensorArg | None) -> Gemm:
        """Return a copy with a tensor of the output's size as its addend."""
        if other is None:
            return self
        return replace(self, addend=other, addend_strides=(self.n, 1), beta=1)

    @property
    def addend_id(self) -> int | None:
        return None if self.addend is None else self.addend.id

    def types(self, out: str) -> Types:
        """Return the text constants of wgsl/lib/gemm/gemm.wgsl; `out`: output element type."""
        return (("OUT", out), ("STORED", self.stored), ("TYPE", self.type))

    def params(self, m_parts: int, n_parts: int, k_parts: int = 1, k_part: int = 0) -> bytes:
        """Pack the struct `Gemm` of wgsl/lib/gemm/gemm.wgsl."""
        return pack(
            f"10I2{self.type[0]}",
            *(self.m, self.n, self.k, self.batches),
            *(m_parts, n_parts, k_parts, k_part),
            *self.addend_strides,
            *(self.alpha, self.beta),
        )


@dataclass(frozen=True)
class GemmKernel:
    """A WGSL kernel with its bindings before the addend, its constants and its params."""

    name: str
    operands: tuple[Binding, ...]
    types: Types = ()
    overrides: Overrides = ()
    params: bytes = b""  # follow the struct `Gemm` in the params block


@dataclass(frozen=True)
class TileConfig:
    """The constants of wgsl/lib/gemm/gemm_tile.wgsl, and the speed of a full GPU with them."""

    threads_m: int
    threads_n: int
    row_quads: int
    column_quads: int
    speed: float  # operations per microsecond, in millions, on an H200
    k_step: ClassVar[int] = K_STEP

    @property
    def rows(self) -> int:
        return 4 * self.threads_m * self.row_quads

    @property
    def columns(self) -> int:
        return 4 * self.threads_n * self.column_quads

    @property
    def threads(self) -> int:
        return self.threads_m * self.threads_n

    def tiles(self, gemm: Gemm) -> int:
        m_parts, n_parts = ceil_div(gemm.m, self.rows), ceil_div(gemm.n, self.columns)
        return m_parts * n_parts * gemm.batches

    def occupancy(self, workgroups: int, adapter: AdapterClass) -> float:
        threads = workgroups * self.threads
        return min(1.0, workgroups / adapter.cores, (threads / adapter.threads) ** 0.5)

    @property
    def types(self) -> Types:
        return (
            ("COLUMN_QUADS", str(self.column_quads)),
            ("ROW_QUADS", str(self.row_quads)),
            ("THREADS_M", str(self.threads_m)),
            ("THREADS_N", str(self.threads_n)),
        )


# Larger tiles read less per multiplication; smaller tiles keep more cores of a GPU busy.
TILE_CONFIGS = (
    TileConfig(16, 16, 2, 2, 39.0),
    TileConfig(8, 8, 2, 2, 38.0),
    TileConfig(8, 8, 1, 1, 22.0),
)

MIN_K_PART, MAX_K_PARTS = 128, 64


class GemmTiles(Protocol):
    """The tile config of any tiled GEMM kernel."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def speed(self) -> float: ...

    @property
    def k_step(self) -> int: ...

    @property
    def types(self) -> Types: ...

    def tiles(self, gemm: Gemm) -> int: ...

    def occupancy(self, workgroups: int, adapter: AdapterClass) -> float:
        """Estimate the share of its speed that a GPU reaches with this number of workgroups."""
        ...


T = TypeVar("T", bound=GemmTiles)


def cost(gemm: Gemm, tiling: GemmTiles, k_parts: int, adapter: AdapterClass) -> float:
    """Estimate the time of a GEMM in microseconds."""
    workgroups = tiling.tiles(gemm) * k_parts
    operations = 2 * tiling.tiles(gemm) * tiling.rows * tiling.columns * gemm.k
    full_speed = tiling.speed * adapter.speed * 1e6
    time = operations / full_speed / tiling.occupancy(workgroups, adapter)
    if k_parts == 1:
        return time
    moved = (2 * k_parts + 1) * 4 * gemm.batches * gemm.m * gemm.n
    return time + adapter.dispatch + moved / (1e3 * adapter.bandwidth)


def fastest_configs(gemm: Gemm, tilings: Sequence[T], adapter: AdapterClass) -> list[tuple[T, int]]:
    """Return pairs of a tile config and the number of parts of k, the fastest first."""
    most = max(1, min(MAX_K_PARTS, gemm.k // MIN_K_PART))
    configs = [(tiling, 1 << i) for tiling in tilings for i in range(most.bit_length())]
    return sorted(configs, key=lambda config: cost(gemm, config[0], config[1], adapter))


@lru_cache(256)  # a model has few sizes, in many layers
def choose_tile_config(gemm: Gemm, adapter: AdapterClass = LARGE) -> tuple[TileConfig, int]:
    return fastest_configs(gemm, TILE_CONFIGS, adapter)[0]


def split_k_length(k: int, parts: int, k_step: int = K_STEP) -> int:
    """Return the length of a part of k: whole steps of the kernel, except for the last part."""
    return max(k_step, k_step * ceil_div(ceil_div(k, parts), k_step))


MOST_CANDIDATES = 6


def tuned_tile_config(name: str, gemm: Gemm, target: Target) -> tuple[TileConfig, int]:
    """Return the config measured fastest on this adapter, or else estimated to be fastest."""
    rows = f"m{power_of_two(gemm.m)} n{gemm.n} k{gemm.k}"
    shape_class = f"{rows} x{gemm.batches} {gemm.stored}"
    default = choose_tile_config(gemm, target.adapter)
    return tuned_config(name, shape_class, gemm, default, TILE_CONFIGS, target)


def tuned_config(
    name: str,
    shape_class: str,
    gemm: Gemm,
    default: tuple[T, int],
    tilings: Sequence[T],
    target: Target,
) -> tuple[T, int]:
    if not target.wants_candidates:
        return default
    configs = (default, *fastest_configs(gemm, tilings, target.adapter)[:MOST_CANDIDATES])
    candidates = {config_label(config): config for config in configs}
    return target.choice(f"{name} tiles", shape_class, config_label(default), candidates)


def config_label(config: tuple[GemmTiles, int]) -> str:
    tiling, k_parts = config
    return f"{tiling.rows}x{tiling.columns}/{tiling.threads} k/{k_parts}"


def tile_dispatches(
    kernel: GemmKernel, gemm: Gemm, out: int, target: Target = GPU
) -> list[Dispatch]:
    """Return the dispatches of a tiled GEMM; split-K adds a dispatch that sums the parts."""
    if gemm.empty:
        return []
    config = tuned_tile_config(kernel.name, gemm.plain, target)
    return split_k_dispatches(kernel, gemm, out, config, target)


def split_k_dispatches(
    kernel: GemmKernel, gemm: Gemm, out: int, config: tuple[GemmTiles, int], target: Target = GPU
) -> list[Dispatch]:
    """Return the dispatches of a GEMM with as many parts of k as fit into one buffer."""
    tiling, (k_parts, k_part) = config[0], split_k_of(gemm, config, target)
    if k_parts == 1:
        ends = (gemm.addend_id, out)
        return [tiled_dispatch(kernel, gemm, tiling, (1, k_part), ends, gemm.stored)]
    parts = split_k_scratch(gemm, k_parts, target)
    return [
        tiled_dispatch(kernel, gemm.plain, tiling, (k_parts, k_part), (None, parts), gemm.type),
        split_k_sum(gemm, k_parts, parts, out),
    ]


def split_k_of(gemm: Gemm, config: tuple[GemmTiles, int], target: Target) -> tuple[int, int]:
    """Return the number of parts of k, limited by the size of a buffer, and their length."""
    tiling, wanted = config
    most = target.most_splits(4 * gemm.batches * gemm.m * gemm.n)
    k_part = split_k_length(gemm.k, min(wanted, most), tiling.k_step)
    return max(1, ceil_div(gemm.k, k_part)), k_part


def tiled_dispatch(
    kernel: GemmKernel,
    gemm: Gemm,
    tiling: GemmTiles,
    split: tuple[int, int],
    ends: tuple[Binding, ...],
    written: str,
) -> Dispatch:
    """Return the GEMM; `ends` are bound after the operands, `written` is the output's type."""
    m_parts, n_parts = ceil_div(gemm.m, tiling.rows), ceil_div(gemm.n, tiling.columns)
    return Dispatch(
        kernel=kernel.name,
        bindings=(*kernel.operands, *ends),
        params=gemm.params(m_parts, n_parts, *split) + kernel.params,
        grid=fold_grid(m_parts * n_parts * split[0] * gemm.batches),
        types=(*kernel.types, *tiling.types, *gemm.types(written)),
        overrides=kernel.overrides,
    )


def split_k_scratch(gemm: Gemm, k_parts: int, target: Target) -> Scratch:
    """Return scratch memory for the partial sums of split-K."""
    elements = k_parts * gemm.batches * gemm.m * gemm.n
    return Scratch("matmul parts", target.scratch_bytes(4 * elements))


def split_k_sum(gemm: Gemm, k_parts: int, parts: Binding, out: int) -> Dispatch:
    elements = gemm.batches * gemm.m * gemm.n
    return Dispatch(
        kernel="gemm_split_k_sum",
        bindings=(parts, gemm.addend_id, out),
        params=gemm.params(1, 1, k_parts),
        grid=fold_grid(ceil_div(elements, WORKGROUP_SIZE)),
        types=gemm.types(gemm.stored),
    )


def simple_dispatches(kernel: GemmKernel, gemm: Gemm, out: int) -> list[Dispatch]:
    """Return the GEMM for a software adapter: a block of up to 4 x 4 outputs per invocation."""
    if gemm.empty:
        return []
    rows = 1 if gemm.m == 1 else 4
    m_parts, n_parts = ceil_div(gemm.m, rows), ceil_div(gemm.n, 4)
    return [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, gemm.addend_id, out),
            params=gemm.params(m_parts, n_parts, k_part=gemm.k) + kernel.params,
            grid=fold_grid(ceil_div(m_parts * n_parts * gemm.batches, WORKGROUP_SIZE)),
            types=(*kernel.types, ("ROWS", str(rows)), *gemm.types(gemm.stored)),
            overrides=kernel.overrides,
        )
    ]


# Rows per workgroup of the skinny kernel, and the most rows for which it is faster than tiles.
ROWS_AT_ONCE = (1, 2, 4)
MAX_SKINNY_ROWS = 16
BATCH_ROWS = 8  # rows per workgroup for quantized weights and many rows: skinny_config.py


def is_skinny(gemm: Gemm) -> bool:
    return gemm.m <= MAX_SKINNY_ROWS


def rows_at_once(gemm: Gemm) -> int:
    if not is_skinny(gemm):
        return BATCH_ROWS
    return next((rows for rows in ROWS_AT_ONCE if rows >= gemm.m), ROWS_AT_ONCE[-1])


@dataclass(frozen=True)
class SkinnyConfig:
    """The constants of wgsl/lib/gemm/gemm_skinny.wgsl: `lanes` of 4 columns each; `twice`: of 8."""

    lanes: int
    threads: int
    twice: bool = False

    @property
    def columns(self) -> int:
        return self.lanes * (8 if self.twice else 4)


def choose_skinny_config(steps: int, threads: int, most: int) -> SkinnyConfig:
    """Use a slice per step along k, up to `most` slices; the other threads become lanes."""
    slices = min(power_of_two(steps), most)
    return SkinnyConfig(threads // slices, threads)


def skinny_dispatches(
    kernel: GemmKernel, gemm: Gemm, out: int, config: SkinnyConfig
) -> list[Dispatch]:
    """Return the dispatch of a GEMM with few rows."""
    if gemm.empty:
        return []
    rows = rows_at_once(gemm)
    m_parts, n_parts = ceil_div(gemm.m, rows), ceil_div(gemm.n, config.columns)
    return [
        Dispatch(
            kernel=kernel.name,
            bindings=(*kernel.operands, gemm.addend_id, out),
            params=gemm.params(m_parts, n_parts, k_part=gemm.k) + kernel.params,
            grid=fold_grid(m_parts * n_parts * gemm.batches),
            types=(
                *kernel.types,
                ("LANES", str(config.lanes)),
                ("ROWS", str(rows)),
                ("THREADS", str(config.threads)),
                *gemm.types(gemm.stored),
            ),
            overrides=kernel.overrides,
        )
    ]
