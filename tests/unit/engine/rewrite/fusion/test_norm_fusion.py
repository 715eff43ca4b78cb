"""Fusion of normalizations with the calls before or after them."""

from __future__ import annotations

import numpy as np
import pytest

from support.decoders.epilogue_graphs import normed_sum
from support.graphs.conv_graphs import BATCH_NORM, activation_norm
from support.graphs.fusion_graphs import Net
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.rewrite.fusion import fuse

NORM = "webpte.activation_batch_norm"


@pytest.mark.parametrize(("dims", "activation"), [((2, 3, 5, 7), "relu"), ((1, 6, 8), "clamp")])
def test_an_activation_before_it_is_part_of_it(dims: tuple[int, ...], activation: str) -> None:
    net, _, inputs = activation_norm(dims, activation)
    graph = fuse(build_graph(net.g))
    assert [call.name for call in graph.calls] == [NORM]
    planner, _ = make_planner(graph)
    planner.lower_all()
    assert [dispatch.kernel for dispatch in planner.dispatches()] == ["norm_batch"]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_others_read_stays() -> None:
    net, between, _ = activation_norm((2, 3, 5, 7))
    net.g.outputs(between)
    assert [call.name for call in fuse(build_graph(net.g)).calls] == [
        "aten.relu.default",
        BATCH_NORM,
    ]


@pytest.mark.parametrize("dims", [(1, 1, 64), (2, 3, 7), (1, 1), (19, 96)])
def test_a_sum_after_a_norm_is_part_of_it(dims: tuple[int, ...]) -> None:
    graph, inputs = normed_sum(dims)
    fused = fuse(build_graph(graph))
    assert [call.name for call in fused.calls] == ["webpte.norm_add"]
    planner, _ = make_planner(fused)
    planner.lower_all()
    assert [dispatch.kernel for dispatch in planner.dispatches()] == ["norm_add"]
    (want,) = wait(run_once(graph, *inputs))
    (got,) = wait(run_once(graph, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_sum_that_broadcasts_runs_by_itself() -> None:
    net = Net()
    x, y = net.g.tensor((3, 8)), net.g.tensor((8,))
    inputs = net.finish((x, y), net.add(net.norm(x), y))
    planner, _ = make_planner(fuse(build_graph(net.g)))
    planner.lower_all()
    assert [dispatch.kernel for dispatch in planner.dispatches()] == ["norm", "binary"]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
