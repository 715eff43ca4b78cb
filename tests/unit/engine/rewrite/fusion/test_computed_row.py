"""Fusion of norms and sums into the GEMVs that read them: they take no dispatch."""

from __future__ import annotations

import numpy as np
import pytest

from support.decoders.head_graphs import ChangedHeads, attention_of
from support.decoders.row_graphs import ALONE, ROWS, RowCase, computed_row
from support.graphs.fusion_graphs import Heads, Net, Sizes
from support.graphs.graphs import build_graph, load, make_planner, wait
from webpte import Options
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

TEN = Target(storage_buffers=10)
KERNELS = {"gemv_q4_gated_row", "gemv_q4_qkv_row"}
GATED = next(case for case in ROWS if case.change is None)
HEADS = next(case for case in ROWS if case.change is not None)


def kernels(case: RowCase, target: Target = TEN) -> list[str]:
    planner, _ = make_planner(fuse(build_graph(computed_row(case)[0])), target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("case", ROWS + ALONE, ids=str)
def test_results_stay_what_they_were(case: RowCase) -> None:
    """The row is right, too, for what reads it later."""
    graph, steps = computed_row(case)

    async def run(device: object) -> list[np.ndarray]:
        async with await load(graph, device=device, options=Options()) as program:
            return [output for step in steps for output in await program.forward(*step)]

    for got, want in zip(wait(run(SimulatedDevice())), wait(run("numpy")), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_rows_take_no_dispatch_of_their_own(case: RowCase) -> None:
    first, *rest = kernels(case)
    assert first == ("gemv_q4_gated_row" if case.change is None else "gemv_q4_qkv_row")
    assert len(rest) == (1 if case.change is None else 3)  # attention, its reduce; the other reader


@pytest.mark.parametrize("case", ALONE, ids=str)
def test_others_compute_their_row_first(case: RowCase) -> None:
    assert KERNELS.isdisjoint(kernels(case))


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (GATED, Target(storage_buffers=9)),
        (HEADS, Target(storage_buffers=9)),
        (GATED, Target(software=True)),
        (HEADS, Target(storage_buffers=10, software=True)),
    ],
)
def test_devices_without_the_bindings_compute_it_first(case: RowCase, target: Target) -> None:
    assert KERNELS.isdisjoint(kernels(case, target))


def test_a_gain_over_64_kilobytes_is_no_uniform() -> None:
    assert KERNELS.isdisjoint(kernels(RowCase("sum", Sizes(1, 16416, 8))))
    assert kernels(RowCase("sum", Sizes(1, 16384, 8)))[0] in KERNELS


def test_a_norm_that_others_read_stays_a_call() -> None:
    net = Net()
    x, r = net.g.tensor((1, 1, 64)), net.g.tensor((1, 1, 64))
    normed = net.norm(x)
    net.finish((x, r), net.swiglu(net.add(r, normed), 36), normed)
    names = [call.name for call in fuse(build_graph(net.g)).calls]
    assert names[:2] == ["et_vk.rms_norm.default", "aten.add.Tensor"]


def test_a_row_that_what_follows_needs_first_stays_a_call() -> None:
    """The heads get the results of branches, as of a LoRA, which read the same row."""
    net = Net()
    x = net.g.tensor((1, 1, 64))
    row = net.norm(x)
    heads = ChangedHeads(Heads(1, 4, 2, 16, half=True, turned=16), "branch")
    out, inputs = attention_of(net, heads, row)
    net.g.inputs(x, *inputs)
    net.g.outputs(out, net.add(row, row))
    graph = fuse(build_graph(net.g))
    assert graph.calls[0].name == "et_vk.rms_norm.default"
    assert any(call.name == "webpte.head_attention" for call in graph.calls)


def test_a_computed_gain_is_no_uniform() -> None:
    net = Net()
    g = net.g
    x, r, gain = g.tensor((1, 1, 64)), g.tensor((1, 1, 64)), g.tensor((64,))
    normed = g.op("et_vk.rms_norm.default", x, gain, g.double(1e-5), net.like(x))
    row = net.add(r, normed)
    net.finish((x, r, gain), net.swiglu(row, 36), row)
    planner, _ = make_planner(fuse(build_graph(g)), TEN)
    planner.lower_all()
    assert KERNELS.isdisjoint(dispatch.kernel for dispatch in planner.dispatches())
