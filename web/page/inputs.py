"""What goes into the program: one state per input, filled by rule or from a file.

An input that is a tensor has a fill, live dims and an array; one that is a plain number has a
value. Arrays are made when they are asked for, and only again when something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from page.npy import Array, check_fits, read_npy
from webpte import ScalarInfo, TensorInfo

FILLS = {
    "normal": "random (normal)",
    "integers": "random integers",
    "zeros": "zeros",
    "ones": "ones",
    "range": "0, 1, 2, …",
    "ramp": "ramp, -1 to 1",
    "file": "from a .npy file",
}
_BYTE_RANGES = {"int8": (-128, 128), "uint8": (0, 256), "bool": (0, 2)}
DEFAULT_BELOW = 10  # small enough to be an index into almost any table


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def fills_for(dtype: str) -> tuple[str, ...]:
    """The fills that make sense for this element type, the default first."""
    if is_float(dtype):
        return ("normal", "zeros", "ones", "range", "ramp", "file")
    return ("integers", "zeros", "ones", "range", "file")


def integer_range(dtype: str, below: int) -> tuple[int, int]:
    """Random integers are from the first on, and below the second."""
    return _BYTE_RANGES.get(dtype, (0, max(1, below)))


def range_period(dtype: str, count: int) -> int:
    """Where a range starts over: 0 … 127, 0 … 127 for int8, instead of an overflow."""
    kind = np.dtype(dtype)
    highest = 1 if dtype == "bool" else int(np.iinfo(kind).max) if kind.kind in "iu" else count
    return min(count, highest + 1)


def fill_array(
    fill: str, shape: Sequence[int], dtype: str, *, seed: int = 0, below: int = DEFAULT_BELOW
) -> Array:
    """An array by one of the rules. The same seed gives the same array."""
    kind = np.dtype(dtype)
    size = tuple(shape)
    count = prod(size)
    if fill == "normal":
        random = np.random.default_rng(seed)
        # float32 directly: drawing float64 first would take twice the memory of a large input.
        return random.standard_normal(size, dtype=np.float32).astype(kind, copy=False)
    if fill == "integers":
        low, high = integer_range(dtype, below)
        return np.random.default_rng(seed).integers(low, high, size=size).astype(kind)
    if fill == "zeros":
        return np.zeros(size, kind)
    if fill == "ones":
        return np.ones(size, kind)
    if fill == "range":
        steps = np.arange(count, dtype=np.int64)
        period = range_period(dtype, count)
        if period < count:
            steps %= period
        return steps.astype(kind).reshape(size)
    if fill == "ramp":
        return np.linspace(-1, 1, count, dtype=np.float32).astype(kind).reshape(size)
    raise ValueError(f"there is no fill named {fill!r}; take one of {', '.join(FILLS)}")


@dataclass(eq=False)
class TensorInput:
    """A tensor input: its fill, its live dims, and the array they make."""

    index: int
    name: str
    dtype: str
    bounds: tuple[tuple[int, int], ...]  # (lowest, highest) size per dim
    fill: str = ""
    dims: list[int] = field(default_factory=list)
    seed: int = 0
    below: int = DEFAULT_BELOW
    file_name: str = ""
    error: str = ""
    _array: Array | None = None
    _file: object = None  # stands for the file that was taken, to tell it from the next one

    def __post_init__(self) -> None:
        self.seed = self.seed or self.index + 1
        self.dims = self.dims or [high for _, high in self.bounds]
        if not self.fill:
            # One lone integer is a position or a flag far more often than an id: start at zero.
            lone = not is_float(self.dtype) and prod(self.dims) == 1
            self.fill = "zeros" if lone else fills_for(self.dtype)[0]

    @property
    def is_random(self) -> bool:
        return self.fill in ("normal", "integers")

    @property
    def takes_below(self) -> bool:
        return self.fill == "integers" and self.dtype not in _BYTE_RANGES

    @property
    def held(self) -> object:
        """Equal to what it was as long as the same array goes in."""
        if self.fill == "file":
            return self._file, self.error
        rule = (self.seed, self.below) if self.is_random else ()
        return self.fill, tuple(self.dims), rule, self.error

    def array(self) -> Array:
        if self._array is None:
            self._array = fill_array(
                self.fill, self.dims, self.dtype, seed=self.seed, below=self.below
            )
        return self._array

    def set_fill(self, fill: str) -> None:
        if fill not in fills_for(self.dtype) or fill == "file":
            raise ValueError(f"{fill!r} is no fill for {self.dtype}")
        self.fill, self.error, self._array = fill, "", None

    def set_dim(self, dim: int, text: str) -> None:
        """A typed size. A wrong one is remembered as the error and changes nothing."""
        low, high = self.bounds[dim]
        try:
            size = int(text)
        except ValueError:
            size = low - 1
        if not low <= size <= high:
            self.error = f"Dimension {dim} takes a whole number from {low} to {high}."
            return
        self.dims[dim] = size
        self.error = ""
        if self.fill == "file":  # an array from a file has the size it has
            self.fill, self.file_name = fills_for(self.dtype)[0], ""
        self._array = None

    def set_below(self, text: str) -> None:
        try:
            below = int(text)
        except ValueError:
            below = 0
        if not 1 <= below <= 2**31 - 1:
            self.error = "Random integers need an upper bound from 1 to 2147483647."
            return
        self.below, self.error, self._array = below, "", None

    def reroll(self) -> None:
        self.seed += 1000
        self._array = None

    def take_file(self, data: bytes, name: str) -> None:
        """Use a `.npy`. Raises NpyError, and then nothing has changed."""
        self.take_array(read_npy(data, name), name)

    def take_array(self, array: Array, name: str) -> None:
        """Use an array of a file. Raises NpyError, and then nothing has changed."""
        array = self.fitted(array, name)
        self._array, self._file = array, object()
        self.dims = list(array.shape)
        self.fill, self.file_name, self.error = "file", name, ""

    def fitted(self, array: Array, name: str) -> Array:
        """The array as this input takes it, or an NpyError."""
        return check_fits(array, dtype=self.dtype, bounds=self.bounds, name=name)

    def adopt(self, other: Input) -> None:
        """Hold what another input holds, if that fits."""
        if not isinstance(other, TensorInput) or other.dtype != self.dtype:
            return
        if len(other.dims) != len(self.bounds):
            return
        sizes = zip(other.dims, self.bounds, strict=True)
        if all(low <= size <= high for size, (low, high) in sizes):
            self.fill, self.dims, self.seed = other.fill, list(other.dims), other.seed
            self.below, self.file_name = other.below, other.file_name
            self._array, self._file = other._array, other._file


@dataclass(eq=False)
class ScalarInput:
    """An input that is one plain value. It starts with the one that the file was exported with."""

    index: int
    name: str
    kind: str  # "int", "float", "bool", "str" or "None"
    value: int | float | bool | str | None = 0
    error: str = ""

    def set_value(self, text: str) -> None:
        try:
            if self.kind == "float":
                self.value = float(text)
            elif self.kind == "int":
                self.value = int(text)
            elif self.kind == "bool":
                self.value = text == "true"
            elif self.kind == "str":
                self.value = text
        except ValueError:
            self.error = f"This takes {'a number' if self.kind == 'float' else 'a whole number'}."
            return
        self.error = ""

    @property
    def held(self) -> object:
        """Equal to what it was as long as the same value goes in."""
        return type(self.value), self.value, self.error

    def array(self) -> int | float | bool | str | None:
        return self.value

    def adopt(self, other: Input) -> None:
        """Hold what another input holds, if it is of the same kind."""
        if isinstance(other, ScalarInput) and other.kind == self.kind:
            self.value = other.value


Input = TensorInput | ScalarInput


def inputs_of(infos: Sequence[TensorInfo | ScalarInfo]) -> list[Input]:
    """A fresh state for every input of a method."""
    return [
        TensorInput(index, info.name, info.dtype, info.bounds, dims=list(info.shape))
        if isinstance(info, TensorInfo)
        else ScalarInput(index, info.name, info.kind, info.value)
        for index, info in enumerate(infos)
    ]


def carry_over(old: Sequence[Input], new: Sequence[Input]) -> None:
    """Inputs with the name of an earlier one start with what that holds, where it fits."""
    named = {state.name: state for state in old}
    for state in new:
        if state.name in named:
            state.adopt(named[state.name])
