"""Writes the cases of a bundled program (`.bpte`) as a suite, so that `verify` can run them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.format.bundled import BundledValue, parse_bundle
from webpte_export.suites.suite import SuiteError

# Default tolerances of a float output: sums have another order than PyTorch's.
ATOL, RTOL = 1e-4, 1e-3


def write_suite(bundle: Path, folder: Path) -> list[dict[str, Any]]:
    """Write program, inputs, expected outputs and manifest; returns the manifest's entries.

    Each case is a separate entry: it starts with a fresh program.
    """
    data = bundle.read_bytes()
    found = parse_bundle(data)
    (folder / "program.pte").write_bytes(data[found.program.offset : found.program.end])
    entries = [
        {
            "op": bundle.stem,
            "case": f"{method} {number}",
            "pte": "program.pte",
            "method": method,
            "atol": ATOL,
            "rtol": RTOL,
            "equal_nan": True,
            "steps": [
                {
                    "inputs": _write(folder, f"{method}.{number}.in", case.inputs),
                    "goldens": _write(folder, f"{method}.{number}.out", case.expected),
                }
            ],
        }
        for method, cases in found.cases.items()
        for number, case in enumerate(cases)
    ]
    if not entries:
        raise SuiteError(f"{bundle.name} has no cases, so there is nothing to check")
    (folder / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    return entries


def _write(folder: Path, stem: str, values: Sequence[BundledValue]) -> list[dict[str, Any]]:
    files = []
    for index, value in enumerate(values):
        array, path = np.asarray(value), f"{stem}{index}.bin"
        (folder / path).write_bytes(array.tobytes())
        entry = {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
        scalar = not isinstance(value, np.ndarray)
        files.append({**entry, "output_index": index, "scalar": scalar})
    return files
