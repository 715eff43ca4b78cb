"""`Program.values`: inputs and outputs of calls, without computing them twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import load, wait
from support.harness.inspecting import APART, broken
from support.page.chats import Q4
from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.plan.reference import run_reference
from webpte.inspection.report import RunValues

SIGMOID, NEG = "aten.sigmoid.default", "aten.neg.default"
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 1


def program_of_two() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((2, 3))
    g.inputs(x)
    a = g.op(SIGMOID, x, g.tensor((2, 3)))
    view = g.op("aten.view_copy.default", a, g.int_list([3, 2]), g.tensor((3, 2)))
    g.outputs(g.op(NEG, view, g.tensor((3, 2))))
    return g


def values_of(device: Any, nodes: list[int]) -> RunValues:
    async def run() -> RunValues:
        async with await load(program_of_two(), device=device, **APART) as program:
            return await program.values("forward", X, nodes=nodes)

    return wait(run())


@pytest.mark.parametrize("device", ["numpy", None])
def test_values_are_those_of_the_run(device: Any) -> None:
    values = values_of(device or SimulatedDevice(), [0, 1, 2])
    assert list(values.calls) == [0, 1, 2]
    sigmoid, _, neg = values.calls.values()
    np.testing.assert_array_equal(sigmoid.inputs[0].array, X)
    wanted = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(sigmoid.outputs[0].array, wanted, atol=1e-6)
    np.testing.assert_allclose(neg.outputs[0].array, -wanted.reshape(3, 2), atol=1e-6)
    assert sigmoid.outputs[0].facts.high == pytest.approx(wanted.max())
    assert "sigmoid" not in str(values)
    assert len(values.table().rows) == 6


def test_they_are_the_devices_own_and_numpy_only_fills_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []

    def watched(op: Any, call: Any, *rest: Any) -> None:
        computed.append(call.name)
        run_reference(op, call, *rest)

    monkeypatch.setattr("webpte.inspection.checker.run_reference", watched)
    with broken(SIGMOID, by=0.25):
        values = values_of(SimulatedDevice(), [0, 2])
    assert computed == ["aten.view_copy.default"]  # an alias, which runs no kernel
    last = values.calls[2].outputs[0].array.reshape(-1)[-1]
    assert last == pytest.approx(-(1 / (1 + np.exp(-X[1, 2])) + 0.25))


def test_caches_stay_and_wrong_nodes_are_told() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await webpte.load(Q4, device=device) as program:
            tokens, start = np.array([[5, 9, 33, 7]]), np.array([0])
            await program.forward(tokens, start)
            graph = program.graph("forward")
            told: list[tuple[str, int, int]] = []
            step = np.array([[3]]), np.array([4])
            compared = await program.compare("forward", *step, keep=[1, len(graph.nodes) - 1])
            values = await program.values(
                "forward", *step, nodes=compared.kept, progress=lambda *at: told.append(at)
            )
            for node, kept in compared.kept.items():
                pairs = zip(kept.outputs, values.calls[node].outputs, strict=True)
                for one, two in pairs:
                    assert one.key == two.key
                    np.testing.assert_array_equal(one.array, two.array)
            assert told[-1] == ("values", len(told), len(graph.nodes))
            with pytest.raises(errors.InputError, match="nodes=9999: no call inside"):
                await program.values("forward", *step, nodes=[9999])

    wait(run())
