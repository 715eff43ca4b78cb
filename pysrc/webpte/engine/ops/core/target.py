"""Properties of the device that a lowering may use: they select kernels, never results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from webpte.engine.ops.core.adapter_classes import LARGE, AdapterClass

T = TypeVar("T")

TunedConfigs = tuple[tuple[str, str], ...]  # key of a tunable, and the label of its best config


@dataclass(frozen=True)
class Tunable:
    """A choice among configs of a kernel, tuned per class of shapes and adapter."""

    key: str
    default: str
    labels: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """The prefix of the names of the kernels to choose from."""
        return self.key.split()[0]


@dataclass(frozen=True)
class Target:
    """The device's properties, and the tuned configs of its kernels.

    software         a CPU rendering driver, which compiles large kernels for minutes
    storage_buffers  how many a kernel may bind; every GPU has 8
    shared_bytes     memory per workgroup; every GPU has 16 KB
    subgroup_matrices  whether GEMMs may use subgroup matrices (gemm/subgroup_matrix/tiles.py)
    matrix_shape     M x N x K of the products that the device's matrices take
    sized_subgroups  whether kernels with matrices must ask for subgroups of 32
    half_products    whether such GEMMs may multiply numbers rounded to f16
    packed_dot       whether shaders have packed dot products of bytes
    int8_products    whether GEMMs with weights of 4 or 8 bits may round x to int8 in blocks
    binding_bytes    the most bytes that a kernel can bind per buffer
    adapter          how much work fills a GPU of this kind
    choices          configs that were measured fastest
    asked            collects the tunables that lowerings choose from, if not None
    """

    software: bool = False
    storage_buffers: int = 8
    shared_bytes: int = 16384
    choices: TunedConfigs = ()
    subgroup_matrices: bool = False
    half_products: bool = False
    binding_bytes: int = sys.maxsize
    adapter: AdapterClass = LARGE
    packed_dot: bool = True
    int8_products: bool = False
    matrix_shape: tuple[int, int, int] = (16, 16, 16)
    sized_subgroups: bool = False
    asked: list[Tunable] | None = field(default=None, compare=False)

    @property
    def wants_candidates(self) -> bool:
        """Whether lowerings must list tile configs: while tuning, or once tuned."""
        return self.asked is not None or bool(self.choices)

    @property
    def matrix_types(self) -> tuple[tuple[str, str], ...]:
        """The text constants of wgsl/lib/matrix/matrices_whole.wgsl, or of the parts."""
        size = ("SUBGROUP_SIZE", "@subgroup_size(32)" if self.sized_subgroups else "")
        if self.matrix_shape == (16, 16, 16):
            return (("MATRICES", "whole"), size)
        sides = zip(("MATRIX_M", "MATRIX_N", "MATRIX_K"), map(str, self.matrix_shape), strict=True)
        return (("MATRICES", "parts"), *sides, size)

    def scratch_bytes(self, nbytes: int) -> int:
        """Round the size of scratch memory up to a power of two, unless that is over the limit.

        So changing shapes share a few buffers.
        """
        rounded = 1 << max(nbytes - 1, 0).bit_length()
        return rounded if rounded <= self.binding_bytes else nbytes

    def most_splits(self, nbytes: int) -> int:
        """Return how many partial results of `nbytes` each fit into one buffer."""
        return max(1, self.binding_bytes // max(nbytes, 1))

    def choice(self, name: str, shape_class: str, default: str, candidates: Mapping[str, T]) -> T:
        """Return the config measured fastest for these shapes, or the default.

        Candidates are configs of the same kernel, so their results agree up to the order of sums; a
        module documents any larger difference. A tuned label without a candidate is ignored.
        """
        key = f"{name} {shape_class}"
        if self.asked is not None:
            self.asked.append(Tunable(key, default, tuple(candidates)))
        chosen = dict(self.choices).get(key, default)
        return candidates[chosen if chosen in candidates else default]


GPU = Target()
