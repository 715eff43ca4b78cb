"""Which convolutions may run on conv_winograd, and that none does unless it was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.conv.conv_cases import CONV_CASES, conv
from support.cases.row_cases import RowCase, normal
from support.devices.winograd import (
    BLOCKS,
    LABELS,
    OFFERED,
    SMALL,
    by_patches,
    choosing,
    error_bound,
)
from support.graphs.conv_graphs import Block, conv_block
from support.graphs.graphs import build_graph, make_planner, read_graph, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.gpu.simulated.device import SimulatedDevice
from webpte.graph.graph import Graph
from webpte.ops.conv import conv as conv_module
from webpte.ops.conv.conv_winograd import CUTS, Winograd
from webpte.ops.core.records import Dispatch
from webpte.ops.core.target import GPU, Target, Tunable
from webpte.rewrite.fusion import fuse


def lowered(graph: Graph, target: Target) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(graph, target)
    planner.lower_all()
    return planner.dispatches()


def labels(graph: Graph, target: Target = GPU) -> set[str]:
    """What a convolution may be cut into."""
    asked: list[Tunable] = []
    lowered(graph, replace(target, asked=asked))
    return {label for question in asked for label in question.labels}


def graph_of(case: RowCase) -> Graph:
    return read_graph(case.program())


@pytest.mark.parametrize("case", OFFERED, ids=str)
def test_a_large_convolution_of_nine_taps_may(case: RowCase) -> None:
    assert set(LABELS) <= labels(graph_of(case))
    assert labels(graph_of(case), Target(software=True)) == set()


FEWER: dict[str, dict[str, Any]] = {
    "input channels": {"x": (1, 15, 8, 8), "weight": (16, 15, 3, 3)},
    "channels": {"weight": (15, 16, 3, 3)},
    "pixels": {"x": (1, 16, 7, 9)},
    "lines": {"x": (1, 16, 3, 66), "padding": [0]},
    "taps": {"weight": (16, 16, 3, 1), "padding": [1, 0]},
    "outputs": {"x": (1, 16, 16, 16), "stride": [2]},
    "neighbours": {"dilation": [2], "padding": [2]},
    "channels of a group": {"x": (1, 32, 8, 8), "weight": (32, 16, 3, 3), "groups": 2},
    "outputs of the others": {"transposed": True},
    "dims": {"x": (1, 16, 80), "weight": (16, 16, 3)},
}


@pytest.mark.parametrize("change", FEWER.values(), ids=FEWER.keys())
def test_others_may_not(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"x": (1, 16, 8, 8), "weight": (16, 16, 3, 3), "padding": [1]}
    assert set(LABELS) <= labels(graph_of(conv(**good)))
    found = labels(graph_of(conv(**{**good, **change})))
    assert found
    assert not found & set(LABELS)


def test_none_does_unless_it_was_chosen() -> None:
    for case in (*OFFERED, *SMALL, *CONV_CASES):
        graph = graph_of(case)
        for target in (GPU, replace(GPU, asked=[]), replace(GPU, choices=(("conv m1", "x"),))):
            kernels = [dispatch.kernel for dispatch in lowered(graph, target)]
            assert "conv_winograd" not in kernels, str(case)


@pytest.mark.parametrize(("tile", "workgroups"), [(32, 4), (16, 9)])
def test_one_that_was_chosen_is_one_dispatch(tile: int, workgroups: int) -> None:
    """37 channels and 40 patches of two images."""
    graph = graph_of(OFFERED[1])
    (dispatch,) = lowered(graph, choosing(graph, f"winograd {tile}x{tile}"))
    assert dispatch.kernel == "conv_winograd"
    assert dict(dispatch.types)["TILE"] == str(tile)
    assert np.prod(dispatch.grid) == workgroups


@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_what_is_around_it_stays_in_one_dispatch(case: Block) -> None:
    graph = fuse(build_graph(conv_block(case)[0]))
    (dispatch,) = lowered(graph, choosing(graph, LABELS[0]))
    assert dispatch.kernel == "conv_winograd"


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_half_floats_are_seen_as_such(cut: Winograd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphWriter, "halves", True)
    monkeypatch.setattr(conv_module, "choose_cut", lambda *_: cut)
    device = SimulatedDevice(features=("shader-f16",))
    writer, inputs = conv_block(BLOCKS[1])
    wait(run_once(writer, *inputs, device=device, fuse=True))
    (code,) = {spec.code for spec in device.pipelines if spec.label.startswith("conv_winograd")}
    assert "alias Stored = f16;" in code


def test_the_formula_is_a_convolution() -> None:
    x, weight = normal((2, 5, 6, 9), 1), normal((3, 5, 3, 3), 2)
    case = conv((2, 5, 6, 9), (3, 5, 3, 3), padding=[1], bias=False)
    (want,) = replace(case, args=(x, weight, *case.args[2:])).expected((x, weight))
    got = by_patches(x, weight, padding=1)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-13)
    largest = 64 * 5 * float(np.abs(x).max()) * float(np.abs(weight).max())
    assert (error_bound(x, weight, padding=1) <= (5 + 14) * 2.0**-24 * largest).all()
