"""Packs PyTorch's results for a sample into a file, for tests of the program.

    python -m webpte_export.samples.results NAME.suite tests/data/samples/NAME.npz

The file has `0.input0`, `0.input1`, `0.output0`, then `1.input0` and so on for further calls.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class RecordedCall:
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


def pack(suite: Path, file: Path) -> None:
    """Pack a suite with a single entry, whose steps run in order."""
    (entry,) = json.loads((suite / "manifest.json").read_text(encoding="utf-8"))
    arrays: dict[str, Array] = {}
    for number, step in enumerate(entry["steps"]):
        for kind, key in (("input", "inputs"), ("output", "goldens")):
            for index, tensor in enumerate(step[key]):
                data = (suite / tensor["path"]).read_bytes()
                array = np.frombuffer(data, tensor["dtype"]).reshape(tensor["shape"])
                arrays[f"{number}.{kind}{index}"] = array
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        np.savez_compressed(out, **arrays)  # type: ignore[arg-type]


def unpack(file: Path) -> list[RecordedCall]:
    with np.load(file) as found:
        arrays = dict(found)
    return [
        RecordedCall(_all(arrays, f"{number}.input"), _all(arrays, f"{number}.output"))
        for number in range(1 + max(int(name.split(".")[0]) for name in arrays))
    ]


def _all(arrays: dict[str, Array], start: str) -> tuple[Array, ...]:
    count = sum(name.startswith(start) for name in arrays)
    return tuple(arrays[f"{start}{index}"] for index in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    pack(options.suite, options.file)


if __name__ == "__main__":
    main()
