"""Every row of the operators' tables on this machine's GPU, with a GPU's kernels.

The driver may be a software adapter, which gets simpler kernels in a browser. Here the kernels of
real GPUs run: by default one row of each operator and some of the others, with `--all` every
row. The simpler ones run for rows that cover all kernels, if they differ; with `--all` for every
row. A row that fails shows its WGSL, its params and its values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

import webpte
from support.cases.cases import Array
from support.cases.explain import explain
from support.cases.software import slow_kernels
from support.cases.tables import Row, agree, every_row, rows_of_every_kernel, usual_rows
from support.devices.native import need_native, shared_device
from support.graphs.graphs import make_planner, read_graph
from support.harness.extent import everything
from webpte.engine.graph.graph import Graph
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import GPU, Target

SOFTWARE = Target(software=True)


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@cache
def names_in_software() -> set[str]:
    """Name the rows whose kernels for a software adapter run, too."""
    return {str(row) for row in (every_row() if everything() else rows_of_every_kernel())}


def kernels(graph: Graph, target: Target) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(graph, target)
    planner.lower_all()
    return planner.dispatches()


async def outputs(program: bytes, steps: Sequence[Sequence[Array]], device: Any) -> list[Array]:
    async with await webpte.load(program, device=device) as loaded:
        return [output for step in steps for output in await loaded.forward(*step)]


@pytest.mark.parametrize("row", list(every_row()) if everything() else usual_rows(), ids=str)
def test_row(row: Row) -> None:
    program = row.program()
    graph = read_graph(program)
    in_software = kernels(graph, SOFTWARE)
    assert slow_kernels(in_software) == []
    targets = [GPU]
    if str(row) in names_in_software() and in_software != kernels(graph, GPU):
        targets.append(SOFTWARE)
    devices = [shared_device("plain" if one.software else "gpu") for one in targets]
    want, *results = asyncio.run(on_devices(program, row.steps, ["numpy", *devices]))
    for target, got in zip(targets, results, strict=True):
        assert all(agree(row.case, *pair) for pair in zip(got, want, strict=True)), explain(
            program, target, got, want
        )


async def on_devices(
    program: bytes, steps: Sequence[Sequence[Array]], devices: Sequence[Any]
) -> list[list[Array]]:
    return [await outputs(program, steps, device) for device in devices]
