"""Writes the samples' examples for `Program.check`: `NAME.check.npz`.

The outputs come from the NumPy references, which tests compare with PyTorch:

    PYTHONPATH=pysrc python -m webpte_export.samples.write_checks web/samples
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import webpte

Random = np.random.Generator


def _floats(*shapes: tuple[int, ...], levels: int = 64) -> Callable[[Random], list[Any]]:
    """Return a generator of numbers from 0 to 1 with few values, which compress well."""

    def make(random: Random) -> list[Any]:
        numbers = [random.integers(0, levels, shape).astype(np.float32) for shape in shapes]
        return [array / np.float32(levels) for array in numbers]

    return make


def _tokens(random: Random) -> list[Any]:
    return [random.integers(4, 900, (1, 23)), np.array([0])]


def _letters(random: Random) -> list[Any]:
    return [random.integers(0, 257, (3, 37))]


# The inputs of each sample, in sizes that are not powers of two if the program takes any size.
EXAMPLES: dict[str, Callable[[Random], list[Any]]] = {
    "add": _floats((37, 41), (37, 41), levels=8),
    "sigmoid": _floats((37, 41), levels=8),
    "digits": _floats((1, 1, 28, 28)),
    "photo": _floats((1, 3, 11, 17)),
    "stories": _tokens,
    "words": _letters,
}


async def write(folder: Path, name: str) -> None:
    """Compute an example in NumPy and write it."""
    async with await webpte.load(folder / f"{name}.pte", device="numpy") as program:
        infos = program.methods["forward"].inputs
        made = EXAMPLES[name](np.random.default_rng(1))
        inputs = [
            np.asarray(array, info.array_dtype) if isinstance(info, webpte.TensorInfo) else array
            for array, info in zip(made, infos, strict=True)
        ]
        outputs = await program.forward(*inputs)
    arrays: dict[str, Any] = {f"input{i}": array for i, array in enumerate(inputs)}
    arrays |= {f"output{i}": array for i, array in enumerate(outputs)}
    np.savez_compressed(folder / f"{name}.check.npz", **arrays)


async def main(folder: Path) -> None:
    for name in EXAMPLES:
        await write(folder, name)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
