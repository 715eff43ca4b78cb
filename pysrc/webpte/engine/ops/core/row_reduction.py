"""Helpers of kernels over rows: threads per row, and splits of long rows.

The counterpart of wgsl/lib/reduce/row_reduction.wgsl. A row is the set of elements that an op
reduces or normalizes at once; its items are elements, or quads where its length allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import Grid, ceil_div, fold_grid
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import normalize_dim, numel
from webpte.errors import GraphError

THREADS = 256  # also in wgsl/lib/reduce/row_reduction.wgsl

# A cache line and a sector of it, in 4-byte elements: adjacent reads of this size are efficient.
LINE, SECTOR = 32, 8

# With fewer workgroups a GPU of 132 cores is mostly idle.
FEW_WORKGROUPS = 128
# A long row is split so that a thread reads a few items, into at most as many parts as fill a GPU.
ITEMS_WORTH_CUTTING, ITEMS_PER_PART, MOST_WORKGROUPS = 32, 4, 512


@dataclass(frozen=True)
class RowThreads:
    """Threads per row, and whether neighbouring threads work on neighbouring rows."""

    lanes: int
    rows_fastest: bool = False

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        return (
            ("GROUPS", 1 << (self.lanes.bit_length() // 2)),
            ("LANES", self.lanes),
            ("ROWS", THREADS // self.lanes),
            ("ROWS_FASTEST", int(self.rows_fastest)),
        )

    def workgroups(self, rows: int) -> int:
        return ceil_div(rows * self.lanes, THREADS)

    def grid(self, rows: int) -> Grid:
        return fold_grid(self.workgroups(rows))

    def parts(self, rows: int, length: int, target: Target = GPU) -> int:
        """Return the number of parts to split each row into so that few long rows fill a GPU."""
        workgroups, few = self.workgroups(rows), target.adapter.workgroups(FEW_WORKGROUPS)
        if length < self.lanes * ITEMS_WORTH_CUTTING or workgroups > few:
            return 1
        if self.lanes == 1:
            # Parts and items per part are about equal: a long sum in a single thread would lose
            # digits.
            return min(4 * ceil_div(math.isqrt(length), 8), MOST_WORKGROUPS)
        most = target.adapter.workgroups(MOST_WORKGROUPS)
        return min(ceil_div(length, self.lanes * ITEMS_PER_PART), most // workgroups)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()


# For software adapters: a single thread per row needs no barriers, which take long to compile.
ONE_LANE = RowThreads(1)


def contiguous_layout(length: int, target: Target) -> RowThreads:
    """Lay out rows with adjacent items: a thread per item, up to a workgroup per row."""
    if target.software:
        return ONE_LANE
    return RowThreads(min(power_of_two(length), THREADS))


def strided_layout(rows: int, length: int, neighbours: int, target: Target) -> RowThreads:
    """Lay out rows with strided items, where `neighbours` rows are adjacent in memory."""
    if target.software:
        return ONE_LANE
    for side_by_side in (LINE, SECTOR):
        columns = power_of_two(min(neighbours, side_by_side))
        layout = RowThreads(min(THREADS // columns, power_of_two(length)), rows_fastest=True)
        if layout.workgroups(rows) > target.adapter.workgroups(FEW_WORKGROUPS):
            break
    return layout


@dataclass(frozen=True)
class Rows:
    """A tensor viewed as rows along a dim: [outer, length, inner], a row per outer and inner."""

    outer: int
    length: int
    inner: int

    @property
    def count(self) -> int:
        return self.outer * self.inner

    def layout(self, target: Target) -> RowThreads:
        if self.inner == 1:
            return contiguous_layout(self.length, target)
        return strided_layout(self.count, self.length, self.inner, target)


def rows_along(tensor: TensorArg, dim: int) -> Rows:
    dims = tensor.dims or (1,)
    axis = normalize_dim(dim, tensor.rank)
    return Rows(numel(dims[:axis]), dims[axis], numel(dims[axis + 1 :]))


def float_item(*lengths: int) -> tuple[str, int]:
    """Return the widest item that divides all lengths: its WGSL type and its element count."""
    return ("vec4f", 4) if all(length % 4 == 0 for length in lengths) else ("f32", 1)


def check_floats(args: Args, *tensors: TensorArg | None) -> None:
    for tensor in tensors:
        if tensor is not None and not tensor.dtype.is_float:
            raise GraphError(
                f"{args.call}: value {tensor.id} is {tensor.dtype.name}; "
                "this op is defined for floats"
            )
