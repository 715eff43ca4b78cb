"""Every row of the operators' tables on this machine's GPU, with a GPU's kernels.

The driver may be a CPU in disguise, where a browser would get simpler kernels: here, what real GPUs
run is compiled and run, tiles and all. A row that fails shows its WGSL, its params and its values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases import Array
from support.explain import explain
from support.native import need_native
from support.tables import Row, every_row
from webpte.gpu.native import NativeDevice

# For tables that have no tolerance of their own: sums in another order than NumPy's.
RTOL, ATOL_OF_LARGEST = 1e-4, 4e-6


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@cache
def gpu() -> NativeDevice:
    device = asyncio.run(NativeDevice.create())
    device.info = replace(device.info, software=False)
    return device


async def outputs(program: bytes, steps: Sequence[Sequence[Array]], device: Any) -> list[Array]:
    async with await webpte.load(program, device=device) as loaded:
        return [output for step in steps for output in await loaded.forward(*step)]


def agree(case: Any, one: Array, other: Array) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    if hasattr(case, "rtol"):
        rtol, atol = case.rtol, getattr(case, "atol", case.rtol)
    else:
        finite = np.abs(other[np.isfinite(other)])
        rtol, atol = RTOL, ATOL_OF_LARGEST * float(finite.max(initial=0.0))
    return bool(np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True))


@pytest.mark.parametrize("row", list(every_row()), ids=str)
def test_row(row: Row) -> None:
    program = row.program()
    got = asyncio.run(outputs(program, row.steps, gpu()))
    want = asyncio.run(outputs(program, row.steps, "numpy"))
    assert all(agree(row.case, *pair) for pair in zip(got, want, strict=True)), explain(
        program, gpu().info.target, got, want
    )
