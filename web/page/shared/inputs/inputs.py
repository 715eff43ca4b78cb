"""Inputs of a program: one state per input, filled by a rule, typed, drawn or from a file.

A tensor input has a fill, live dims and an array; a plain number has a value. Arrays are built on
demand, and again only when something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.cards.fills import (
    BYTE_RANGES,
    CHOSEN,
    DEFAULT_BELOW,
    fill_array,
    fills_for,
    is_float,
)
from page.shared.html.units import count_text
from page.shared.inputs import photos, sounds
from page.shared.inputs.photos import LARGEST_PAD, Form, Photo, PhotoSettings
from page.shared.inputs.sounds import SoundForm, SoundSettings
from page.shared.inputs.typed import TypedError, parse_bytes, parse_values
from page.shared.npy import Array, NpyError, check_fits
from webpte import ScalarInfo, TensorInfo
from webpte.engine.dtypes import array_dtype


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
    title: str = ""  # the name that a card has for it,
    meaning: str = ""  # the text of the card about it
    hidden: bool = False  # not shown at first
    text: str = ""  # as typed
    file_name: str = ""
    error: str = ""
    form: Form | None = None  # how it can be a picture
    settings: PhotoSettings = field(default_factory=PhotoSettings)
    photo: Photo | None = None  # the picture that was taken
    overlap: int = 0  # of tiles, for a picture that is larger than the bounds; 0: it is scaled
    drawing: Array | None = None  # (height, width) uint8
    sound: SoundForm | None = None  # how it can be a sound
    sound_settings: SoundSettings = field(default_factory=SoundSettings)
    samples: Array | None = None  # of the sound that was taken,
    recording: Any = None  # and the file that it is in, to be heard at another rate
    prompt: str = ""  # a text, and its tokens
    tokens: list[int] = field(default_factory=list)
    pinned: dict[int, str] = field(default_factory=dict)  # fixed dims, with the reason
    note: str = ""  # a remark that is not an error
    touched: bool = False  # someone has set it: an example leaves it alone
    awaits_picture: bool = False  # an example is being fetched
    _array: Array | None = None
    _file: object = None  # identifies the file, to tell it from the next one

    def __post_init__(self) -> None:
        self.seed = self.seed or self.index + 1
        self.dims = self.dims or [high for _, high in self.bounds]
        if not self.fill:
            # One lone integer is a position or a flag far more often than an id: start at zero.
            lone = not is_float(self.dtype) and prod(self.dims) == 1
            self.fill = "zeros" if lone else fills_for(self.dtype)[0]

    @property
    def fills(self) -> tuple[str, ...]:
        """The fills that this input accepts, the default first."""
        more = ["typed"]
        if self.form is not None:
            sides = [self.bounds[dim][1] for dim in (self.form.rows, self.form.columns)]
            if self.form.channels == 1 and max(sides) <= LARGEST_PAD:
                more.append("draw")
            more.append("picture")
        if self.sound is not None:
            more.append("sound")
        if self.takes_text:
            more.append("text")
        *rules, file = fills_for(self.dtype)
        return (*rules, *more, file)

    @property
    def takes_text(self) -> bool:
        """Whether the input may hold the tokens of one text: along its last dim, all others being
        1."""
        if self.dtype not in ("int64", "int32") or not 1 <= len(self.bounds) <= 2:
            return False
        return self.bounds[-1][1] > 1 and all(low <= 1 for low, _ in self.bounds[:-1])

    @property
    def is_random(self) -> bool:
        return self.fill in ("normal", "integers")

    @property
    def takes_below(self) -> bool:
        return self.fill == "integers" and self.dtype not in BYTE_RANGES

    @property
    def held(self) -> object:
        """A key that is equal as long as the input holds the same array."""
        if self.fill == "file":
            return self._file, self.error
        rule: tuple[object, ...] = (self.seed, self.below) if self.is_random else ()
        if self.fill == "typed":
            rule = (self.text,)
        elif self.fill in ("picture", "draw"):
            rule = (self._file, self.settings)
        elif self.fill == "sound":
            rule = (self._file, self.sound_settings)
        elif self.fill == "text":
            rule = tuple(self.tokens)
        return self.fill, tuple(self.dims), rule, self.error

    def array(self) -> Array:
        if self._array is None:
            self._array = self._made()
        return self._array

    def _made(self) -> Array:
        source = self.drawing if self.fill == "draw" else self.photo
        if self.fill in ("picture", "draw") and self.form is not None and source is not None:
            return photos.prepare(source, self.form, self.settings, self.dims, self.dtype)
        if self.fill == "sound" and self.sound is not None and self.samples is not None:
            settings = self.sound_settings
            return sounds.prepare_sound(self.samples, self.sound, settings, self.dims, self.dtype)
        if self.fill == "text":
            return self._of_tokens()
        if self.fill == "typed":  # the typed text has an error
            return fill_array("zeros", self.dims, self.dtype)
        return fill_array(self.fill, self.dims, self.dtype, seed=self.seed, below=self.below)

    def set_fill(self, fill: str) -> None:
        """Choose a fill; pictures, sounds and files are set by the `take_` methods instead."""
        if fill not in self.fills or fill in CHOSEN:
            raise ValueError(f"{fill!r} is not a fill for {self.dtype}")
        self.fill, self.error, self.note, self._array = fill, "", "", None
        if fill == "draw":
            self.take_drawing(None)
        elif fill == "typed":
            self.set_text(self.text or "0")
        elif fill == "text":
            self.set_prompt(self.prompt, self.tokens)

    def set_dim(self, dim: int, text: str) -> None:
        """Set a dim to a typed size; a wrong one becomes the input's error and changes nothing."""
        low, high = self.bounds[dim]
        try:
            size = int(text)
        except ValueError:
            size = low - 1
        if not low <= size <= high:
            self.error = f"Dimension {dim} takes an integer from {low:,} to {high:,}."
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
            self.error = "Random integers need an upper bound from 1 to 2,147,483,647."
            return
        self.below, self.error, self._array = below, "", None

    def set_seed(self, text: str) -> None:
        if not text.isdecimal() or int(text) >= 2**63:
            self.error = f"A seed is an integer from 0 to {2**63 - 1:,}."
            return
        self.seed, self.error, self._array = int(text), "", None

    def reroll(self) -> None:
        self.seed += 1000
        self.error, self._array = "", None

    def set_text(self, text: str) -> None:
        """Set typed values; wrong ones are kept, with the error."""
        self.fill, self.text = "typed", text
        try:
            array = parse_values(text, dtype=self.dtype, dims=self.dims, bounds=self.bounds)
        except (TypedError, NpyError) as error:
            self.error = str(error)
            return
        self.dims, self._array, self.error = list(array.shape), array, ""

    def take_picture(self, photo: Photo, name: str) -> None:
        """Use a picture, in its own size where the bounds allow it."""
        if self.form is None:
            raise NpyError(f"{name} is a picture, but {self.name} does not take pictures")
        rows, columns = self.form.rows, self.form.columns
        self.dims = [
            self.form.channels if letter == "C" else 1 if letter == "N" else size
            for letter, size in zip(self.form.layout, self.dims, strict=True)
        ]
        height, width = photos.natural_size(photo, self.bounds[rows], self.bounds[columns])
        self.dims[rows], self.dims[columns] = height, width
        self.photo, self._file, self._array = photo, object(), None
        self.fill, self.file_name, self.error = "picture", name, ""

    def take_sound(self, samples: Array, name: str, recording: Any = None) -> None:
        """Use a sound, (count,) float32 at the rate of the settings."""
        if self.sound is None:
            raise NpyError(f"{name} is a sound, but {self.name} does not take sounds")
        self.samples, self.recording, self._file = samples, recording, object()
        self.fill, self.file_name, self.error = "sound", name, ""
        self.set_sound(self.sound_settings)

    def set_sound(self, settings: SoundSettings) -> None:
        """Change the sound's settings; the length follows the sound where the bounds allow it."""
        self.sound_settings, self._array, self.error = settings, None, ""
        if self.sound is not None and self.samples is not None and self.fill == "sound":
            self.dims = sounds.sound_dims(len(self.samples), self.sound, settings, self.bounds)

    def set_prompt(self, text: str, tokens: Sequence[int]) -> None:
        """Use a text: all its tokens if the length may change, else cut or padded with zeros."""
        self.fill, self.prompt, self.tokens = "text", text, [int(one) for one in tokens]
        low, high = self.bounds[-1]
        self.dims = [min(max(1, low), high) for low, high in self.bounds]
        self.dims[-1] = min(max(len(self.tokens), low, 1), high)
        self.error, self._array = "", None
        self.note = f"{count_text(len(self.tokens))} tokens"
        if len(self.tokens) > high:
            self.note += f": only the first {count_text(high)} fit"
        elif len(self.tokens) < self.dims[-1]:
            self.note += f", padded with zeros to {count_text(self.dims[-1])}"

    def _of_tokens(self) -> Array:
        made = np.zeros(tuple(self.dims), array_dtype(self.dtype))
        kept = self.tokens[: self.dims[-1]]
        made[..., : len(kept)] = kept
        return made

    def take_drawing(self, grey: Array | None) -> None:
        """Use a drawing, (height, width) uint8; None is an empty pad."""
        if self.form is None:
            raise ValueError(f"{self.name} cannot be drawn")
        size = (self.dims[self.form.rows], self.dims[self.form.columns])
        self.drawing = np.zeros(size, np.uint8) if grey is None else grey
        self._file, self._array = object(), None
        self.fill, self.error = "draw", ""

    @property
    def tiled_size(self) -> tuple[int, int] | None:
        """The (height, width) of a picture that is answered in tiles; None for any other."""
        form, photo = self.form, self.photo
        if self.fill != "picture" or form is None or photo is None or not self.overlap:
            return None
        sides = [self.bounds[dim] for dim in (form.rows, form.columns)]
        if any(low == high or high <= 2 * self.overlap for low, high in sides):
            return None
        size = photos.tiled_size(photo)
        pairs = list(zip(size, sides, strict=True))
        larger = any(side > high for side, (_, high) in pairs)
        return size if larger and all(side >= low for side, (low, _) in pairs) else None

    @property
    def is_blank(self) -> bool:
        """Whether this is a pad with nothing drawn on it, whose result means nothing."""
        return self.fill == "draw" and (self.drawing is None or not self.drawing.any())

    def set_settings(self, settings: PhotoSettings) -> None:
        self.settings, self._array = settings, None

    def take_bytes(self, data: bytes, name: str) -> None:
        """Use the plain bytes of an array, in this input's element type. Raises NpyError."""
        self.take_array(self.of_bytes(data, name), name)

    def of_bytes(self, data: bytes, name: str) -> Array:
        """Read plain bytes as an array. Raises NpyError if there are too few bytes, or too many."""
        return parse_bytes(data, self.dtype, self.dims, self.bounds, name)

    def pin(self, dim: int, why: str) -> None:
        """Fix a dim at the size that it was exported with."""
        size = self.bounds[dim][1]
        self.bounds = (*self.bounds[:dim], (size, size), *self.bounds[dim + 1 :])
        self.pinned[dim] = why
        if self.dims[dim] != size:
            self.dims[dim] = size
            self._array = None
            if self.fill == "typed":
                self.set_text(self.text)
            elif self.fill == "file":
                self.fill, self.file_name = fills_for(self.dtype)[0], ""

    def take_array(self, array: Array, name: str) -> None:
        """Use an array from a file. Raises NpyError, and then nothing has changed."""
        array = self.fitted(array, name)
        self._array, self._file = array, object()
        self.dims = list(array.shape)
        self.fill, self.file_name, self.error = "file", name, ""

    def fitted(self, array: Array, name: str) -> Array:
        """Return the array as this input takes it. Raises NpyError."""
        return check_fits(array, dtype=self.dtype, bounds=self.bounds, name=name)

    def adopt(self, other: Input) -> None:
        """Take over the values of another input, if they fit."""
        if not isinstance(other, TensorInput) or other.dtype != self.dtype:
            return
        if len(other.dims) != len(self.bounds):
            return
        for dim, why in other.pinned.items():
            if other.bounds[dim][1] == self.bounds[dim][1]:
                self.pin(dim, why)
        sizes = zip(other.dims, self.bounds, strict=True)
        if all(low <= size <= high for size, (low, high) in sizes):
            self.fill, self.dims, self.seed = other.fill, list(other.dims), other.seed
            self.below, self.file_name, self.text = other.below, other.file_name, other.text
            self.settings, self.photo, self.drawing = other.settings, other.photo, other.drawing
            self.sound_settings, self.samples = other.sound_settings, other.samples
            self.recording, self.prompt, self.tokens = other.recording, other.prompt, other.tokens
            self.note = other.note
            self._array, self._file, self.touched = other._array, other._file, other.touched
            self.error = other.error if other.fill == "typed" else ""


