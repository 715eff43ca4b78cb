"""Fusion of convolutions: calls that become one, calls that must not, and the results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.graphs.conv_graphs import BLOCKS, PAD, PLAIN, Block, conv_block, prelu
from support.graphs.fusion_graphs import ADD, RESIDUALS, Net, Residual, residual_conv
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

BLOCK = "webpte.conv_block"


def names(writer: GraphWriter) -> list[str]:
    return [call.name for call in fuse(build_graph(writer)).calls]


def kernels(writer: GraphWriter, target: Target = Target()) -> list[str]:  # noqa: B008, frozen
    planner, _ = make_planner(fuse(build_graph(writer)), target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_all_of_it_becomes_one_call_that_means_the_same(case: Block) -> None:
    writer, inputs = conv_block(case)
    assert names(writer) == [BLOCK]
    found = kernels(writer)
    assert all(kernel.startswith("conv") or kernel == "gemm_small" for kernel in found)
    assert len(found) == 1 + ("conv_split_k_sum" in found)
    (want,) = wait(run_once(writer, *inputs))
    (got,) = wait(run_once(writer, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_software_adapter_has_one_kernel_for_sums_alone() -> None:
    software = Target(software=True)
    assert kernels(conv_block(BLOCKS[2])[0], software) == ["conv_simple"]
    parts = ["conv_simple", "unary", "binary", "where"]
    assert kernels(conv_block(BLOCKS[1])[0], software) == parts


def test_a_border_that_is_no_padding_stays() -> None:
    """Pads stay that are nonzero, over channels, negative, or before a transposed convolution."""
    case = Block((4, 6), (7, 6), 3, "", border=(1, 1, 2, 0))
    assert names(conv_block(case)[0]) == [BLOCK]
    for other in (replace(case, value=1.0), replace(case, border=(1, 1, -1, 0))):
        assert names(conv_block(other)[0]) == [PAD, PLAIN]
    net = Net()
    g, x = net.g, net.g.tensor((1, 3, 5, 5))
    wide = g.op(PAD, x, g.int_list([0, 0, 0, 0, 0, 1]), g.double(0.0), g.tensor((1, 4, 5, 5)))
    net.finish((x,), convolution(net, wide, 5))
    assert names(g) == [PAD, PLAIN]
    net = Net()
    g, x = net.g, net.g.tensor((1, 4, 5, 5))
    wide = g.op(PAD, x, g.int_list([1, 1, 1, 1]), g.double(0.0), g.tensor((1, 4, 7, 7)))
    net.finish((x,), convolution(net, wide, 7, transposed=True))
    assert names(g) == [PAD, PLAIN]


def convolution(net: Net, x: int, side: int, transposed: bool = False) -> int:
    g, ones, zeros = net.g, net.g.int_list([1, 1]), net.g.int_list([0, 0])
    given = (x, net.constant(net.floats(4, 4, 1, 1)), g.null(), ones, zeros, ones)
    rest = (g.bool_(transposed), zeros, g.int(1))
    return g.op(PLAIN, *given, *rest, g.tensor((1, 4, side, side)))


def test_a_border_that_others_read_stays() -> None:
    net = Net()
    g, x = net.g, net.g.tensor((1, 4, 5, 5))
    wide = g.op(PAD, x, g.int_list([1, 1, 1, 1]), g.double(0.0), g.tensor((1, 4, 7, 7)))
    net.finish((x,), convolution(net, wide, 7), wide)
    assert names(g) == [PAD, PLAIN]


def test_a_slope_must_be_one() -> None:
    """It stays if it compares with another number than 0, or if the sums have other readers."""
    net = Net()
    x = net.g.tensor((1, 4, 5, 5))
    net.finish((x,), prelu(net, convolution(net, x, 5), threshold=0.5))
    assert BLOCK not in names(net.g)
    net = Net()
    x = net.g.tensor((1, 4, 5, 5))
    sums = convolution(net, x, 5)
    net.finish((x,), prelu(net, sums), sums)
    assert BLOCK not in names(net.g)


def test_a_slope_for_each_pixel_runs_part_by_part() -> None:
    net = Net()
    g, x = net.g, net.g.tensor((1, 4, 5, 5))
    sums = convolution(net, x, 5)
    dims, slope = (1, 4, 5, 5), net.constant(net.floats(1, 4, 5, 5))
    positive = g.op("aten.gt.Scalar", sums, g.double(0.0), g.tensor(dims, "bool"))
    bent = g.op("aten.mul.Tensor", slope, sums, g.tensor(dims))
    inputs = net.finish((x,), g.op("aten.where.self", positive, sums, bent, g.tensor(dims)))
    assert kernels(g)[1:] == ["unary", "binary", "where"]
    (want,) = wait(run_once(g, *inputs))
    (got,) = wait(run_once(g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_channels_of_zeros_of_several_images_run_part_by_part() -> None:
    """The offset of the second image depends on the number of channels."""
    net = Net()
    g, x = net.g, net.g.tensor((2, 4, 5, 5))
    ones, zeros = g.int_list([1, 1]), g.int_list([0, 0])
    given = (x, net.constant(net.floats(4, 4, 1, 1)), g.null(), ones, zeros, ones)
    sums = g.op(PLAIN, *given, g.bool_(False), zeros, g.int(1), g.tensor((2, 4, 5, 5)))
    y = g.tensor((2, 3, 5, 5))
    args = (g.int_list([0, 0, 0, 0, 0, 1]), g.double(0.0), g.tensor((2, 4, 5, 5)))
    inputs = net.finish((x, y), net.add(sums, g.op(PAD, y, *args)))
    assert "pad" in kernels(g)
    (want,) = wait(run_once(g, *inputs))
    (got,) = wait(run_once(g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", RESIDUALS, ids=str)
def test_a_convolution_takes_its_residual_along(case: Residual) -> None:
    writer, inputs = residual_conv(case)
    assert names(writer) == [BLOCK]
    found = kernels(writer)
    assert all(kernel.startswith("conv") or kernel == "gemm_small" for kernel in found)
    assert len(found) < 3
    assert kernels(writer, Target(software=True)) == ["conv_simple"]
    (want,) = wait(run_once(writer, *inputs))
    (got,) = wait(run_once(writer, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def pointwise(net: Net, x: int) -> int:
    g, ones, zeros = net.g, net.g.int_list([1, 1]), net.g.int_list([0, 0])
    given = (x, net.constant(net.floats(4, 4, 1, 1)), g.null(), ones, zeros, ones)
    return g.op(PLAIN, *given, g.bool_(False), zeros, g.int(1), net.like(x))


def test_a_convolution_that_is_clamped_first_stays() -> None:
    """relu(conv) + y is not relu(conv + y)."""
    net = Net()
    x, y = net.g.tensor((1, 4, 5, 5)), net.g.tensor((1, 4, 5, 5))
    relu = net.g.op("aten.relu.default", pointwise(net, x), net.like(x))
    net.finish((x, y), net.add(y, relu))
    assert names(net.g) == [BLOCK, ADD]


def test_a_sum_that_others_read_is_not_bounded() -> None:
    net = Net()
    x, y = net.g.tensor((1, 4, 5, 5)), net.g.tensor((1, 4, 5, 5))
    total = net.add(y, pointwise(net, x))
    net.finish((x, y), net.g.op("aten.relu.default", total, net.like(x)), total)
    assert names(net.g) == [BLOCK, "aten.relu.default"]
