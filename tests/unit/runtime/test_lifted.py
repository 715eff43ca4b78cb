"""Calls of kernels that run on the GPU because what is around them is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs import wait
from support.pte_writer import GraphWriter, MethodWriter, write_ptd, write_pte
from support.recorded import ones, runs
from support.samples import Dims, convolution, numbers, relu
from webpte import errors
from webpte.gpu.device import DeviceInfo
from webpte.gpu.recording import RecordingDevice
from webpte.runtime.contents import MethodContents, read_contents
from webpte.runtime.lifted import lift
from webpte.runtime.method import Method
from webpte.runtime.numpy_delegate import NumpyDelegate
from webpte.runtime.state import State, read_states
from webpte.runtime.stitch import stitch
from webpte.source import BytesSource


def between(
    kernel: str, *args: Any, dims: Dims, out: Dims, dtype: str = "float32", dynamic: bool = False
) -> MethodWriter:
    """relu on a delegate, kernel(relu(x), *args), relu on another delegate."""
    m = MethodWriter()
    x = m.tensor(dims, dtype, dynamic=dynamic)
    m.inputs(x)
    given, made = relu(m, x, dims, dtype, dynamic=dynamic), m.tensor(out, dtype, dynamic=dynamic)
    m.kernel(kernel, given, *args, made, made)
    m.outputs(relu(m, made, out, dtype, dynamic=dynamic))
    return m


def mean_between(**how: Any) -> MethodWriter:
    args = ([2, 3], False, None)
    return between("aten::mean.out", *args, dims=(4, 5, 2, 2), out=(4, 5), **how)


def places(program: webpte.Program) -> dict[str, str]:
    """Kernel to where it runs."""
    return {row.op: row.where for row in program.report if "::" in row.op}


async def lifted(m: MethodWriter, **info: Any) -> tuple[MethodContents, State]:
    contents = await read_contents(BytesSource(write_pte(m)))
    states = await read_states(contents)
    device = DeviceInfo("recording", **info)
    return lift(contents.methods["forward"], states["forward"], device), states["forward"]


async def compute(
    m: MethodWriter, *calls: Sequence[np.ndarray], stitched: bool = False
) -> list[list[np.ndarray]]:
    """What the method gives with its calls lifted, and all delegates on their references."""
    contents, state = await lifted(m)
    assert contents.lifted
    if stitched:
        contents = stitch(contents, state, DeviceInfo("recording"))
    delegates = [await NumpyDelegate.create(graph) for graph in contents.graphs if graph]
    method = Method(contents, delegates, state, None, asyncio.Lock())
    return [list(await method.run(inputs)) for inputs in calls]


async def expect(m: MethodWriter, *calls: Sequence[np.ndarray]) -> None:
    """The same numbers as without lifting anything, also where all is one graph."""
    program = await webpte.load(write_pte(m), device="numpy")
    results = [*await compute(m, *calls), *await compute(m, *calls, stitched=True)]
    for inputs, outputs in zip([*calls, *calls], results, strict=True):
        for got, want in zip(outputs, await program.forward(*inputs), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


# What stays on the GPU


def test_what_is_between_two_delegates_stays_on_the_gpu() -> None:
    async def run() -> None:
        device = RecordingDevice()
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


def test_the_numpy_device_lifts_nothing() -> None:
    async def run() -> None:
        async with await webpte.load(write_pte(mean_between()), device="numpy") as program:
            await program.forward(ones(4, 5, 2, 2))
            assert places(program) == {"aten::mean.out": "host"}
            assert program.stats.executions == 2

    wait(run())


def test_it_is_freed_rebuilt_and_strict_like_a_delegate() -> None:
    async def run() -> None:
        first, second = RecordingDevice(), RecordingDevice()
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
        device = RecordingDevice()
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
        device = RecordingDevice()
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
        device = RecordingDevice()
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
        device = RecordingDevice()
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
    """As a linear layer is exported: x @ weight.T"""

    async def run() -> None:
        m = MethodWriter()
        x, turned, made = m.tensor((2, 3)), m.tensor((3, 4)), m.tensor((2, 4))
        m.inputs(x)
        m.kernel("aten::t_copy.out", m.tensor((4, 3), data=numbers(4, 3)), turned, turned)
        m.kernel("aten::mm.out", x, turned, made, made)
        m.outputs(made)
        await expect(m, [numbers(2, 3)])
        device = RecordingDevice()
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
        data, device = write_ptd({"w": weight}), RecordingDevice()
        program = await webpte.load(write_pte(methods=methods), data=[data], device=device)
        assert list(device.contents.values()).count(weight.tobytes()) == 1
        assert program.stats.prepack_transfers == 3, (
            "and a bias for each, which are two in the file"
        )

    wait(run())


def test_a_mutable_buffer_goes_up_as_it_is() -> None:
    """y = relu(relu(x) + state); state += 1, on the host."""
    m = MethodWriter()
    x, made = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    given = relu(m, x, (4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    m.kernel("aten::add.out", given, state, 1, made, made)
    m.outputs(relu(m, made, (4,)))
    m.kernel("aten::add.out", state, m.tensor((4,), data=ones(4)), 1, state, state)

    async def run() -> None:
        results = await compute(m, *[[ones(4)]] * 3)
        assert [y.tolist() for (y,) in results] == [[1] * 4, [2] * 4, [3] * 4]
        device = RecordingDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert {(row.op, row.where, row.count) for row in program.report if "::" in row.op} == {
            ("aten::add.out", "gpu", 1),
            ("aten::add.out", "host", 1),
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
        program = await webpte.load(write_pte(m), device=RecordingDevice())
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
        device = RecordingDevice()
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
        for device in (RecordingDevice(), "numpy"):
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
        contents, _ = await lifted(m)
        assert len(contents.lifted) == 2
        await expect(m, [numbers(4, 6)])

    wait(run())


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
    made = m.tensor((4,))
    m.kernel("aten::exp.out", m.input(0), made, made)
    m.outputs(relu(m, made, (4,)))


def also_returned(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    m.kernel("aten::exp.out", given, made, made)
    m.outputs(given, relu(m, made, (4,)))


def also_read_by_the_host(m: MethodWriter) -> None:
    made, given, sums = m.tensor((4,)), relu(m, m.input(0), (4,)), m.tensor((4,))
    m.kernel("aten::cumprod.out", given, 0, None, sums, sums)
    m.kernel("aten::exp.out", given, made, made)
    m.outputs(sums, relu(m, made, (4,)))


def for_the_host(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    sums = m.tensor((4,))
    m.kernel("aten::exp.out", given, made, made)
    m.kernel("aten::cumprod.out", made, 0, None, sums, sums)
    m.outputs(sums)


def a_number_that_changes(m: MethodWriter) -> None:
    made, given = m.tensor((4,)), relu(m, m.input(0), (4,))
    factor = m.value(0.5)
    m.kernel("aten::_local_scalar_dense", m.tensor((), data=ones()), factor)
    m.kernel("aten::mul.Scalar_out", given, factor, made, made)
    m.outputs(relu(m, made, (4,)))


HOSTED = [
    unbounded,
    wide,
    promoted,
    from_the_host,
    for_the_host,
    a_number_that_changes,
]


@pytest.mark.parametrize("build", HOSTED, ids=lambda build: build.__name__)
def test_the_rest_stays_on_the_host(build: Any) -> None:
    async def run() -> None:
        m = MethodWriter()
        m.inputs(m.tensor((4,), "float64" if build is wide else "float32"))
        build(m)
        contents, _ = await lifted(m)
        assert not contents.lifted

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
        contents, _ = await lifted(m)
        assert not contents.lifted

    wait(run())


def test_what_does_not_fit_a_buffer_stays_on_the_host() -> None:
    async def run() -> None:
        for limit, count in ((320, 1), (319, 0)):
            limits = {"maxBufferSize": 1000, "maxStorageBufferBindingSize": limit}
            contents, _ = await lifted(mean_between(), limits=limits)
            assert len(contents.lifted) == count

    wait(run())


@pytest.mark.parametrize(("features", "limit"), [((), 320), (("shader-f16",), 160)])
def test_half_floats_fit_as_the_device_stores_them(features: tuple[str, ...], limit: int) -> None:
    """80 of them: in 4 bytes each, or in 2 where shaders have them."""

    async def run() -> None:
        for room, count in ((limit, 1), (limit - 1, 0)):
            contents, _ = await lifted(
                mean_between(dtype="float16"), features=features, limits={"maxBufferSize": room}
            )
            assert len(contents.lifted) == count

    wait(run())


def test_a_call_with_too_few_arguments_is_an_error_where_it_always_was() -> None:
    m = MethodWriter()
    x, made = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    m.kernel("aten::mul.Scalar_out", relu(m, x, (4,)))
    m.outputs(made)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=RecordingDevice())
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
        device = RecordingDevice()
        program = await webpte.load(write_pte(m), device=device)
        await asyncio.gather(*(program.forward(ones(2, 3)) for _ in range(3)))
        assert places(program) == {"aten::mm.out": "gpu"}
        assert [len(r["payload"]) for r in runs(device)] == [32] * 3, "in whole quads"

    wait(run())


@pytest.mark.parametrize("build", [also_returned, also_read_by_the_host], ids=lambda f: f.__name__)
def test_what_joins_two_delegates_is_lifted_whoever_else_reads_it(build: Any) -> None:
    async def run() -> None:
        m = MethodWriter()
        m.inputs(m.tensor((4,)))
        build(m)
        contents, _ = await lifted(m)
        assert list(contents.lifted.values()) == ["aten::exp.out"]
        await expect(m, [numbers(4)])
        program = await webpte.load(write_pte(m), device=RecordingDevice())
        await program.forward(ones(4))
        assert program.stats.submissions == 1

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
        program = await webpte.load(write_pte(m), device=RecordingDevice())
        await program.forward(numbers(2, 3))
        assert places(program)[kernel] == "gpu"
        assert program.stats.submissions == 1

    wait(run())


def test_integers_of_64_bits_stay_on_the_host() -> None:
    contents, _ = wait(
        lifted(between("aten::permute_copy.out", [1, 0], dims=(4, 3), out=(3, 4), dtype="int64"))
    )
    assert not contents.lifted
