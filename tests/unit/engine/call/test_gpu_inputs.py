"""Inputs that are on the GPU already: our tensors, and buffers that other code made."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.devices.recorded import Slow, add_graph, names, ones, runs
from support.graphs.graphs import chain, load, temporary_op, wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import GpuTensor, errors
from webpte.engine.call.gpu_tensor import allocated_bytes
from webpte.engine.gpu import devices
from webpte.engine.gpu.simulated.device import RecordedBuffer, SimulatedDevice
from webpte.llm.decode.decoder import decoder_of

# Tensors


def test_a_tensor_goes_from_call_to_call_on_the_gpu() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        other = await load(chain(2), device=device)
        (tensor,) = await program.forward(ones(4), output="gpu")
        for user in (program, other):
            await user.forward(tensor)
            (copy,) = runs(device)[-1]["copies"]
            assert copy.source in allocated_bytes(tensor)
            assert copy.nbytes == 16
            assert runs(device)[-1]["validate"]
            assert runs(device)[-1]["payload"] == b""
        assert "read" not in names(device)

    wait(run())


def test_a_tensor_that_is_destroyed_before_its_call_starts() -> None:
    """The second call waits for the first one; meanwhile its input goes away."""

    async def run() -> None:
        device = Slow()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        (tensor,) = await program.forward(ones(2, 3), ones(2, 3), output="gpu")
        calls = [
            asyncio.ensure_future(program.forward(ones(5, 3), ones(5, 3))),
            asyncio.ensure_future(program.forward(tensor, tensor)),
        ]
        await asyncio.sleep(0)
        tensor.destroy()
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, tuple)
        assert isinstance(second, errors.ClosedError)

    wait(run())


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((5,), "float32", r"\[5\] was given"),
        ((2, 2), "float32", "rank 1 is needed, not 2"),
        ((4,), "int32", "float32 is needed, not int32"),
    ],
)
def test_a_tensor_is_checked_like_an_array(
    shape: tuple[int, ...], dtype: str, message: str
) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        tensor = GpuTensor.from_buffer(RecordedBuffer(64), dtype, shape, device)
        for given in (tensor, np.zeros(shape, dtype)):
            with pytest.raises(errors.InputError, match=message):
                await program.forward(given)

    wait(run())


def test_a_tensor_of_another_device() -> None:
    async def run() -> None:
        first = await load(chain(1), device=SimulatedDevice())
        second = await load(chain(1), device=SimulatedDevice())
        (tensor,) = await first.forward(ones(4), output="gpu")
        with pytest.raises(errors.InputError, match="is on another device than the program"):
            await second.forward(tensor)

    wait(run())


def test_a_host_kernel_reads_a_tensor_back() -> None:
    m = MethodWriter()
    x, out = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    m.kernel("aten::add.out", x, x, 1, out, out)
    m.outputs(out)

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(m, device=device)
        (tensor,) = await program.forward(ones(4), output="gpu")
        (array,) = await program.forward(tensor)
        assert array.tolist() == [4] * 4

    wait(run())


def test_a_position_is_read_back() -> None:
    """The graph slices at a SymInt that is an element of an input."""
    g = GraphWriter()
    table, at, start = g.tensor((8, 2)), g.tensor((1,), "int32"), g.symint(0)
    g.op("et_vk.select_as_symint.default", at, g.int(0), g.int(0), start)
    end = g.symint(2)
    g.op("add", start, g.int(2), end)
    slice_args = (table, g.int(0), start, end, g.int(1))
    g.inputs(table, at)
    g.outputs(g.op("aten.slice_copy.Tensor", *slice_args, g.tensor((2, 2))))

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(g, device=device)
        buffer = RecordedBuffer(4)
        position = GpuTensor.from_buffer(buffer, "int32", (1,), device)
        buffer.write(np.array([3], np.int32))
        (array,) = await program.forward(ones(8, 2), position)
        assert array.shape == (2, 2)
        assert names(device)[-2:] == ["read", "run"]
        buffer.write(np.array([7], np.int32))
        (array,) = await program.forward(ones(8, 2), position)
        assert array.shape == (1, 2)

    wait(run())


def test_smaller_integers_are_widened_on_the_host() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1, dtype="int32"), device=device)
        buffer = RecordedBuffer(4)
        buffer.write(np.array([1, -2, 3, -4], np.int8))
        tensor = GpuTensor.from_buffer(buffer, "int8", (4,), device)
        await program.forward(tensor)
        assert runs(device)[-1]["copies"] == ()
        assert runs(device)[-1]["payload"] == np.array([1, -2, 3, -4], np.int32).tobytes()

    wait(run())


def test_one_delegate_called_twice_does_not_overwrite_its_first_result() -> None:
    """a = neg(x); b = neg(a); a + b: both calls are of the same delegate."""
    neg, add = chain(1, op="aten.neg.default"), add_graph((4,))
    m = MethodWriter()
    x, a, b, out = (m.tensor((4,)) for _ in range(4))
    m.inputs(x)
    m.delegate(neg, [x, a])
    m.delegate(neg, [a, b])
    m.delegate(add, [a, b, out])
    m.outputs(out)

    def one_delegate(program: Any) -> None:
        """The second call becomes one of delegate 0."""
        call = program.slots[1][0].slots[5][0].slots[2][1]
        call.slots[1].slots[0].value = 0

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m, edit=one_delegate), device=device)
        await program.forward(ones(4))
        first, second, third = runs(device)
        assert first["copies_after"][0].target != second["copies_after"][0].target
        sources = [copy.source for copy in third["copies"]]
        assert sources == [first["copies_after"][0].target, second["copies_after"][0].target]
        gc.collect()
        assert program.stats.buffers == len(device.buffers), "what was kept in between is gone"

    wait(run())


def test_argmax_is_of_the_call_it_was_asked_for() -> None:
    """A call in between would overwrite the buffer that the search reads."""

    async def run() -> None:
        device = Slow()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        await run_argmax(program, "forward", ones(8, 3), ones(8, 3))
        await program.forward(ones(2, 3), ones(2, 3))
        rising = np.arange(15, dtype=np.float32).reshape(5, 3)
        before = len(runs(device))
        (done, _) = await asyncio.gather(
            run_argmax(program, "forward", rising, ones(5, 3)),
            program.forward(ones(2, 3), ones(2, 3)),
        )
        assert done.tolist() == [2] * 5
        assert set(program.stats.last_ms) == {"prepare", "submit", "wait"}
        together, after = runs(device)[before:]
        assert together["copies"] == (), "the search reads the sum where it is"
        assert len(device.plans[together["plan"]].parts) == 2, "both in one submission"
        assert len(after["payload"]) == 2 * 32

    wait(run())


# Buffers from elsewhere


def test_a_buffer_is_taken_as_it_is_where_the_shape_is_fixed() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1, dims=(3,)), device=device)
        for size in (12, 16):
            await program.forward(RecordedBuffer(size))
            (copy,) = runs(device)[-1]["copies"]
            assert copy.nbytes == 12
            assert runs(device)[-1]["validate"]
        assert device.adopted == {}, "it is forgotten after the call"
        with pytest.raises(errors.InputError, match=r"8 bytes is too small for .* 12 are needed"):
            await program.forward(RecordedBuffer(8))
        with pytest.raises(errors.InputError, match="100 bytes is larger than the input"):
            await program.forward(RecordedBuffer(100))
        with pytest.raises(errors.InputError, match="not a buffer that can be copied from"):
            await program.forward(RecordedBuffer(12, copyable=False))
        assert device.adopted == {}

    wait(run())


def test_a_buffer_for_a_dynamic_input_needs_a_shape() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        with pytest.raises(errors.InputError, match=r"from_buffer\(buffer, dtype, shape\)"):
            await program.forward(RecordedBuffer(96), RecordedBuffer(96))
        tensor = GpuTensor.from_buffer(RecordedBuffer(96), np.float32, [2, 3], program.device)
        (out,) = await program.forward(tensor, tensor)
        assert out.shape == (2, 3)
        assert [copy.nbytes for copy in runs(device)[-1]["copies"]] == [24, 24]

    wait(run())


def test_a_buffer_is_not_ours_to_destroy() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1), device=device)
        buffer = RecordedBuffer(16)
        tensor = GpuTensor.from_buffer(buffer, "float32", (4,), device)
        assert tensor.buffer is buffer
        before = dict(device.buffers)
        tensor.destroy()
        assert names(device)[-1] == "forget_buffers"
        assert device.buffers == before
        with pytest.raises(errors.ClosedError):
            await program.forward(tensor)

    wait(run())


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("complex64", (4,), "no tensor has the dtype 'complex64'; there are bool"),
        ("strange", (4,), "no tensor has the dtype 'strange'"),
        ("float32", (-1,), "cannot be negative"),
        ("float32", (5,), "16 bytes is too small"),
        ("int8", (17,), "20 are needed, 1 for each element, in whole words"),
    ],
)
def test_what_a_buffer_cannot_be(dtype: str, shape: tuple[int, ...], message: str) -> None:
    device = SimulatedDevice()
    with pytest.raises(errors.InputError, match=message):
        GpuTensor.from_buffer(RecordedBuffer(16), dtype, shape, device)
    with pytest.raises(errors.InputError, match="not a buffer"):
        GpuTensor.from_buffer(object(), "float32", (4,), device)


def test_without_a_device_there_are_no_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices._SharedDevices, "made", {})  # other tests have made one
    with pytest.raises(errors.DeviceError, match="there is no GPU device yet"):
        GpuTensor.from_buffer(RecordedBuffer(16), "float32", (4,))


# Indices that only the GPU knows


def select_graph() -> GraphWriter:
    """x[index]"""
    g = GraphWriter()
    x, index = g.tensor((4,)), g.tensor((2,), "int32")
    g.inputs(x, index)
    g.outputs(g.op("aten.index_select.default", x, g.int(0), index, g.tensor((2,))))
    return g


def test_indices_on_the_gpu_are_checked_though_nothing_is_read_back() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(select_graph(), device=device)
        buffer = RecordedBuffer(8)
        index = GpuTensor.from_buffer(buffer, "int32", (2,), device)
        inputs = ("forward", ones(4), index)
        await program.run(*inputs, output="gpu")
        before = dict(device.buffers)
        for call in (
            lambda: program.run(*inputs, output="gpu"),
            lambda: decoder_of(program, "forward").run_unread(inputs[1:]),
            lambda: run_argmax(program, *inputs),
        ):
            buffer.write(np.array([0, 4], np.int32))
            with pytest.raises(errors.ExecutionError, match="an index is out of range"):
                await call()
            buffer.write(np.array([0, 3], np.int32))
            await call()  # it starts without the fault
        assert device.buffers.items() >= before.items()
        assert program.stats.buffers == len(device.buffers), "what was to be kept is given back"

    wait(run())


def test_indices_that_the_host_has_seen_need_no_second_look() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(select_graph(), device=device)
        await program.forward(ones(4), ones(2, dtype="int32"), output="gpu")
        assert "read" not in names(device)
        with pytest.raises(errors.ExecutionError, match="an index is out of range"):
            await program.forward(ones(4), np.array([1, 4], np.int32), output="gpu")

    wait(run())


def test_arrays_and_tensors_in_turn() -> None:
    async def run() -> None:
        program = await load(add_graph(), device=SimulatedDevice())
        (one,) = await program.forward(ones(2, 3), 0 * ones(2, 3), output="gpu")
        two = 2 * ones(2, 3)
        for x, y, total in ((one, one, 2), (two, two, 4), (one, two, 3), (two, one, 3)):
            for _ in range(2):
                (found,) = await program.forward(x, y)
                assert (found == total).all()

    wait(run())


def test_a_tensor_is_copied_once_though_the_host_computes_in_between() -> None:
    """Its place has another value by then, which is needed after the host's part."""

    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: 10 * args.array("self"),
    }

    async def run() -> None:
        with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
            g = GraphWriter()
            x = g.tensor((4,))
            a = g.op("aten.relu.default", x, g.tensor((4,)))
            b = g.op("aten.neg.default", a, g.tensor((4,)))
            c = g.op("test.host.default", a, g.tensor((4,)))
            g.inputs(x)
            g.outputs(g.op("aten.add.Tensor", b, c, g.int(1), g.tensor((4,))))
            program = await load(g, device=SimulatedDevice())
            (tensor,) = await program.forward(ones(4) / 9, output="gpu")
            (found,) = await program.forward(tensor)
            np.testing.assert_allclose(found, 9 * ones(4))

    wait(run())
