"""Matching of dropped arrays with inputs: by name, by fit, or by asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from page.shared.html.units import shape_text
from page.shared.inputs.inputs import Input, TensorInput
from page.shared.inputs.photos import Photo
from page.shared.npy import Array, NpyError, read_npy, read_npz

ARRAY, PICTURE, SOUND, BYTES = "array", "picture", "sound", "bytes"
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".avif")
_SOUNDS = (".wav", ".mp3", ".ogg", ".oga", ".opus", ".flac", ".m4a", ".aac", ".weba", ".webm")


@dataclass(frozen=True, eq=False)
class Arrival:
    """An array that was dropped. `stem` may be the name of the input that it is for."""

    name: str
    stem: str
    array: Array | None = None  # of a sound, the samples
    kind: str = ARRAY
    file: Any = None  # where a sound came from
    photo: Photo | None = None

    @property
    def values(self) -> Array:
        assert self.array is not None  # only pictures have no array
        return self.array

    @property
    def description(self) -> str:
        """The type and the shape, or the size of a picture."""
        if self.photo is not None:
            return f"picture · {self.photo.width} × {self.photo.height} pixels"
        return f"{self.values.dtype.name} · {shape_text(self.values.shape)}"


@dataclass
class InputMatches:
    """The result of matching. `unsure` arrays fit several inputs; `misfits` have a reason per
    input. `left` are arrays whose inputs took others."""

    placed: list[tuple[Arrival, TensorInput]] = field(default_factory=list)
    unsure: list[tuple[Arrival, list[TensorInput]]] = field(default_factory=list)
    misfits: list[tuple[Arrival, dict[str, str]]] = field(default_factory=list)
    left: list[tuple[Arrival, dict[str, str]]] = field(default_factory=list)


def is_array_file(name: str) -> bool:
    return name.lower().endswith((".npy", ".npz")) or is_bytes_file(name)


def is_bytes_file(name: str) -> bool:
    """Tell whether a file holds plain bytes, to which the input gives dtype and shape."""
    return name.lower().endswith(".bin")


def is_sound_file(name: str) -> bool:
    return name.lower().endswith(_SOUNDS)


def is_input_file(name: str) -> bool:
    """Tell whether a file of this name holds something for an input."""
    return is_array_file(name) or is_picture_file(name) or is_sound_file(name)


def is_media_file(name: str) -> bool:
    return is_picture_file(name) or is_sound_file(name)


def is_picture_file(name: str) -> bool:
    return name.lower().endswith(_PICTURES)


def read_arrivals(data: bytes, name: str) -> list[Arrival]:
    """Read the arrays of a file. Raises NpyError."""
    if name.lower().endswith(".npz"):
        return [Arrival(f"{name}: {key}", key, one) for key, one in read_npz(data, name).items()]
    stem = name.rpartition(".")[0]
    if is_bytes_file(name):
        return [Arrival(name, stem, np.frombuffer(data, np.uint8), BYTES)]
    return [Arrival(name, stem, read_npy(data, name))]


def match_inputs(arrivals: Sequence[Arrival], inputs: Sequence[Input]) -> InputMatches:
    """Match arrays with inputs: by name first, then where only one input fits. Each input takes
    one."""
    result = InputMatches()
    tensors = [state for state in inputs if isinstance(state, TensorInput)]
    taken: dict[int, Arrival] = {}
    open_: list[tuple[Arrival, list[TensorInput]]] = []

    def settle(arrival: Arrival, state: TensorInput) -> None:
        taken[state.index] = arrival
        result.placed.append((arrival, state))

    for arrival in arrivals:
        reasons = {state.name: _why_not(arrival, state) for state in tensors}
        fits = [state for state in tensors if not reasons[state.name]]
        named = [state for state in fits if state.name == arrival.stem]
        if not fits:
            result.misfits.append((arrival, reasons))
        elif named and named[0].index not in taken:
            settle(arrival, named[0])
        else:
            open_.append((arrival, fits))
    moved = True
    while moved:  # what one array takes leaves fewer to choose from for the others
        moved = False
        for item in list(open_):
            arrival, fits = item
            free = [state for state in fits if state.index not in taken]
            if len(free) <= 1:
                open_.remove(item)
                moved = True
                if free:
                    settle(arrival, free[0])
                else:
                    result.left.append((arrival, _all_taken(fits, taken)))
    result.unsure = [
        (arrival, [state for state in fits if state.index not in taken]) for arrival, fits in open_
    ]
    return result


def _why_not(arrival: Arrival, state: TensorInput) -> str:
    if arrival.kind == PICTURE:
        return "" if state.form is not None else "it is not of a shape that a picture could have"
    if arrival.kind == SOUND:
        return "" if state.sound is not None else "it is not of a shape that a sound could have"
    try:
        if arrival.kind == BYTES:
            state.of_bytes(arrival.values.tobytes(), arrival.name)
        else:
            state.fitted(arrival.values, arrival.name)
    except NpyError as error:
        return str(error)
    return ""


def _all_taken(fits: Sequence[TensorInput], taken: dict[int, Arrival]) -> dict[str, str]:
    return {state.name: taken[state.index].name for state in fits}


def left_text(arrival: Arrival, others: dict[str, str]) -> str:
    """Return a text that says for every input that an array fits which other one it has got."""
    got = ", ".join(f"{name} has got {other}" for name, other in others.items())
    return f"{arrival.name} was not used: {got}. Drop {arrival.name} alone to use it instead."


def misfit_text(method: str, arrival: Arrival, reasons: dict[str, str]) -> str:
    """Return a text that says for every input why an array does not fit."""
    kind = arrival.description
    if not reasons:
        return f"{arrival.name} ({kind}): {method} takes no tensors"
    told = "".join(f"\n{name}: {reason}" for name, reason in reasons.items())
    return f"{arrival.name} fits no input of {method} ({kind}):{told}"


def fill_input(arrival: Arrival, state: TensorInput) -> None:
    """Put an array into an input. Raises NpyError if it does not fit."""
    if arrival.photo is not None:
        state.take_picture(arrival.photo, arrival.name)
    elif arrival.kind == SOUND:
        state.take_sound(arrival.values, arrival.name, arrival.file)
    elif arrival.kind == BYTES:
        state.take_bytes(arrival.values.tobytes(), arrival.name)
    else:
        state.take_array(arrival.values, arrival.name)
