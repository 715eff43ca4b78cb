"""Sizes and positions that kernels compute before the only delegate become calls of its graph."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.write.method_writer import Host
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import WebpteError

TOKENS, ROWS, WIDTH = 5, 16, 4
SIZE, ELEMENT = "aten::sym_size.int", "aten::_local_scalar_dense"
SELECT, UNSQUEEZE = "aten::select_copy.int_out", "aten::unsqueeze_copy.out"
ADD, CAST = "executorch_prim::add.Scalar", "aten::_to_copy.out"


def graph() -> GraphWriter:
    """Write rows of a table from a begin to an end, plus a position each."""
    g = GraphWriter()
    places, begin, end = g.tensor((1, TOKENS)), g.symint(0), g.symint(TOKENS)
    rows = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    table = g.tensor(rows.shape, constant=rows)
    where = (g.int(0), begin, end, g.int(1))
    cut = g.op("aten.slice_copy.Tensor", table, *where, g.tensor((TOKENS, WIDTH)))
    column = g.op("aten.permute_copy.default", places, g.int_list([1, 0]), g.tensor((TOKENS, 1)))
    out = g.op("aten.add.Tensor", cut, column, g.int(1), g.tensor((TOKENS, WIDTH)))
    g.inputs(places, begin, end)
    g.outputs(out)
    return g


def element(m: MethodWriter, positions: Host, at: int) -> Host:
    """Read an element of the positions."""
    picked, number = m.tensor((), "int64"), m.value(0)
    m.kernel(SELECT, positions, 0, at, picked, picked)
    m.kernel(ELEMENT, picked, number)
    return number


def method(kind: str = "") -> MethodWriter:
    """Write a method that takes tokens and the position of each."""
    m = MethodWriter()
    tokens = m.tensor((1, TOKENS), "int64", dynamic=True)
    positions = m.tensor((TOKENS,), "int64", dynamic=True)
    m.inputs(tokens, positions)
    count, end = m.value(0), m.value(0)
    m.kernel(SIZE, tokens, 1, count)
    begin = element(m, positions, 0)
    m.kernel(ADD, element(m, positions, 0), count, end)
    spread = m.tensor((1, TOKENS), "int64", dynamic=True)
    m.kernel(UNSQUEEZE, positions, 0, spread, spread)
    if kind == "squares":
        squares = m.tensor((1, TOKENS), "int64", dynamic=True)
        m.kernel("aten::mul.out", spread, spread, squares, squares)
        spread = squares
    if kind == "largest":
        largest = m.tensor((), "int64")
        m.kernel("aten::max.unary_out", positions, largest, largest)
        begin = m.value(0)
        m.kernel(ELEMENT, largest, begin)
    places = m.tensor((1, TOKENS), dynamic=True)
    m.kernel(CAST, spread, False, None, places, places)
    out = m.tensor((TOKENS, WIDTH), dynamic=True)
    m.delegate(graph(), [places, begin, end, out])
    if kind == "after":
        doubled = m.tensor((TOKENS, WIDTH), dynamic=True)
        m.kernel("aten::logcumsumexp.out", out, 1, doubled, doubled)
        out = doubled
    m.outputs(out)
    return m


CALLS = ((1, 0), (5, 0), (3, 7), (1, 15), (1, 3))


async def compare(file: bytes) -> webpte.Program:
    """Return a program on a simulated GPU, after calls that gave the results of NumPy."""
    program = await webpte.load(file, device=SimulatedDevice())
    async with await webpte.load(file, device="numpy") as reference:
        for count, start in CALLS:
            given = np.zeros((1, count), np.int64), np.arange(start, start + count)
            (found,), (wanted,) = await program.forward(*given), await reference.forward(*given)
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(found[:, 0], np.arange(start, start + count) * 5)
    return program


def test_the_kernels_become_calls_of_the_graph() -> None:
    async def run() -> None:
        async with await compare(write_pte(method())) as program:
            assert not program._build.methods["forward"].kernels
            assert program._build.methods["forward"].only_delegate is not None
            (made,) = program._build.stages["forward"].planned.graphs
            assert made is not None
            names = [call.name for call in made.calls]
            assert names.count("et_vk.select_as_symint.default") == 1, "equal numbers are one"
            assert names.count("sym_size.int") == 1

    wait(run())


@pytest.mark.parametrize("kind", ["squares", "largest", "after"])
def test_other_kernels_stay(kind: str) -> None:
    """Products may not fit into 32 bits, and the greatest position is no element."""

    async def run() -> None:
        file = write_pte(method(kind))
        async with (
            await webpte.load(file, device=SimulatedDevice()) as program,
            await webpte.load(file, device="numpy") as reference,
        ):
            assert program._build.methods["forward"].only_delegate is None
            given = np.zeros((1, 1), np.int64), np.array([4])
            (found,), (wanted,) = await program.forward(*given), await reference.forward(*given)
            np.testing.assert_array_equal(found, wanted)

    wait(run())


@pytest.mark.parametrize("start", [-1, ROWS, 2**31, 2**40])
def test_a_position_outside_of_the_table(start: int) -> None:
    """There is no row then, as on the host, or an error for more than 32 bits."""

    async def run() -> None:
        file, given = write_pte(method()), (np.zeros((1, 1), np.int64), np.array([start]))
        async with (
            await webpte.load(file, device=SimulatedDevice()) as program,
            await webpte.load(file, device="numpy") as reference,
        ):
            if start > ROWS:
                with pytest.raises(WebpteError):
                    await program.forward(*given)
            else:
                (found,), (wanted,) = await program.forward(*given), await reference.forward(*given)
                assert found.shape == wanted.shape == (0, WIDTH)
            (found,) = await program.forward(given[0], np.array([2]))
            np.testing.assert_array_equal(found, [[10, 11, 12, 13]])

    wait(run())
