"""What goes into the program: one state per input, filled by rule, typed, drawn or from a file.

An input that is a tensor has a fill, live dims and an array; one that is a plain number has a
value. Arrays are made when they are asked for, and only again when something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from page.cards import CardValue
from page.npy import Array, NpyError, check_fits, read_npy
from page.photos import (
    LARGEST_PAD,
    Form,
    Settings,
    form_of,
    natural_size,
    prepare,
    settings_of,
)
from page.typed import TypedError, parse_values
from webpte import ScalarInfo, TensorInfo

FILLS = {
    "normal": "random (normal)",
    "integers": "random integers",
    "zeros": "zeros",
    "ones": "ones",
    "range": "0, 1, 2, …",
    "ramp": "ramp, -1 to 1",
    "typed": "typed values",
    "draw": "a drawing",
    "picture": "a picture",
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
    meaning: str = ""  # as a card tells it
    text: str = ""  # as typed
    file_name: str = ""
    error: str = ""
    form: Form | None = None  # how it can be a picture
    settings: Settings = field(default_factory=Settings)
    pixels: Array | None = None  # of the picture or the drawing that was taken
    touched: bool = False  # someone has set it: an example leaves it alone
    _array: Array | None = None
    _file: object = None  # stands for what was taken, to tell it from the next one

    def __post_init__(self) -> None:
        self.seed = self.seed or self.index + 1
        self.dims = self.dims or [high for _, high in self.bounds]
        if not self.fill:
            # One lone integer is a position or a flag far more often than an id: start at zero.
            lone = not is_float(self.dtype) and prod(self.dims) == 1
            self.fill = "zeros" if lone else fills_for(self.dtype)[0]

    @property
    def fills(self) -> tuple[str, ...]:
        """What it can be filled with, the default first."""
        more = ["typed"]
        if self.form is not None:
            sides = [self.bounds[dim][1] for dim in (self.form.rows, self.form.columns)]
            if self.form.channels == 1 and max(sides) <= LARGEST_PAD:
                more.append("draw")
            more.append("picture")
        *rules, file = fills_for(self.dtype)
        return (*rules, *more, file)

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
        rule: tuple[object, ...] = (self.seed, self.below) if self.is_random else ()
        if self.fill == "typed":
            rule = (self.text,)
        elif self.fill in ("picture", "draw"):
            rule = (self._file, self.settings)
        return self.fill, tuple(self.dims), rule, self.error

    def array(self) -> Array:
        if self._array is None:
            self._array = self._made()
        return self._array

    def _made(self) -> Array:
        if self.fill in ("picture", "draw") and self.form is not None and self.pixels is not None:
            return prepare(self.pixels, self.form, self.settings, self.dims, self.dtype)
        if self.fill == "typed":  # what is wrong is told, and was never an array
            return fill_array("zeros", self.dims, self.dtype)
        return fill_array(self.fill, self.dims, self.dtype, seed=self.seed, below=self.below)

    def set_fill(self, fill: str) -> None:
        """A picture or a file is chosen by taking one."""
        if fill not in self.fills or fill in ("file", "picture"):
            raise ValueError(f"{fill!r} is no fill for {self.dtype}")
        self.fill, self.error, self._array = fill, "", None
        if fill == "draw":
            self.take_drawing(None)
        elif fill == "typed":
            self.set_text(self.text or "0")

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
        if self.fill == "typed":
            self.set_text(self.text)
            return
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

    def set_seed(self, text: str) -> None:
        if not text.isdecimal() or int(text) >= 2**63:
            self.error = "A seed is a whole number from 0 on."
            return
        self.seed, self.error, self._array = int(text), "", None

    def reroll(self) -> None:
        self.seed += 1000
        self.error, self._array = "", None

    def set_text(self, text: str) -> None:
        """Typed values. Wrong ones are remembered, with the error."""
        self.fill, self.text = "typed", text
        try:
            array = parse_values(text, dtype=self.dtype, dims=self.dims, bounds=self.bounds)
        except (TypedError, NpyError) as error:
            self.error = str(error)
            return
        self.dims, self._array, self.error = list(array.shape), array, ""

    def take_picture(self, pixels: Array, name: str) -> None:
        """Use a picture of (height, width, 3); where the sizes may change, its own one."""
        if self.form is None:
            raise NpyError(f"{name} is a picture, but {self.name} takes none")
        rows, columns = self.form.rows, self.form.columns
        self.dims = [
            self.form.channels if letter == "C" else 1 if letter == "N" else size
            for letter, size in zip(self.form.layout, self.dims, strict=True)
        ]
        height, width = natural_size(pixels, self.bounds[rows], self.bounds[columns])
        self.dims[rows], self.dims[columns] = height, width
        self.pixels, self._file, self._array = pixels, object(), None
        self.fill, self.file_name, self.error = "picture", name, ""

    def take_drawing(self, grey: Array | None) -> None:
        """(height, width) uint8 of the pad, or None for an empty one."""
        if self.form is None:
            raise ValueError(f"{self.name} takes no drawing")
        size = (self.dims[self.form.rows], self.dims[self.form.columns])
        self.pixels = np.zeros(size, np.uint8) if grey is None else grey
        self._file, self._array = object(), None
        self.fill, self.error = "draw", ""

    def set_settings(self, settings: Settings) -> None:
        self.settings, self._array = settings, None

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
            self.below, self.file_name, self.text = other.below, other.file_name, other.text
            self.settings, self.pixels = other.settings, other.pixels
            self._array, self._file, self.touched = other._array, other._file, other.touched
            self.error = other.error if other.fill == "typed" else ""


@dataclass(eq=False)
class ScalarInput:
    """An input that is one plain value. It starts with the one that the file was exported with."""

    index: int
    name: str
    kind: str  # "int", "float", "bool", "str" or "None"
    value: int | float | bool | str | None = 0
    error: str = ""
    touched: bool = False

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
            self.value, self.touched = other.value, other.touched


Input = TensorInput | ScalarInput


def inputs_of(
    infos: Sequence[TensorInfo | ScalarInfo], told: Sequence[CardValue] = ()
) -> list[Input]:
    """A fresh state for every input of a method; `told` is what a card says of them, in order."""
    states: list[Input] = []
    for index, info in enumerate(infos):
        if isinstance(info, TensorInfo):
            value = told[index] if index < len(told) else None
            state = TensorInput(index, info.name, info.dtype, info.bounds, dims=list(info.shape))
            state.form = form_of(info.bounds, value.layout if value is not None else "")
            state.settings = settings_of(value)
            state.meaning = value.told if value is not None else ""
            if value is not None and value.fill in state.fills[:-1] and value.fill != "picture":
                state.set_fill(value.fill)
            states.append(state)
        else:
            states.append(ScalarInput(index, info.name, info.kind, info.value))
    return states


def carry_over(old: Sequence[Input], new: Sequence[Input]) -> None:
    """Inputs with the name of an earlier one start with what that holds, where it fits."""
    named = {state.name: state for state in old}
    for state in new:
        if state.name in named:
            state.adopt(named[state.name])
