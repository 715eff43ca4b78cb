"""Kernels between delegates, one row each: the whole method is one submission.

What a kernel takes comes from a delegate where it is float32, and from the caller where it is not;
what it gives goes to a delegate, or to the caller if it is integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs import wait
from support.live_cases import Const
from support.pte_writer import Host, MethodWriter, write_pte
from support.samples import numbers
from support.stitching import expect, unary
from webpte import errors
from webpte.gpu.recording import RecordingDevice

Out = tuple[tuple[int, ...], str]  # dims and dtype
Row = tuple[str, Sequence[Any], Sequence[Out]]

PASSING = {"float32": "aten.neg.default", "bool": "aten.logical_not.default"}


def method_of(row: Row) -> tuple[MethodWriter, list[np.ndarray]]:
    """The method, and what to call it with."""
    kernel, args, outs = row
    m, given, hosts = MethodWriter(), [], []

    def argument(arg: Any) -> Any:
        if isinstance(arg, Const):
            return m.tensor(arg.array.shape, str(arg.array.dtype), data=arg.array)
        if isinstance(arg, list) and any(isinstance(item, np.ndarray) for item in arg):
            return [None if item is None else argument(item) for item in arg]
        if not isinstance(arg, np.ndarray):
            return arg
        given.append(arg)
        hosts.append(m.tensor(arg.shape, str(arg.dtype)))
        if arg.dtype != np.float32:
            return hosts[-1]
        return unary(m, PASSING["float32"], hosts[-1], arg.shape)

    taken = [argument(arg) for arg in args]
    made = [m.tensor(dims, dtype) for dims, dtype in outs]
    m.inputs(*hosts)
    m.kernel(kernel, *taken, *made, *made)
    m.outputs(*(passed(m, host, *out) for host, out in zip(made, outs, strict=True)))
    return m, given


def passed(m: MethodWriter, host: Host, dims: tuple[int, ...], dtype: str) -> Host:
    return unary(m, PASSING[dtype], host, dims, dtype) if dtype in PASSING else host


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def table(kind: str, columns: int) -> tuple[Const, Const, None, int, int]:
    low, high = {"2bit": (-2, 1), "4bit": (-8, 7), "byte": (-128, 127)}[kind]
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 256, (7, columns), np.uint8).view(np.int8 if kind == "byte" else "u1")
    return Const(weight), Const(np.abs(numbers(7, 2))), None, low, high


D = "quantized_decomposed::"

TABLES: list[Row] = [
    (f"{D}embedding_byte.out", (*table("byte", 8), ids(3, -1, 0)), [((3, 8), "float32")]),
    (f"{D}embedding_byte.dtype_out", (*table("byte", 6), ids(1), 6), [((1, 6), "float32")]),
    (f"{D}embedding_4bit.out", (*table("4bit", 4), ids(6, 2)), [((2, 8), "float32")]),
    (f"{D}embedding_2bit.out", (*table("2bit", 2), ids(0, 5)), [((2, 8), "float32")]),
]

ROWS = [*TABLES]


def named(row: Any) -> str:
    return str(row[0])


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_it_is_one_submission(row: Row) -> None:
    m, given = method_of(row)

    async def run() -> None:
        program = await expect(m, given, given)
        places = {entry.op: entry.where for entry in program.report if "::" in entry.op}
        assert places == {row[0]: "gpu"}
        assert program.stats.submissions == 1

    wait(run())


@pytest.mark.parametrize("row", TABLES, ids=named)
@pytest.mark.parametrize("outside", [7, -8, 2**40])
def test_a_row_that_a_table_does_not_have_is_an_error(row: Row, outside: int) -> None:
    m, (index,) = method_of(row)

    async def run() -> None:
        for device in ("numpy", RecordingDevice()):
            program = await webpte.load(write_pte(m), device=device)
            await program.forward(index)
            with pytest.raises(errors.WebpteError, match="embedding|range"):
                await program.forward(np.full_like(index, outside))
            await program.forward(index)

    wait(run())


def test_what_takes_as_much_as_it_gives_stays_on_the_host() -> None:
    """A row of a table that is no longer than its index."""

    async def run() -> None:
        row: Row = (f"{D}embedding_byte.out", (*table("byte", 2), ids(3)), [((1, 2), "float32")])
        m, given = method_of(row)
        program = await expect(m, given)
        assert [entry.where for entry in program.report if "::" in entry.op] == ["host"]

    wait(run())
