"""Records that an op's lowering returns: frozen data that describes the dispatches.

A record names its kernel, its values by id, its params as bytes and its grid. It knows no device,
no buffer and no queue, so records can be compared, cached and tested without a GPU.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from webpte.errors import GraphError

# WebGPU's guaranteed maxComputeWorkgroupsPerDimension; no browser offers more.
MAX_WORKGROUPS = 65535

MAX_FLOAT32 = 3.4028235677973366e38  # from here on a double becomes an infinite float32

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class SymIntUniform:
    """Binding of a SymInt's 16-byte live uniform; a new value needs no relowering."""

    value_id: int


@dataclass(frozen=True)
class Scratch:
    """Binding of memory that lives from the op's first dispatch to its last."""

    key: str
    nbytes: int


@dataclass(frozen=True)
class IndexFlag:
    """Binding of the index flag: a word in which kernels record an index out of range.

    `number` is the call's number, which the kernel writes there (wgsl/lib/index_flag.wgsl).
    `indices` are the index tensors, each with the size n that it indexes: 0 to n - 1 are in range,
    and -n to -1 where the operator `wraps` negative indices.
    """

    number: int
    call: str
    indices: tuple[tuple[int, int], ...]
    wraps: bool = True

    def least(self, size: int) -> int:
        """Return the least valid index into a size."""
        return -size if self.wraps else 0

    def __str__(self) -> str:
        ranges = dict.fromkeys(f"{self.least(size)} to {size - 1}" for _, size in self.indices)
        return f"{self.call}: an index is out of range; valid are {' and '.join(ranges)}"


# A tensor's value id, a SymInt, a separate uniform block (bytes), scratch memory, the index flag,
# or None for an absent optional tensor (a small buffer of zeros is bound).
Binding = int | SymIntUniform | bytes | Scratch | IndexFlag | None


@dataclass(frozen=True)
class Dispatch:
    """A single kernel dispatch.

    `bindings` follow the shader's `@binding` lines in order; the uniform block with the params
    comes last in the shader and is not listed. `types` replace `${NAME}` in the shader's text,
    `overrides` set its override constants. `mergeable`: a dispatch behind may do the work itself
    (plan/merged_shares.py), which is faster.
    """

    kernel: str  # wgsl/<kernel>.wgsl
    bindings: tuple[Binding, ...]
    params: bytes
    grid: Grid
    types: tuple[tuple[str, str], ...] = ()
    overrides: tuple[tuple[str, float], ...] = ()
    mergeable: bool = False


@dataclass(frozen=True)
class SymIntBound:
    """The range in which a live SymInt must stay for a call to be valid.

    Checked on the host before each execution, so that nothing reads or writes out of range.
    """

    value_id: int
    low: int
    high: int
    why: str


@dataclass(frozen=True)
class RelowerGuard:
    """A condition under which new values of SymInts change neither shapes nor records.

    It holds while `value_id` stays in its range and `follower`, if given, stays `distance` above
    it. A call whose guard holds is not lowered again.
    """

    value_id: int
    low: int
    high: int
    follower: int | None = None
    distance: int = 0

    def covers(self, value_id: int) -> bool:
        """Return whether the guard is about this SymInt."""
        return value_id in (self.value_id, self.follower)

    def holds(self, value_of: Callable[[int], int]) -> bool:
        """Return whether the guard holds for the given values."""
        value = value_of(self.value_id)
        follows = self.follower is None or value_of(self.follower) == value + self.distance
        return self.low <= value <= self.high and follows


# Results of lowering a call.
Record = Dispatch | SymIntBound | RelowerGuard


def pack(layout: str, *values: float) -> bytes:
    """Pack a uniform block; `layout` is in `struct`'s letters and matches the shader's Params.

    A double beyond float32's range becomes an infinity, as in a cast: exporters write the largest
    double for "no bound".
    """
    narrowed = (
        math.copysign(math.inf, value)
        if isinstance(value, float) and abs(value) >= MAX_FLOAT32
        else value
        for value in values
    )
    return struct.pack("<" + layout, *narrowed)


def fold_grid(workgroups: int) -> Grid:
    """Return a grid of at least `workgroups`, folded to two dimensions above the limit of a
    dimension.

    Kernels recover the flat index with `flat_index` of wgsl/lib/grid.wgsl and check its range.
    """
    if workgroups <= MAX_WORKGROUPS:
        return (workgroups, 1, 1)
    x = min(math.isqrt(workgroups - 1) + 1, MAX_WORKGROUPS)
    y = -(-workgroups // x)
    if y > MAX_WORKGROUPS:
        raise GraphError(
            f"{workgroups} workgroups are more than a {MAX_WORKGROUPS} x {MAX_WORKGROUPS} grid has"
        )
    return (x, y, 1)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
