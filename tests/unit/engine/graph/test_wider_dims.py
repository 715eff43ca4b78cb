"""Dims that are larger than exported, in a tensor with no more elements than exported."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.devices.recorded import DEVICES, device_of
from support.graphs.graphs import load, wait
from support.write.pte_writer import GraphWriter
from webpte.errors import WebpteError

Dims = tuple[int, ...]


def weight(g: GraphWriter, *dims: int) -> int:
    data = np.linspace(0.5, 1, int(np.prod(dims)), dtype=np.float32)
    return g.prepack(g.tensor(dims, constant=data))


def linear(g: GraphWriter, x: int) -> int:
    return g.op("aten.linear.default", x, weight(g, 5, 6), g.null(), g.tensor((4, 5)))


def layer_norm(g: GraphWriter, x: int) -> int:
    outs = g.tensor((4, 6)), g.tensor((4, 1)), g.tensor((4, 1))
    ends = (weight(g, 6), weight(g, 6), g.double(1e-5))
    g.op("aten.native_layer_norm.default", x, g.int_list([6]), *ends, g.value_list(outs))
    return outs[0]


def batch_norm(g: GraphWriter, x: int) -> int:
    outs = g.tensor((4, 6)), g.tensor((0,)), g.tensor((0,))
    four = [weight(g, 6) for _ in range(4)]
    ends = (g.double(0.1), g.double(1e-5), g.value_list(outs))
    g.op("aten._native_batch_norm_legit_no_training.default", x, *four, *ends)
    return outs[0]


def multiply(g: GraphWriter, x: int) -> int:
    return g.op("aten.mul.Tensor", x, weight(g, 1, 6), g.tensor((4, 6)))


def convolution(g: GraphWriter, x: int) -> int:
    sizes = (g.int_list([1]), g.int_list([0]), g.int_list([1]), g.bool_(False), g.int_list([0]))
    rest = (weight(g, 3, 4, 1), g.null(), *sizes, g.int(1))
    x3 = g.op("aten.unsqueeze_copy.default", x, g.int(0), g.tensor((1, 4, 6)))
    return g.op("aten.convolution.default", x3, *rest, g.tensor((1, 3, 6)))


def squeeze(g: GraphWriter, x: int) -> int:
    """The dim of [1, 24] that is dropped for good must be 1."""
    return g.op("aten.squeeze_copy.dims", x, g.int_list([0]), g.tensor((24,)))


def program(build: Callable[[GraphWriter, int], int], dims: Dims) -> GraphWriter:
    g = GraphWriter()
    x = g.tensor(dims)
    return dynamic(g, x, build(g, x))


def dynamic(g: GraphWriter, x: int, out: int) -> GraphWriter:
    g.inputs(x)
    g.outputs(out)
    for value in (x, out):
        g.host(value, dynamic=True)
    return g


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("build", "dims", "given"),
    [
        (linear, (4, 6), (3, 8)),
        (linear, (4, 6), (2, 12)),
        (layer_norm, (4, 6), (3, 8)),
        (batch_norm, (4, 6), (3, 8)),
        (multiply, (4, 6), (3, 8)),
        (convolution, (4, 6), (6, 4)),
        (squeeze, (1, 24), (2, 12)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_dim_that_the_file_fixes_stays(
    build: Callable[[GraphWriter, int], int], dims: Dims, given: Dims, device: str
) -> None:
    async def run() -> None:
        async with await load(program(build, dims), device=device_of(device)) as loaded:
            await loaded.forward(np.ones(dims, np.float32))
            with pytest.raises(WebpteError, match=str(given[-1])):
                await loaded.forward(np.ones(given, np.float32))
            await loaded.forward(np.ones(dims, np.float32))

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_a_result_that_outgrows_its_memory_raises(device: str) -> None:
    """24 numbers in 24 rows of 1 rather than in 4 of 6: their sums do not fit into 4."""
    g = GraphWriter()
    x = g.tensor((4, 6))
    sums = g.op("aten.sum.dim_IntList", x, g.int_list([1]), g.bool_(True), g.tensor((4, 1)))
    dynamic(g, x, g.op("aten.relu.default", sums, g.tensor((4, 1))))

    async def run() -> None:
        async with await load(g, device=device_of(device)) as loaded:
            (y,) = await loaded.forward(np.ones((3, 8), np.float32))
            assert y.shape == (3, 1)
            message = r"\[24, 1\] does not fit into its maximum \[4, 1\]: 24 elements, .* for 4"
            with pytest.raises(WebpteError, match=message):
                await loaded.forward(np.ones((24, 1), np.float32))

    wait(run())
