"""Calls of the portable kernels; what PyTorch gives for them is in data/kernels/expected.json.

Numbers follow from their position, so that the table and the stored results cannot drift apart
unnoticed. `out` are the element types of the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class KernelCase:
    """One call: a kernel, its arguments, and a name if the kernel has several cases."""

    kernel: str
    args: tuple[Any, ...]
    out: tuple[str, ...] = ("float32",)
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kernel} {self.name}".strip()


def _pattern(shape: tuple[int, ...]) -> Array:
    """101 different numbers, 0 to 100."""
    return np.arange(int(np.prod(shape))).reshape(shape) * 37 % 101


def reals(*shape: int, dtype: str = "float32") -> Array:
    return ((_pattern(shape) - 50) / 16).astype(dtype)


def positives(*shape: int, dtype: str = "float32") -> Array:
    return ((_pattern(shape) + 1) / 32).astype(dtype)


def units(*shape: int) -> Array:
    return ((_pattern(shape) - 50) / 51).astype("float32")


def ints(*shape: int, low: int = -20, high: int = 20, dtype: str = "int64") -> Array:
    return (_pattern(shape) % (high - low) + low).astype(dtype)


def bools(*shape: int) -> Array:
    return _pattern(shape) % 3 == 0


def odd(*values: float, dtype: str = "float32") -> Array:
    return np.array(values, dtype)


INF, NAN = float("inf"), float("nan")
SPECIAL = odd(-INF, -2.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, INF, NAN)