@dataclass(eq=False)
class ScalarInput:
    """An input that is one plain value, at first the value that the file was exported with."""

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
            self.error = f"This takes {'a number' if self.kind == 'float' else 'an integer'}."
            return
        self.error = ""

    @property
    def held(self) -> object:
        """A key that is equal as long as the input holds the same value."""
        return type(self.value), self.value, self.error

    def array(self) -> int | float | bool | str | None:
        return self.value

    def adopt(self, other: Input) -> None:
        """Take over the value of another input, if it has the same kind."""
        if isinstance(other, ScalarInput) and other.kind == self.kind:
            self.value, self.touched = other.value, other.touched


Input = TensorInput | ScalarInput


def inputs_of(
    infos: Sequence[TensorInfo | ScalarInfo], card_values: Sequence[CardValue] = ()
) -> list[Input]:
    """Return a fresh state for every input of a method; a card may describe them, in order."""
    states: list[Input] = []
    for index, info in enumerate(infos):
        if isinstance(info, TensorInfo):
            value = card_values[index] if index < len(card_values) else None
            state = TensorInput(index, info.name, info.dtype, info.bounds, dims=list(info.shape))
            state.form = photos.form_of(info.bounds, value.layout if value is not None else "")
            state.settings = photos.settings_of(value)
            state.sound = sounds.sound_form_of(info.bounds, info.dtype, value.rate if value else 0)
            if state.sound is not None:
                state.sound_settings = SoundSettings(
                    rate=state.sound.rate, hop=value.hop if value is not None else 0
                )
            if value is not None:
                state.title, state.meaning = value.name, value.meaning
                state.hidden, state.overlap = value.hidden, value.overlap
            if value is not None and value.fill in state.fills and value.fill not in CHOSEN:
                state.set_fill(value.fill)
            states.append(state)
        else:
            states.append(ScalarInput(index, info.name, info.kind, info.value))
    return states


def carry_over(old: Sequence[Input], new: Sequence[Input]) -> None:
    """Give inputs the values of earlier inputs with the same name, where they fit."""
    named = {state.name: state for state in old}
    for state in new:
        if state.name in named:
            state.adopt(named[state.name])
