"""Which output an expected array is for: that of its name, else the ones left over, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.inputs.match_inputs import Arrival, is_array_file, read_arrivals
from page.npy import Array, NpyError

_PREFIX = "expected"


@dataclass(frozen=True)
class Expected:
    """What an output should be, and which file says so."""

    output: str
    file: str
    array: Array


def is_expected_file(name: str) -> bool:
    """Whether a file that is dropped just anywhere says that it holds expected outputs.

    Every other array is for an input there.
    """
    return is_array_file(name) and name.lower().startswith(_PREFIX)


def assign(files: Sequence[tuple[str, bytes]], outputs: Sequence[str]) -> list[Expected]:
    """(name, content) of `.npy` and `.npz` files -> one for each output that they have one for.

    Raises NpyError for what is no array of numbers, and for what may be any of several outputs.
    """
    arrivals = [one for name, data in files for one in _read(name, data)]
    named, rest = dict[str, Arrival](), list[Arrival]()
    for arrival in arrivals:
        output = _output_of(arrival, outputs)
        if output and output not in named:
            named[output] = arrival
        else:
            rest.append(arrival)
    left = [output for output in outputs if output not in named]
    if rest and len(rest) != len(left):
        raise NpyError(
            f"{', '.join(one.name for one in rest)}: which output is this for? There are "
            f"{', '.join(outputs)}. Name the files (or the arrays in the .npz) like the outputs, "
            "or give one for each, in order."
        )
    found = named | dict(zip(left, rest, strict=False))
    return [Expected(o, found[o].name, found[o].array) for o in outputs if o in found]


def _read(name: str, data: bytes) -> list[Arrival]:
    arrivals = read_arrivals(data, name)
    for arrival in arrivals:
        if arrival.array.dtype.kind not in "biuf":
            raise NpyError(f"{arrival.name} holds {arrival.array.dtype}: outputs are numbers")
    return arrivals


def _output_of(arrival: Arrival, outputs: Sequence[str]) -> str:
    """ "expected_output1" and "output1" are both for output1; "" if it has no such name."""
    stem = arrival.stem
    short = stem[len(_PREFIX) :].lstrip("_-. ") if stem.lower().startswith(_PREFIX) else stem
    return next((name for name in outputs if name in (stem, short)), "")
