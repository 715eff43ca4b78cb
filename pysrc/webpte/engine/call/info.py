"""Public facts about a program: its methods before it runs, its counters after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.dtypes import INT32_MAX, array_dtype
from webpte.engine.shapes import Dims


@dataclass(frozen=True)
class TensorInfo:
    """An input or output array.

    `shape` is the largest where `dynamic` is true, and a guess where `unbounded` is, too. The bound
    is the number of elements: a dim may be larger if others are smaller, and the program allows it.
    """

    name: str
    shape: Dims
    dtype: str
    dynamic: bool
    unbounded: bool = False

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its arrays: `dtype`, but float32 for bfloat16, which NumPy lacks."""
        return array_dtype(self.dtype)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Smallest and largest size of each dim, if all other dims are as large as possible."""
        if self.unbounded:
            return tuple((0, INT32_MAX) for _ in self.shape)
        return tuple((min(1, size) if self.dynamic else size, size) for size in self.shape)

    def __str__(self) -> str:
        bound = "any" if self.unbounded else "≤{}" if self.dynamic else "{}"
        sizes = ", ".join(bound.format(size) for size in self.shape)
        return f"{self.name}: {self.dtype} [{sizes}]"


@dataclass(frozen=True)
class ScalarInfo:
    """An input or output that is a number, bool or string, with its `value` in the file."""

    name: str
    kind: str  # "int", "float", "bool", "str" or "None"
    value: int | float | bool | str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}"


@dataclass(frozen=True)
class ConstantInfo:
    """Constant bytes of the file, from which `count` tensors are made."""

    key: str | None
    nbytes: int
    shape: Dims
    dtype: str
    count: int


@dataclass(frozen=True)
class MethodInfo:
    """A method of a program."""

    name: str
    inputs: tuple[TensorInfo | ScalarInfo, ...]
    outputs: tuple[TensorInfo | ScalarInfo, ...]
    ops: dict[str, int]  # inside delegates, with counts
    kernels_outside: dict[str, int]  # operators that no delegate took
    unsupported: dict[str, int]  # operators in delegates or outside that cannot run
    constants: tuple[ConstantInfo, ...]
    is_constant: bool  # whether the method has no instructions, and returns values of the file
    keeps_state: bool = False  # whether its outputs depend on the calls before
    foreign: dict[str, int] = field(default_factory=dict)  # delegates of other backends

    @property
    def constant_bytes(self) -> int:
        return sum(constant.nbytes for constant in self.constants)


@dataclass(frozen=True)
class Placement:
    """The place where an operator's calls run: "gpu", "alias" (no work at all) or "host"."""

    method: str
    op: str
    where: str
    count: int
    host_ms: float  # time on the host so far; 0 for work of the GPU


@dataclass(frozen=True)
class Stats:
    """Counters of a program on its device."""

    buffers: int = 0  # on the GPU, also of returned tensors that still exist
    buffer_bytes: int = 0
    dispatches: int = 0  # in an execution of every method, at the current shapes
    pipelines: int = 0
    prepack_transfers: int = 0
    interop_calls: int = 0  # by the whole device
    executions: int = 0
    # By the last call that ended, in whatever way: how often it handed work to the GPU. Copies that
    # save or restore state, and tensors that were read separately, count as well.
    submissions: int = 0
    hooks_fired: int = 0
    lowerings: int = 0
    load_ms: dict[str, float] = field(default_factory=dict)
    last_ms: dict[str, float] = field(default_factory=dict)  # prepare, submit, wait of the last run
