"""Whole programs without any delegate, exported from PyTorch: the runtime around the kernels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import webpte

FILES = sorted((Path(__file__).parents[3] / "data" / "kernels").glob("*.pte"))
TOLERANCE = {2: 3e-3, 4: 1e-5, 8: 1e-9}


def calls_of(file: Path) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    with np.load(file.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    count = 1 + max(int(name.partition("_")[0][2:]) for name in arrays if name.startswith("in"))

    def group(prefix: str) -> list[np.ndarray]:
        size = sum(name.startswith(f"{prefix}_") for name in arrays)
        return [arrays[f"{prefix}_{index}"] for index in range(size)]

    return [(group(f"in{call}"), group(f"out{call}")) for call in range(count)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_as_pytorch(file: Path) -> None:
    async def run() -> None:
        async with await webpte.load(file, device="numpy") as program:
            for inputs, expected in calls_of(file):
                outputs = await program.forward(*inputs)
                assert len(outputs) == len(expected)
                for got, want in zip(outputs, expected, strict=True):
                    check(np.asarray(got), want)

    asyncio.run(run())


def check(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "f":
        limit = TOLERANCE[want.itemsize]
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
    else:
        np.testing.assert_array_equal(got, want)


def test_there_are_files() -> None:
    assert len(FILES) > 10


def test_an_error_names_the_method_and_the_kernel_once() -> None:
    async def run() -> None:
        file = next(file for file in FILES if file.stem == "kv_inplace")
        (x, _), _ = calls_of(file)[0]
        async with await webpte.load(file, device="numpy") as program:
            with pytest.raises(webpte.errors.ExecutionError) as caught:
                await program.forward(x, np.array([99]))
        assert str(caught.value).startswith("method 'forward', aten::index_put_: index 99")

    asyncio.run(run())


def test_a_failed_call_changes_no_buffer() -> None:
    async def run() -> None:
        file = next(file for file in FILES if file.stem == "kv_inplace")
        async with await webpte.load(file, device="numpy") as program:
            for inputs, expected in calls_of(file):
                with pytest.raises(webpte.errors.ExecutionError):
                    await program.forward(inputs[0] * 9, np.array([99]))
                check(np.asarray((await program.forward(*inputs))[0]), expected[0])

    asyncio.run(run())
