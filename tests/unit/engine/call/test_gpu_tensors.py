"""Outputs that stay on the GPU and belong to the caller."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import add_graph, narrowed_graph, ones, plans, runs
from support.graphs.graphs import chain, load, wait
from support.graphs.turns import MOST_TURNS, outcome, turns
from support.write.pte_writer import MethodWriter, write_pte
from webpte import GpuTensor, errors
from webpte.engine.call.gpu_tensor import DeviceTensor, allocated_bytes
from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.device import BufferUse, GpuCopy
from webpte.engine.gpu.simulated.device import SimulatedDevice


def kernel_method(dtype: str = "float32", data: np.ndarray | None = None) -> MethodWriter:
    """relu on a delegate, then the maximum of it and data, which only the host has a kernel for."""
    m = MethodWriter.of(chain(1, dtype=dtype))
    out = m.tensor((4,), dtype)
    other = m.tensor((4,), dtype, data=ones(4, dtype=dtype) if data is None else data)
    m.kernel("aten::fmax.out", m.output(0), other, out, out)
    m.output_values[:] = [out]
    return m


def test_an_output_has_memory_of_its_own() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        before = dict(device.buffers)
        (first,) = await program.forward(ones(2, 3), ones(2, 3), output="gpu")
        (second,) = await program.run("forward", ones(2, 3), ones(2, 3), output="gpu")
        assert isinstance(first, GpuTensor)
        assert (first.shape, first.dtype.name, first.nbytes) == ((2, 3), "float32", 24)
        assert repr(first) == "GpuTensor(float32 [2, 3])"
        (one,), (other,) = allocated_bytes(first), allocated_bytes(second)
        assert one != other
        assert not {one, other} & set(before)
        *_, made = plans(device)
        (result,) = made.readbacks
        assert [r["copies_after"] for r in runs(device)] == [
            (GpuCopy(result.buffer, one, 24),),
            (GpuCopy(result.buffer, other, 24),),
        ]
        assert not any(r["read"] for r in runs(device)), "nothing comes back"
        assert program.stats.buffers == len(device.buffers)
        assert program.stats.buffer_bytes == sum(device.buffers.values())

    wait(run())


@pytest.mark.parametrize("how", ["destroy", "drop", "close"])
def test_memory_is_given_back(how: str) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        await program.forward(ones(4))
        before = dict(device.buffers)
        (tensor,) = await program.forward(ones(4), output="gpu")
        assert len(device.buffers) == len(before) + 1
        if how == "destroy":
            tensor.destroy()
            tensor.destroy()
            assert tensor.destroyed
            assert device.buffers == before
        elif how == "drop":
            del tensor
            gc.collect()
            assert device.buffers == before
        program.close()
        assert device.buffers == {}
        count = len(device.log)
        program.close()
        assert len(device.log) == count

    wait(run())


def test_a_tensor_that_is_gone_is_an_error() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        (tensor,) = await program.forward(ones(4), output="gpu")
        tensor.destroy()
        with pytest.raises(errors.ClosedError, match=r"GpuTensor\(float32 \[4\]\) was destroyed"):
            await tensor.numpy()
        with pytest.raises(errors.ClosedError, match="was destroyed"):
            _ = tensor.buffer
        with pytest.raises(errors.ClosedError, match="was destroyed"):
            await program.forward(tensor)
        (tensor,) = await program.forward(ones(4), output="gpu")
        program.close()
        with pytest.raises(errors.ClosedError, match="the program that made it was closed"):
            await tensor.numpy()

    wait(run())


def test_a_tensor_on_a_lost_device_is_an_error() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        (tensor,) = await program.forward(ones(4), output="gpu")
        device.lost = True
        for use in (tensor.numpy(), program.forward(tensor)):
            with pytest.raises(errors.DeviceLostError, match="was lost with its device"):
                await use

    wait(run())


def test_a_tensor_outlives_a_rebuilt_program_but_not_a_closed_one() -> None:
    async def run() -> None:
        old, new = SimulatedDevice(), SimulatedDevice()
        program = await load(chain(1), device=old)
        (tensor,) = await program.forward(ones(4), output="gpu")
        await program.recover(new)
        assert len(old.buffers) == 1
        assert program.stats.buffers == len(new.buffers)
        with pytest.raises(errors.InputError, match="is on another device than the program"):
            await program.forward(tensor)
        assert (await tensor.numpy()).shape == (4,)
        program.close()
        assert old.buffers == new.buffers == {}

    wait(run())


@pytest.mark.parametrize("kept", [True, False])
def test_closing_while_memory_is_allocated_leaves_no_tensor(kept: bool) -> None:
    """Close while memory is allocated for a delegate's output, or for an upload from the host."""

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1) if kept else kernel_method(), device=device)
        original = device.create_buffers

        async def closing(sizes: Any, use: BufferUse = "storage") -> list[int]:
            program.close()
            return await original(sizes, use)

        device.create_buffers = closing  # type: ignore[method-assign]
        with pytest.raises(errors.WebpteError, match="was closed while"):
            await program.forward(ones(4), output="gpu")
        assert device.buffers == {}

    wait(run())


@pytest.mark.parametrize("failing", ["create_buffers", "run"])
def test_a_call_that_fails_leaves_no_tensor(failing: str) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        await program.forward(ones(4))
        before = dict(device.buffers)

        def fail(*_: Any, **__: Any) -> Any:
            raise errors.OutOfMemoryError("no more")

        setattr(device, failing, fail)
        with pytest.raises(errors.OutOfMemoryError, match="no more"):
            await program.forward(ones(4), output="gpu")
        assert device.buffers == before

    wait(run())


