"""What an op's lowering returns: plain, frozen records that say what to dispatch.

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

MAX_FLOAT32 = 3.4028235677973366e38  # from here on a double rounds to an infinite float32

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class SymIntUniform:
    """Binds the 16-byte live uniform of a SymInt, so that a new value needs no new lowering."""

    value_id: int


@dataclass(frozen=True)
class Scratch:
    """Binds memory that lives only from this op's first dispatch to its last."""

    key: str
    nbytes: int


@dataclass(frozen=True)
class IndexFlag:
    """Binds the word in which kernels note that they met an index out of range.

    `number` is what the kernel writes there, see wgsl/lib/index_flag.wgsl. `indices` are the
    tensors of indices, each with the size of what it indexes: -size to size - 1 are in range.
    """

    number: int
    call: str
    indices: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        ranges = dict.fromkeys(f"{-size} to {size - 1}" for _, size in self.indices)
        return f"{self.call}: an index is out of range, which is {' and '.join(ranges)}"


# A tensor's value id, a SymInt, a uniform block of its own (bytes), scratch memory, the word for
# faults, or None for an optional tensor that is absent (a small buffer of zeros is bound).
Binding = int | SymIntUniform | bytes | Scratch | IndexFlag | None


@dataclass(frozen=True)
class Dispatch:
    """One kernel dispatch.

    `bindings` follow the shader's `@binding` lines in order; the uniform block with the params
    comes last in the shader and is not listed. `types` replace `${NAME}` in the shader's text,
    `overrides` set its override constants.
    """

    kernel: str  # wgsl/<kernel>.wgsl
    bindings: tuple[Binding, ...]
    params: bytes
    grid: Grid
    types: tuple[tuple[str, str], ...] = ()
    overrides: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class SymIntBound:
    """A range that a live SymInt must keep to for a call to be right.

    Checked on the host before each execution, so that nothing reads or writes out of range.
    """

    value_id: int
    low: int
    high: int
    why: str


@dataclass(frozen=True)
class RelowerGuard:
    """As long as this holds, new values of these SymInts change neither shapes nor records.

    `value_id` keeps to a range, and `follower`, if there is one, stays `distance` above it.
    """

    value_id: int
    low: int
    high: int
    follower: int | None = None
    distance: int = 0

    def covers(self, value_id: int) -> bool:
        return value_id in (self.value_id, self.follower)

    def holds(self, value_of: Callable[[int], int]) -> bool:
        value = value_of(self.value_id)
        follows = self.follower is None or value_of(self.follower) == value + self.distance
        return self.low <= value <= self.high and follows


# What a call comes to.
Record = Dispatch | SymIntBound | RelowerGuard


def pack(layout: str, *values: float) -> bytes:
    """A uniform block. `layout` is in `struct`'s letters, matching the shader's Params.

    A double beyond float32's range becomes an infinity, as a cast makes it: exporters write the
    largest double for "no bound".
    """
    narrowed = (
        math.copysign(math.inf, value)
        if isinstance(value, float) and abs(value) >= MAX_FLOAT32
        else value
        for value in values
    )
    return struct.pack("<" + layout, *narrowed)


def fold_grid(workgroups: int) -> Grid:
    """A grid of at least `workgroups`, folded to two dimensions above the limit of one.

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
