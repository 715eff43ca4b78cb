"""Tensors without a bound: their declared sizes are a guess, and they become as large as need be.

The files in tests/data/unbound come from ExecuTorch's exporter with every dynamic tensor declared
DYNAMIC_UNBOUND. Inputs are exported with 2 rows, 4 at most.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import webpte
from support.graphs.graphs import load, wait
from support.write.pte_writer import MethodWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

ROWS = [0, 1, 2, 4, 5, 1000]


@pytest.fixture
def data(root: Path) -> Path:
    return root / "tests" / "data" / "unbound"


def matrix(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(-1, 2, (rows, 3)).astype(np.float32)


async def run_file(path: Path, *inputs: np.ndarray) -> np.ndarray:
    async with await webpte.load(path, device="numpy") as program:
        (output,) = await program.forward(*inputs)
        again: np.ndarray
        (again,) = await program.forward(*inputs)
        np.testing.assert_array_equal(again, output)
        return again


@pytest.mark.parametrize("rows", ROWS)
def test_nonzero(data: Path, rows: int) -> None:
    x = matrix(rows)
    y = wait(run_file(data / "nonzero.pte", x))
    np.testing.assert_array_equal(y, -np.argwhere(x))


@pytest.mark.parametrize("rows", ROWS)
def test_masked_select(data: Path, rows: int) -> None:
    x = matrix(rows)
    y = wait(run_file(data / "masked.pte", x, x > 0))
    np.testing.assert_array_equal(y, 2 * x[x > 0])


@pytest.mark.parametrize("repeats", [[], [0, 0], [2, 0, 3], [100, 1, 0, 7, 50]])
def test_repeat_interleave(data: Path, repeats: list[int]) -> None:
    counts = np.array(repeats, np.int64)
    y = wait(run_file(data / "repeat_interleave.pte", counts))
    np.testing.assert_array_equal(y, -np.repeat(np.arange(len(counts)), counts))


def test_what_the_program_says_of_them(data: Path) -> None:
    info = wait(webpte.inspect(data / "masked.pte"))["forward"]
    assert [str(i) for i in (*info.inputs, *info.outputs)] == [
        "input0: float32 [any, any]",
        "input1: bool [any, any]",
        "output0: float32 [any]",
    ]
    first = info.inputs[0]
    assert isinstance(first, webpte.TensorInfo)
    assert first.bounds == ((0, 2**31 - 1), (0, 2**31 - 1))
    assert first.shape == (4, 3), "to start with"


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_delegate_has_its_maximum_all_the_same(data: Path, device: str) -> None:
    """cumsum(relu(x)) + 1, with delegates for at most 4 rows."""

    async def run() -> None:
        used = SimulatedDevice() if device == "recording" else device
        program = await webpte.load(data / "relu.pte", device=used)
        for rows in (2, 4, 0):
            x = matrix(rows)
            (y,) = await program.forward(x)
            assert y.shape == x.shape
            if device == "numpy":
                np.testing.assert_array_equal(y, np.cumsum(np.maximum(x, 0), axis=0) + 1)
        with pytest.raises(
            errors.ExecutionError, match=r"delegate 0: .* \[5, 3\] does not fit into .* \[4, 3\]"
        ):
            await program.forward(matrix(5))
        (y,) = await program.forward(matrix(3))
        assert y.shape == (3, 3)

    wait(run())


@pytest.mark.parametrize("shape", [(4,), (4, 3, 1), ()])
def test_the_rank_is_fixed(data: Path, shape: tuple[int, ...]) -> None:
    async def run() -> None:
        program = await webpte.load(data / "nonzero.pte", device="numpy")
        with pytest.raises(errors.InputError, match="rank 2 is needed"):
            await program.forward(np.zeros(shape, np.float32))

    wait(run())


def test_a_bound_is_a_bound() -> None:
    """Neither the input nor the output of a bounded method may be larger than its bound."""
    m = MethodWriter()
    x, out = m.tensor((4, 3), dynamic=True), m.tensor((2, 2), "int64", dynamic=True)
    m.inputs(x)
    m.kernel("aten::nonzero.out", x, out, out)
    m.outputs(out)

    async def run() -> None:
        program = await load(m)
        with pytest.raises(errors.InputError, match=r"\[≤4, ≤3\]: \[5, 3\] was given"):
            await program.forward(np.zeros((5, 3), np.float32))
        with pytest.raises(errors.ExecutionError, match=r"\[12, 2\] for an output of at most"):
            await program.forward(np.ones((4, 3), np.float32))
        (y,) = await program.forward(np.eye(4, 3, 1, dtype=np.float32))
        assert y.tolist() == [[0, 1], [1, 2]]

    wait(run())
