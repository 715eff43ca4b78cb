"""Examples of programs: inputs with the outputs of a reference, in one `.npz` file.

`NAME.check.npz` stands beside `NAME.pte`. Its arrays are `input0`, `input1`, ... and `output0`, ...
(any of the outputs), in the order of the method; `rtol` and `atol`, numbers, are the tolerance if
they are there. `serve.py export` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.call.info import MethodInfo, ScalarInfo
from webpte.engine.files.arrays import read_npz
from webpte.engine.open.open_source import open_source
from webpte.errors import InputError, SourceError
from webpte.inspection.report.difference import ATOL, RTOL, Tolerance

ENDING = ".check.npz"
_PROGRAM = re.compile(r"\.pte(\?.*)?$")


@dataclass(frozen=True)
class Example:
    """Inputs of a method, and one array for each output, or None where none is expected."""

    inputs: Sequence[Any]
    expected: Sequence[np.ndarray | None]
    tolerance: Tolerance = field(default_factory=Tolerance)


def example_address(origin: str) -> str:
    """Return the path or URL of the example beside a program."""
    if not _PROGRAM.search(origin):
        raise InputError(f"{origin} does not end in .pte: give inputs and expected outputs")
    return _PROGRAM.sub(lambda found: ENDING + (found[1] or ""), origin)


async def read_example(info: MethodInfo, source: Any) -> Example:
    """Read an example from what `load` takes: bytes, a path, a URL or a Blob."""
    try:
        opened = await open_source(source)
        data = await opened.read(0, opened.size)
    except SourceError as error:
        name = Path(source).name if isinstance(source, str | Path) else "the example"
        raise InputError(
            f"{name} cannot be read, which would hold inputs and expected outputs ({error}): give "
            "check(inputs, expected), or write that file (docs/use/inspecting.md says how)"
        ) from error
    return parse_example(info, read_npz(data, opened.name), opened.name)


def parse_example(info: MethodInfo, arrays: Mapping[str, np.ndarray], name: str) -> Example:
    """Match the arrays of an example with the inputs and outputs of a method."""
    known = {f"input{i}" for i in range(len(info.inputs))} | {"rtol", "atol"}
    known |= {f"output{i}" for i in range(len(info.outputs))}
    if unknown := sorted(arrays.keys() - known):
        raise InputError(
            f"{name}: {', '.join(unknown)} is neither an input nor an output of {info.name!r}, "
            f"which has {len(info.inputs)} and {len(info.outputs)}"
        )
    inputs = []
    for index, each in enumerate(info.inputs):
        if f"input{index}" not in arrays:
            raise InputError(f"{name} lacks input{index}, the input {each.name!r}")
        array = arrays[f"input{index}"]
        inputs.append(array.item() if isinstance(each, ScalarInfo) and array.size == 1 else array)
    expected = [arrays.get(f"output{index}") for index in range(len(info.outputs))]
    if all(array is None for array in expected):
        raise InputError(f"{name} has no outputs: output0, ... are what is compared")
    rtol, atol = _number(arrays, "rtol", RTOL, name), _number(arrays, "atol", ATOL, name)
    return Example(inputs, expected, Tolerance(rtol, atol))


def _number(arrays: Mapping[str, np.ndarray], key: str, default: float, name: str) -> float:
    if key not in arrays:
        return default
    array = arrays[key]
    if array.size != 1 or array.dtype.kind not in "fiu" or not 0 <= float(array.item()) < 1e6:
        raise InputError(f"{name}: {key} must be one number, 0 or more")
    return float(array.item())