def test_a_call_that_is_cancelled_leaves_no_tensor() -> None:
    """After any number of turns of the loop, and while its error is kept, with its frames."""

    async def run() -> None:
        device = SimulatedDevice(pauses=lambda: 4)
        program = await load(chain(1), device=device)
        await program.forward(ones(4))
        before, ended = dict(device.buffers), []
        for count in range(MOST_TURNS):
            going = asyncio.ensure_future(program.forward(ones(4), output="gpu"))
            await turns(count)
            going.cancel()
            ended.append(await outcome(going))
            del going
            if not isinstance(ended[-1], asyncio.CancelledError):
                break
            assert device.buffers == before
        assert 4 < len(ended) < MOST_TURNS

    wait(run())


def test_what_a_host_kernel_gives_goes_up() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(kernel_method(), device=device)
        (tensor,) = await program.forward(-ones(4), output="gpu")
        assert isinstance(tensor, GpuTensor)
        assert (await tensor.numpy()).tolist() == [1] * 4, "the device gives zeros"
        assert [r["read"] for r in runs(device)] == [True], "the kernel needs what the GPU gives"

    wait(run())


def test_an_integer_that_the_gpu_cannot_hold_is_an_error() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(kernel_method("int64", np.full(4, 2**40)), device=device)
        (array,) = await program.forward(ones(4, dtype="int64"))
        assert array.tolist() == [2**40] * 4
        with pytest.raises(errors.ExecutionError, match="output0: int64 values outside the range"):
            await program.forward(ones(4, dtype="int64"), output="gpu")

    wait(run())


def test_numbers_stay_numbers() -> None:
    async def run() -> None:
        program = await webpte.load(
            write_pte(chain(1), constant_methods={"size": 7}), device=SimulatedDevice()
        )
        assert await program.run("size", output="gpu") == (7,)

    wait(run())


def test_an_output_that_is_an_input_or_another_output_is_a_copy() -> None:
    m = MethodWriter.of(chain(1, dtype="float32"))
    m.outputs(m.output(0), m.input(0))

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(m, device=device)
        (given, *_) = await program.forward(ones(4), output="gpu")
        tensors = await program.forward(given, output="gpu")
        assert len({b for t in (given, *tensors) for b in allocated_bytes(t)}) == 4

    wait(run())


def test_an_output_in_the_declared_type() -> None:
    g = narrowed_graph(2)

    async def run() -> None:
        program = await load(g, device=SimulatedDevice())
        (tensor,) = await program.forward(np.array([1, 2]), output="gpu")
        types = [tensor.dtype.name, tensor.stored_dtype.name]
        assert (types, tensor.nbytes) == (["int64", "int32"], 8)
        assert (await tensor.numpy()).dtype == np.int64
        await program.forward(tensor)

    wait(run())


def test_outputs_without_elements() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        (tensor,) = await program.forward(ones(0, 3), ones(0, 3), output="gpu")
        assert (await tensor.numpy()).shape == (0, 3)
        (again,) = await program.forward(tensor, tensor)
        assert again.shape == (0, 3)
        assert [r["copies_after"] + r["copies"] for r in runs(device)] == [(), ()]

    wait(run())


@pytest.mark.parametrize("output", ["cpu", "", None, 1])
def test_outputs_are_numpy_or_gpu(output: Any) -> None:
    async def run() -> None:
        program = await load(chain(1), device=SimulatedDevice())
        with pytest.raises(errors.InputError, match="there are 'numpy' and 'gpu'"):
            await program.forward(ones(4), output=output)

    wait(run())


def test_numpy_has_no_gpu() -> None:
    async def run() -> None:
        gpu = await load(chain(1), device=SimulatedDevice())
        (tensor,) = await gpu.forward(ones(4), output="gpu")
        program = await load(chain(1), name="tiny.pte")
        with pytest.raises(errors.DeviceError, match=r"tiny\.pte runs on NumPy"):
            await program.forward(ones(4), output="gpu")
        with pytest.raises(errors.InputError, match=r"the program runs on NumPy; `await tensor"):
            await program.forward(tensor)
        with pytest.raises(errors.DeviceError, match="runs on NumPy"):
            _ = program.device

    wait(run())


@pytest.mark.parametrize("native", [True, False])
def test_half_floats_are_stored_as_the_device_has_them(native: bool) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        if native:
            device.info = replace(device.info, features=("shader-f16",))
        program = await load(kernel_method("float16"), device=device)
        (tensor,) = await program.forward(ones(4, dtype="float16"), output="gpu")
        assert tensor.stored_dtype.name == ("float16" if native else "float32")
        array = await tensor.numpy()
        assert (array.dtype.name, array.tolist()) == ("float16", [1] * 4)
        await (await load(chain(1, dtype="float16"), device=device)).forward(tensor)
        assert [copy.nbytes for copy in runs(device)[-1]["copies"]] == [8 if native else 16]

    wait(run())


def test_what_no_half_float_holds_is_infinite() -> None:
    """Values beyond f16, stored as float32, become infinite without a warning."""
    tensor = DeviceTensor(0, DTYPES["float16"], DTYPES["float32"], (3,))
    data = np.array([65504, 1e5, -1e9], np.float32).tobytes()
    assert tensor.decode(data).tolist() == [65504, np.inf, -np.inf]
