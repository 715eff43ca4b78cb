"""Matching of expected arrays with outputs: by name, else in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.shared.inputs.match_inputs import Arrival, is_array_file, read_arrivals
from page.shared.npy import Array, NpyError

_PREFIX = "expected"


@dataclass(frozen=True)
class Expected:
    """The expected value of an output, and its file."""

    output: str
    file: str
    array: Array


def is_expected_file(name: str) -> bool:
    """Tell by its name whether a file that is dropped anywhere holds expected outputs.

    Every other array that is dropped is taken for an input.
    """
    return is_array_file(name) and name.lower().startswith(_PREFIX)


def assign(files: Sequence[tuple[str, bytes]], outputs: Sequence[str]) -> list[Expected]:
    """Match `.npy` and `.npz` files, as (name, content), with outputs.

    Raises NpyError for arrays that are not numeric, and for ambiguous ones.
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
    return [Expected(o, found[o].name, found[o].values) for o in outputs if o in found]


def _read(name: str, data: bytes) -> list[Arrival]:
    arrivals = read_arrivals(data, name)
    for arrival in arrivals:
        if arrival.values.dtype.kind not in "biuf":
            raise NpyError(f"{arrival.name} holds {arrival.values.dtype}: outputs are numbers")
    return arrivals


def _output_of(arrival: Arrival, outputs: Sequence[str]) -> str:
    """Return the output that an array is named after ("output1" or "expected_output1"); else ""."""
    stem = arrival.stem
    short = stem[len(_PREFIX) :].lstrip("_-. ") if stem.lower().startswith(_PREFIX) else stem
    return next((name for name in outputs if name in (stem, short)), "")
