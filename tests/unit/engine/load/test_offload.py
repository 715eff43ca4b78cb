"""Calls of kernels that run on the GPU because the calls around them do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones, runs
from support.graphs.graphs import wait
from support.graphs.offloading import between, compute, expect, mean_between, offloaded, places
from support.harness.samples import convolution, numbers, relu
from support.write.pte_writer import GraphWriter, MethodWriter, write_ptd, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

# What stays on the GPU


def test_what_is_between_two_delegates_stays_on_the_gpu() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(write_pte(mean_between()), device=device)
        assert places(program) == {"aten::mean.out": "gpu"}
        for _ in range(2):
            start = len(runs(device))
            await program.forward(ones(4, 5, 2, 2))
            (whole,) = runs(device)[start:]
            assert whole["read"]
            assert len(whole["payload"]) == 4 * 5 * 2 * 2 * 4
            assert not whole["copies"]
            assert "read" not in [name for name, _ in device.log]
        assert program.stats.executions == 2
        assert program.stats.dispatches == 3
        assert [row.host_ms for row in program.report] == [0, 0]

    wait(run())


def test_the_numpy_device_offloads_nothing() -> None:
    async def run() -> None:
        async with await webpte.load(write_pte(mean_between()), device="numpy") as program:
            await program.forward(ones(4, 5, 2, 2))
            assert places(program) == {"aten::mean.out": "host"}
            assert program.stats.executions == 2

    wait(run())


def test_it_is_freed_rebuilt_and_strict_like_a_delegate() -> None:
    async def run() -> None:
        first, second = SimulatedDevice(), SimulatedDevice()
        program = await webpte.load(write_pte(mean_between()), device=first, strict=True)
        assert program.stats.buffers == len(first.buffers)
        await program.recover(second)
        assert not first.buffers
        assert not first.plans
        assert places(program) == {"aten::mean.out": "gpu"}
        await program.forward(ones(4, 5, 2, 2))
        program.close()
        assert not second.buffers
        assert not second.plans

    wait(run())


def test_an_output_can_stay_there_too() -> None:
    async def run() -> None:
        m = MethodWriter()
        x, out = m.tensor((4, 3)), m.tensor((4,))
        m.inputs(x)
        m.kernel("aten::sum.IntList_out", relu(m, x, (4, 3)), [1], False, None, out, out)
        m.outputs(out)
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        (tensor,) = await program.forward(ones(4, 3), output="gpu")
        assert isinstance(tensor, webpte.GpuTensor)
        assert [r["read"] for r in runs(device)] == [False]
        await program.forward(ones(4, 3))
        assert [r["read"] for r in runs(device)][1:] == [True]

    wait(run())


def test_memory_that_the_exporter_uses_again_makes_nothing_come_back() -> None:
    """The first delegate's output and the method's output are at one place, one after the other."""

    async def run() -> None:
        m = MethodWriter()
        x, made = m.tensor((4, 3)), m.tensor((4, 3))
        m.inputs(x)
        place = m.planned_bytes
        given = relu(m, x, (4, 3))
        m.kernel("aten::exp.out", given, made, made)
        m.planned_bytes = place
        m.outputs(relu(m, made, (4, 3)))
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        await program.forward(ones(4, 3))
        assert [r["read"] for r in runs(device)] == [True]

    wait(run())


def test_a_view_that_nothing_writes_is_read_from_the_gpu() -> None:
    async def run() -> None:
        m = MethodWriter()
        x, made = m.tensor((4, 3)), m.tensor((2, 6))
        m.inputs(x)
        place = m.planned_bytes
        relu(m, x, (4, 3))
        m.planned_bytes = place
        view = m.tensor((2, 6))
        m.kernel("aten::exp.out", view, made, made)
        m.outputs(relu(m, made, (2, 6)))
        await expect(m, [numbers(4, 3)])
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        await program.forward(ones(4, 3))
        assert [r["read"] for r in runs(device)] == [True]

    wait(run())


# Constants and state


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_constants_move_once_in_their_logical_order(order: tuple[int, ...]) -> None:
    async def run() -> None:
        weight = numbers(3, 2, 3, 3)
        m = convolution(data=np.ascontiguousarray(weight.transpose(order)), dim_order=order)
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert weight.tobytes() in device.contents.values()
        loaded = len(device.log)
        for count in (4, 2, 4):
            start = len(runs(device))
            await program.forward(ones(count, 2, 5, 5))
            assert [len(r["payload"]) for r in runs(device)[start:]] == [count * 200]
        assert "transfer" not in [name for name, _ in device.log[loaded:]]
        assert program.stats.prepack_transfers == 2
        await expect(m, [numbers(4, 2, 5, 5)], [numbers(1, 2, 5, 5)], [numbers(3, 2, 5, 5)])

    wait(run())


def test_a_constant_that_is_changed_for_a_product_stays_on_the_gpu() -> None:
    """A linear layer is exported like this: x @ weight.T"""

    async def run() -> None:
        m = MethodWriter()
        x, turned, made = m.tensor((2, 3)), m.tensor((3, 4)), m.tensor((2, 4))
        m.inputs(x)
        m.kernel("aten::t_copy.out", m.tensor((4, 3), data=numbers(4, 3)), turned, turned)
        m.kernel("aten::mm.out", x, turned, made, made)
        m.outputs(made)
        await expect(m, [numbers(2, 3)])
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        for _ in range(2):
            start = len(runs(device))
            await program.forward(ones(2, 3))
            assert [len(r["payload"]) for r in runs(device)[start:]] == [32]

    wait(run())


def test_methods_share_constants_that_they_have_in_common() -> None:
    async def run() -> None:
        weight = numbers(3, 2, 3, 3)
        methods = {"prefill": convolution(external="w"), "decode": convolution(external="w")}
        data, device = write_ptd({"w": weight}), SimulatedDevice()
        program = await webpte.load(write_pte(methods=methods), data=[data], device=device)
        assert list(device.contents.values()).count(weight.tobytes()) == 1
        assert program.stats.prepack_transfers == 3, (
            "and a bias for each, which are two in the file"
        )

    wait(run())


def test_a_mutable_buffer_goes_up_as_it_is() -> None:
    """y = relu(relu(x) + state); state += 1; and the product of state, on the host."""
    m = MethodWriter()
    x, made, product = m.tensor((4,)), m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    given = relu(m, x, (4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    m.kernel("aten::add.out", given, state, 1, made, made)
    m.kernel("aten::logcumsumexp.out", state, 0, product, product)
    m.outputs(relu(m, made, (4,)), product)
    m.kernel("aten::add.out", state, m.tensor((4,), data=ones(4)), 1, state, state)

    async def run() -> None:
        results = await compute(m, *[[ones(4)]] * 3)
        assert [y.tolist() for y, _ in results] == [[1] * 4, [2] * 4, [3] * 4]
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert {(row.op, row.where, row.count) for row in program.report if "::" in row.op} == {
            ("aten::add.out", "gpu", 1),
            ("aten::add.out", "host", 1),
            ("aten::logcumsumexp.out", "host", 1),
        }
        for count in range(3):
            await program.forward(ones(4))
            payload = runs(device)[-1]["payload"]
            assert payload == np.array([[1] * 4, [count] * 4], np.float32).tobytes()

    wait(run())


# Shapes


def test_shapes_are_those_of_each_call() -> None:
    async def run() -> None:
        m = mean_between(dynamic=True)
        await expect(m, [numbers(4, 5, 2, 2)], [numbers(3, 5, 1, 2)], [numbers(0, 5, 2, 2)])
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        for dims in ((4, 5, 2, 2), (3, 5, 1, 2), (0, 5, 2, 2)):
            (y,) = await program.forward(np.zeros(dims, np.float32))
            assert y.shape == dims[:2]

    wait(run())


def test_a_size_that_changes_is_an_argument() -> None:
    """x [n, 6] -> relu -> view as [n * 2, 3], with the size from kernels on the host -> relu."""
    m = MethodWriter()
    x, made = m.tensor((4, 6), dynamic=True), m.tensor((8, 3), dynamic=True)
    m.inputs(x)
    given = relu(m, x, (4, 6), dynamic=True)
    rows, twice = m.value(4), m.value(8)
    m.kernel("aten::sym_size.int", x, 0, rows)
    m.kernel("executorch_prim::mul.Scalar", rows, 2, twice)
    m.kernel("aten::view_copy.out", given, [twice, 3], made, made)
    m.outputs(relu(m, made, (8, 3), dynamic=True))

    async def run() -> None:
        await expect(m, [numbers(4, 6)], [numbers(1, 6)], [numbers(3, 6)])
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert places(program)["aten::view_copy.out"] == "alias"
        for count in (4, 1, 3):
            (y,) = await program.forward(ones(count, 6))
            assert y.shape == (count * 2, 3)
        assert sum(r["read"] for r in runs(device)) == 3

    wait(run())


def test_a_shape_that_the_file_does_not_allow_is_an_error() -> None:
    m = MethodWriter()
    x, made = m.tensor((4, 3), dynamic=True), m.tensor((4, 3))
    m.inputs(x)
    m.kernel("aten::exp.out", relu(m, x, (4, 3), dynamic=True), made, made)
    m.outputs(relu(m, made, (4, 3)))

    async def run() -> None:
        for device in (SimulatedDevice(), "numpy"):
            program = await webpte.load(write_pte(m), device=device)
            await program.forward(ones(4, 3))
            with pytest.raises(errors.ExecutionError, match=r"'forward', aten::exp\.out: a result"):
                await program.forward(ones(2, 3))

    wait(run())


# Arguments


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        ("aten::mul.Scalar_out", (0.5,)),
        ("aten::add.Scalar_out", (3, 2)),
        ("aten::_to_copy.out", (False, None)),
        ("dim_order_ops::_to_dim_order_copy.out", (False, [0, 1])),
        ("aten::clamp.out", (None, 0.25)),
    ],
)
def test_arguments_are_as_the_op_takes_them(kernel: str, args: tuple[Any, ...]) -> None:
    wait(expect(between(kernel, *args, dims=(4, 3), out=(4, 3)), [numbers(4, 3)]))


def test_outputs_can_be_several_or_a_list() -> None:
    m = MethodWriter()
    x = m.tensor((4, 6))
    m.inputs(x)
    given, weight = relu(m, x, (4, 6)), m.tensor((6,), data=numbers(6))
    normal, mean, rstd = m.tensor((4, 6)), m.tensor((4, 1)), m.tensor((4, 1))
    outs = (normal, mean, rstd)
    m.kernel("aten::native_layer_norm.out", given, [6], weight, None, 1e-5, *outs, *outs)
    parts = [m.tensor((4, 2)), m.tensor((4, 4))]
    listed = m.value(parts)
    m.kernel("aten::split_with_sizes_copy.out", normal, [2, 4], 1, listed, listed)
    m.outputs(relu(m, mean, (4, 1)), rstd, relu(m, parts[0], (4, 2)), parts[1])

    async def run() -> None:
        contents, _ = await offloaded(m)
        assert len(contents.offloaded) == 2
        await expect(m, [numbers(4, 6)])

    wait(run())


@pytest.mark.parametrize("kernel", ["aten::permute_copy.out", "aten::any.out"])
def test_truth_values_between_delegates_stay_on_the_gpu(kernel: str) -> None:
    """y = not kernel(x > 0)"""

    async def run() -> None:
        m = MethodWriter()
        x, flags = m.tensor((2, 3)), m.tensor((2, 3), "bool")
        m.inputs(x)
        g = GraphWriter()
        source = g.tensor((2, 3))
        g.inputs(source)
        g.outputs(g.op("aten.gt.Scalar", source, g.double(0.0), g.tensor((2, 3), "bool")))
        m.delegate(g, [x, flags])
        dims, args = ((3, 2), ([1, 0],)) if "permute" in kernel else ((2, 1), (-1, True))
        made, out = m.tensor(dims, "bool"), m.tensor(dims, "bool")
        m.kernel(kernel, flags, *args, made, made)
        g = GraphWriter()
        source = g.tensor(dims, "bool")
        g.inputs(source)
        g.outputs(g.op("aten.logical_not.default", source, g.tensor(dims, "bool")))
        m.delegate(g, [made, out])
        m.outputs(out)
        await expect(m, [numbers(2, 3)], [-ones(2, 3)])
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        await program.forward(numbers(2, 3))
        assert places(program)[kernel] == "gpu"
        assert program.stats.submissions == 1

    wait(run())


def test_floats_of_64_bits_stay_on_the_host() -> None:
    given = between("aten::permute_copy.out", [1, 0], dims=(4, 3), out=(3, 4), dtype="float64")
    contents, _ = wait(offloaded(given))
    assert not contents.offloaded
