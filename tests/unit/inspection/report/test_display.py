"""Displays in notebooks: programs and tensors as tables."""

from __future__ import annotations

import pytest

from support.devices.recorded import ADD, RELU, ones
from support.graphs.graphs import load, wait
from support.harness.inspecting import APART
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice


def add_and_relu() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((3,))
    added = g.op(ADD, x, x, g.int(1), g.tensor((3,)))
    g.inputs(x)
    g.outputs(g.op(RELU, added, g.tensor((3,))))
    return g


@pytest.fixture(scope="module")
def displayed() -> tuple[str, str, str]:
    """The HTML of a program, of a tensor, and of the tensor once it is destroyed."""

    async def run() -> tuple[str, str, str]:
        device = SimulatedDevice(features=("timestamp-query",))
        async with await load(add_and_relu(), device=device, **APART) as program:
            (kept,) = await program.forward(ones(3), output="gpu")
            whole = kept._repr_html_()
            kept.destroy()
            return program._repr_html_(), whole, kept._repr_html_()

    return wait(run())


def test_a_program_is_a_table_of_its_methods(displayed: tuple[str, str, str]) -> None:
    html = displayed[0]
    assert "<td>forward</td><td>input0: float32 [3]</td>" in html


def test_a_tensor_says_where_it_is(displayed: tuple[str, str, str]) -> None:
    _, whole, destroyed = displayed
    assert "<td>float32</td><td>3</td><td>12</td><td>recording</td>" in whole
    assert "<td>destroyed</td>" in destroyed
