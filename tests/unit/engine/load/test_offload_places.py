"""Some calls of kernels go to the GPU, and others stay on the host."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones, runs
from support.graphs.graphs import wait
from support.graphs.offloading import expect, mean_between, offloaded, places
from support.graphs.stitching import logcumsumexp
from support.harness.samples import numbers, relu
from support.write.pte_writer import MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

# What stays on the host


def unbounded(m: MethodWriter) -> None:
    made = m.tensor((4,), dynamic=2)  # type: ignore[arg-type]
    m.kernel("aten::exp.out", relu(m, m.input(0), (4,)), made, made)
    m.outputs(relu(m, made, (4,)))


def wide(m: MethodWriter) -> None:
    made = m.tensor((4,), "float64")
    m.kernel("aten::exp.out", relu(m, m.input(0), (4,), "float64"), made, made)
    m.outputs(relu(m, made, (4,), "float64"))


def promoted(m: MethodWriter) -> None:
    half, made = m.tensor((4,), "float16", data=np.ones(4, np.float16)), m.tensor((4,))
    m.kernel("aten::mul.out", relu(m, m.input(0), (4,)), half, made, made)
    m.outputs(relu(m, made, (4,)))


def from_the_host(m: MethodWriter) -> None:
    """It takes more than it gives, and another call keeps the method from being one graph."""
    made = m.tensor(())
    m.kernel("aten::sum.out", m.input(0), None, made, made)
    m.outputs(relu(m, made, ()), logcumsumexp(m, m.input(0)))


def also_returned(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    m.kernel("aten::exp.out", given, made, made)
    m.outputs(given, relu(m, made, (4,)))


def also_read_by_the_host(m: MethodWriter) -> None:
    made, given, sums = m.tensor((4,)), relu(m, m.input(0), (4,)), m.tensor((4,))
    m.kernel("aten::logcumsumexp.out", given, 0, sums, sums)
    m.kernel("aten::exp.out", given, made, made)
    m.outputs(sums, relu(m, made, (4,)))


def for_the_host(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    sums = m.tensor((4,))
    m.kernel("aten::exp.out", given, made, made)
    m.kernel("aten::logcumsumexp.out", made, 0, sums, sums)
    m.outputs(sums)


def a_number_that_changes(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    factor = m.value(0.5)
    m.kernel("aten::_local_scalar_dense", m.tensor((), data=ones()), factor)
    m.kernel("aten::mul.Scalar_out", given, factor, made, made)
    m.outputs(relu(m, made, (4,)))


HOSTED = {
    unbounded: "one of any size",
    wide: "tensors of float64; .* float16, float32",
    promoted: "tensors of float16 and float32",
    from_the_host: "come from the host",
    for_the_host: "go there",
    a_number_that_changes: "only integers may",
}


@pytest.mark.parametrize("build", HOSTED, ids=lambda build: build.__name__)
def test_the_rest_stays_on_the_host_and_the_graph_says_why(build: Any) -> None:
    async def run() -> None:
        m = MethodWriter()
        m.inputs(m.tensor((4,), "float64" if build is wide else "float32"))
        build(m)
        contents, _ = await offloaded(m)
        assert not contents.offloaded
        assert re.search(HOSTED[build], " ".join(contents.hosted.values()))

    wait(run())


def test_what_the_gpu_has_no_kernel_for_stays_on_the_host() -> None:
    """More dims than its params have room for."""
    dims, other = (2, 1) * 6 + (2,), (1, 2) * 6 + (1,)

    async def run() -> None:
        m = MethodWriter()
        x, made = m.tensor(dims), m.tensor((2,) * 13)
        m.inputs(x)
        given = relu(m, x, dims)
        m.kernel("aten::mul.out", given, m.tensor(other, data=ones(*other)), made, made)
        m.outputs(relu(m, made, (2,) * 13))
        contents, _ = await offloaded(m)
        assert not contents.offloaded

    wait(run())


def test_what_does_not_fit_a_buffer_stays_on_the_host() -> None:
    async def run() -> None:
        for limit, count in ((320, 1), (319, 0)):
            limits = {"maxBufferSize": 1000, "maxStorageBufferBindingSize": limit}
            contents, _ = await offloaded(mean_between(), limits=limits)
            assert len(contents.offloaded) == count

    wait(run())


@pytest.mark.parametrize(("features", "limit"), [((), 320), (("shader-f16",), 160)])
def test_half_floats_fit_as_the_device_stores_them(features: tuple[str, ...], limit: int) -> None:
    """80 of them: in 4 bytes each, or in 2 where shaders have them."""

    async def run() -> None:
        for room, count in ((limit, 1), (limit - 1, 0)):
            contents, _ = await offloaded(
                mean_between(dtype="float16"), features=features, limits={"maxBufferSize": room}
            )
            assert len(contents.offloaded) == count

    wait(run())


def test_a_call_with_too_few_arguments_is_an_error_where_it_always_was() -> None:
    m = MethodWriter()
    x, made = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    m.kernel("aten::mul.Scalar_out", relu(m, x, (4,)))
    m.outputs(made)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        with pytest.raises(errors.ExecutionError, match=r"'forward', aten::mul\.Scalar_out"):
            await program.forward(ones(4))

    wait(run())


def test_a_product_goes_to_the_gpu_from_anywhere() -> None:
    async def run() -> None:
        m = MethodWriter()
        x, made = m.tensor((2, 3)), m.tensor((2, 4))
        m.inputs(x)
        m.kernel("aten::mm.out", x, m.tensor((3, 4), data=numbers(3, 4)), made, made)
        m.outputs(made)
        await expect(m, [numbers(2, 3)])
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        await asyncio.gather(*(program.forward(ones(2, 3)) for _ in range(3)))
        assert places(program) == {"aten::mm.out": "gpu"}
        assert [len(r["payload"]) for r in runs(device)] == [32] * 3, "in whole quads"

    wait(run())


@pytest.mark.parametrize("build", [also_returned, also_read_by_the_host], ids=lambda f: f.__name__)
def test_what_joins_two_delegates_is_offloaded_whoever_else_reads_it(build: Any) -> None:
    async def run() -> None:
        m = MethodWriter()
        m.inputs(m.tensor((4,)))
        build(m)
        contents, _ = await offloaded(m)
        assert list(contents.offloaded.values()) == ["aten::exp.out"]
        await expect(m, [numbers(4)])
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        await program.forward(ones(4))
        assert program.stats.submissions == 1

    wait(run())
