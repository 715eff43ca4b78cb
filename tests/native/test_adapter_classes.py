"""Kernels as a small GPU gets them: larger tiles and fewer parts give the same results."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import webpte
from support.cases.cases import Array
from support.cases.tables import Row, every_row
from support.devices.native import make_device, need_native
from support.graphs.graphs import make_planner, read_graph
from support.harness import extent
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import GPU, Target

MOST = extent.count(2, 5)  # rows of a family
FAMILIES = ("attention", "conv", "matmul", "reduce")


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@cache
def small_gpu() -> NativeDevice:
    device = make_device()
    device.info = replace(device.info, vendor="arm", architecture="valhall", description="Mali-G78")
    assert device.info.adapter_class.name == "Arm Mali"
    return device


def dispatches(program: bytes, target: Target) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(program), target)
    planner.lower_all()
    return planner.dispatches()


def differing(family: str) -> list[Row]:
    """Return rows of a family that a small GPU runs otherwise than a large one."""
    small, found = replace(GPU, adapter=small_gpu().info.adapter_class), list[Row]()
    for row in every_row():
        if row.family == family and len(found) < MOST:
            program = row.program()
            if dispatches(program, small) != dispatches(program, GPU):
                found.append(row)
    return found


async def outputs(row: Row, device: NativeDevice | str) -> list[Array]:
    async with await webpte.load(row.program(), device=device) as loaded:
        return [output for step in row.steps for output in await loaded.forward(*step)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_gpu_computes_the_same(family: str) -> None:
    rows = differing(family)
    assert rows
    for row in rows:
        got, want = (asyncio.run(outputs(row, device)) for device in (small_gpu(), "numpy"))
        for one, other in zip(got, want, strict=True):
            if one.dtype.kind != "f":
                np.testing.assert_array_equal(one, other, err_msg=str(row))
                continue
            largest = float(np.abs(other[np.isfinite(other)]).max(initial=1.0))
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5 * largest, err_msg=str(row))
