"""Which input a dropped array is for: the one that it fits, or the question which of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from page.inputs import Input, TensorInput
from page.npy import Array, NpyError, read_npy, read_npz
from page.units import shape_text


@dataclass(frozen=True, eq=False)
class Arrival:
    """An array that was dropped somewhere. `stem` may be the name of the input that it is for."""

    name: str
    stem: str
    array: Array
    is_picture: bool = False  # then the array has its pixels, (height, width, 3)


@dataclass
class Placement:
    """Where arrays go. `unsure` fit several inputs; `misfits` come with the reason by input."""

    placed: list[tuple[Arrival, TensorInput]] = field(default_factory=list)
    unsure: list[tuple[Arrival, list[TensorInput]]] = field(default_factory=list)
    misfits: list[tuple[Arrival, dict[str, str]]] = field(default_factory=list)


def is_array_file(name: str) -> bool:
    return name.lower().endswith((".npy", ".npz"))


def is_picture_file(name: str) -> bool:
    return name.lower().endswith((".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".avif"))


def read_arrivals(data: bytes, name: str) -> list[Arrival]:
    """Raises NpyError."""
    if name.lower().endswith(".npz"):
        return [Arrival(f"{name}: {key}", key, one) for key, one in read_npz(data, name).items()]
    return [Arrival(name, name.rpartition(".")[0], read_npy(data, name))]


def place(arrivals: Sequence[Arrival], inputs: Sequence[Input]) -> Placement:
    """A name decides first, then what is the only one that fits. Each input takes one array."""
    result = Placement()
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
                    result.misfits.append((arrival, _all_taken(fits, taken)))
    result.unsure = [
        (arrival, [state for state in fits if state.index not in taken]) for arrival, fits in open_
    ]
    return result


def _why_not(arrival: Arrival, state: TensorInput) -> str:
    if arrival.is_picture:
        return "" if state.form is not None else "it is not of a shape that a picture could have"
    try:
        state.fitted(arrival.array, arrival.name)
    except NpyError as error:
        return str(error)
    return ""


def _all_taken(fits: Sequence[TensorInput], taken: dict[int, Arrival]) -> dict[str, str]:
    return {
        state.name: f"it fits, but {taken[state.index].name} went there. Drop it alone to use it."
        for state in fits
    }


def misfit_text(method: str, arrival: Arrival, reasons: dict[str, str]) -> str:
    """What is wrong with an array, for every input."""
    kind = f"{arrival.array.dtype.name} · {shape_text(arrival.array.shape)}"
    if not reasons:
        return f"{arrival.name} ({kind}): {method} takes no tensors"
    told = "".join(f"\n{name}: {reason}" for name, reason in reasons.items())
    return f"{arrival.name} fits no input of {method} ({kind}):{told}"
