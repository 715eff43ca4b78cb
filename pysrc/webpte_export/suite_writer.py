"""Writes the suite of an export for `serve.py verify`: its inputs and PyTorch's results.

The folder also contains the program, as a hard link if the disk allows it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

USUAL_METHOD = "forward"
MAX_EXAMPLE_BYTES = 4 << 20  # the page downloads an example with its program
_LEAST_TOLERANCE = 1e-6  # for outputs of zeros


@dataclass(frozen=True)
class Call:
    """A call of the program: its inputs and PyTorch's results, flat and in order."""

    inputs: tuple[Array | int | float | bool, ...]
    expected: tuple[Array | None, ...]  # None: not to be compared


@dataclass(frozen=True)
class Tolerance:
    """Absolute and relative tolerance: an element passes within either."""

    atol: float
    rtol: float


def write_suite(
    folder: Path,
    program: Path,
    name: str,
    calls: Mapping[str, Sequence[Call]],
    tolerance: Tolerance,
    own: Mapping[str, Tolerance] | None = None,
) -> list[dict[str, Any]]:
    """Write a new folder with an entry for each method, whose steps are its calls.

    `own` has tolerances of methods that replace `tolerance`. Returns the entries.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _link(program, folder / program.name)
    entries: list[dict[str, Any]] = []
    for method, made in calls.items():
        alone = method == USUAL_METHOD
        prefix, case = ("", "export") if alone else (f"{method}.", method)
        steps = [_step(folder, f"{prefix}{number}", call) for number, call in enumerate(made)]
        entry: dict[str, Any] = {"op": name, "case": case, "pte": program.name, "steps": steps}
        entry |= {} if alone else {"method": method}
        entry |= _nan_rule(made)
        allowed = (own or {}).get(method, tolerance)
        entries.append(entry | {"atol": allowed.atol, "rtol": allowed.rtol})
    (folder / "manifest.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    return entries


def write_example(path: Path, call: Call, tolerance: Tolerance) -> bool:
    """Write a call as an example for `Program.check`; returns whether it is small enough.

    docs/use/inspecting.md describes the file.
    """
    arrays: dict[str, Any] = {f"input{i}": np.asarray(value) for i, value in enumerate(call.inputs)}
    arrays |= {f"output{i}": array for i, array in enumerate(call.expected) if array is not None}
    path.unlink(missing_ok=True)
    if sum(array.nbytes for array in arrays.values()) > MAX_EXAMPLE_BYTES:
        return False
    np.savez_compressed(path, rtol=tolerance.rtol, atol=tolerance.atol, **arrays)
    return True


def entry_of(
    folder: Path, program: str, op: str, case: str, calls: Sequence[Call], share: float
) -> dict[str, Any]:
    """Write the files of a program in `folder`, and return its entry for a manifest.

    An element may differ by `share` of the largest number in its output.
    """
    steps = []
    for number, call in enumerate(calls):
        step = _step(folder, f"{op}__{case}.{number}", call)
        compared = (array for array in call.expected if array is not None)
        for golden, array in zip(step["goldens"], compared, strict=True):
            # A share is a quotient: the product can be the next lower number.
            bound = math.nextafter(share * _largest(array), math.inf)
            golden["atol"] = max(bound, _LEAST_TOLERANCE)
        steps.append(step)
    entry: dict[str, Any] = {"op": op, "case": case, "pte": program, "steps": steps}
    return entry | {"atol": _LEAST_TOLERANCE, "rtol": share} | _nan_rule(calls)


def _nan_rule(calls: Sequence[Call]) -> dict[str, Any]:
    """Let NaN pass for NaN if PyTorch's result has NaN."""
    floats = (array for call in calls for array in call.expected if array is not None)
    has_nan = any(bool(np.isnan(array).any()) for array in floats if array.dtype.kind == "f")
    return {"equal_nan": True} if has_nan else {}


def _largest(array: Array) -> float:
    if array.dtype.kind != "f":  # must be equal
        return 0.0
    return float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def _step(folder: Path, prefix: str, call: Call) -> dict[str, Any]:
    inputs = [
        _tensor(folder / f"{prefix}.input{index}.bin", np.asarray(value))
        | ({} if isinstance(value, np.ndarray) else {"scalar": True})
        for index, value in enumerate(call.inputs)
    ]
    goldens = [
        {**_tensor(folder / f"{prefix}.output{index}.bin", array), "output_index": index}
        for index, array in enumerate(call.expected)
        if array is not None
    ]
    return {"inputs": inputs, "goldens": goldens}


def _tensor(path: Path, array: Array) -> dict[str, Any]:
    path.write_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return {"path": path.name, "shape": list(array.shape), "dtype": str(array.dtype)}
