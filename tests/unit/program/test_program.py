"""Programs: their descriptions, how they run, and how they end."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, DEVICES, RELU, add_graph, device_of, ones
from support.graphs.graphs import chain, load, wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.device import PlanCommands
from webpte.engine.gpu.simulated.device import SimulatedDevice

# What is in a file


def test_methods_tell_inputs_outputs_ops_and_constants() -> None:
    g = GraphWriter()
    x, n = g.tensor((8, 3)), g.tensor((1,), "int32")
    w = g.tensor((3,), constant=np.arange(3, dtype=np.float32), key="w")
    big = g.tensor((8, 3), constant=np.ones((8, 3), np.float32), key="big")
    again = g.tensor((3,), constant=np.arange(3, dtype=np.float32), key="w")
    a = g.op(ADD, x, g.prepack(w), g.int(1), g.tensor((8, 3)))
    b = g.op(ADD, a, g.prepack(big), g.int(1), g.tensor((8, 3)))
    out = g.op(ADD, b, g.prepack(again), g.int(1), g.tensor((8, 3)))
    g.inputs(x, n)
    g.outputs(out, n)
    g.host(x, dynamic=True)
    g.host(n, "int64")

    async def run() -> None:
        inspected = await webpte.inspect(write_pte(g))
        program = await load(g)
        assert program.methods == inspected
        info = inspected["forward"]
        assert info.name == "forward"
        assert [str(i) for i in info.inputs] == ["input0: float32 [≤8, ≤3]", "input1: int64 [1]"]
        first = info.inputs[0]
        assert isinstance(first, webpte.TensorInfo)
        assert first.bounds == ((1, 8), (1, 3))
        second = info.inputs[1]
        assert isinstance(second, webpte.TensorInfo)
        assert second.bounds == ((1, 1),)
        assert info.ops == {ADD: 3, "et_vk.prepack.default": 3}
        assert info.kernels_outside == info.unsupported == {}
        assert not info.is_constant
        assert [(c.key, c.nbytes, c.shape, c.dtype, c.count) for c in info.constants] == [
            ("big", 96, (8, 3), "float32", 1),
            ("w", 12, (3,), "float32", 2),
        ]
        assert info.constant_bytes == 108

    wait(run())


def test_constant_methods_return_what_the_file_holds() -> None:
    data = write_pte(
        chain(1),
        constant_methods={
            "get_max_seq_len": 128,
            "use_kv_cache": True,
            "get_eos_ids": [7, 8],
            "scale": 0.5,
            "name": "tiny",
            "nothing": None,
        },
    )

    async def run() -> None:
        program = await webpte.load(data, device="numpy")
        assert await program.run("get_max_seq_len") == (128,)
        assert await program.run("use_kv_cache") == (True,)
        assert await program.run("get_eos_ids") == (7, 8)
        assert await program.run("scale") == (0.5,)
        assert await program.run("name") == ("tiny",)
        assert await program.run("nothing") == (None,)
        assert program.methods["get_eos_ids"].is_constant
        assert [str(o) for o in program.methods["scale"].outputs] == ["output0: float"]

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_several_methods_share_nothing_but_the_file(device: str) -> None:
    double = GraphWriter()
    x = double.tensor((4,))
    w = double.prepack(double.tensor((4,), constant=np.full(4, 2, np.float32)))
    double.inputs(x)
    double.outputs(double.op("aten.mul.Tensor", x, w, double.tensor((4,))))
    data = write_pte(methods={"prefill": double, "decode": chain(1)})

    async def run() -> None:
        program = await webpte.load(data, device=device_of(device))
        assert list(program.methods) == ["prefill", "decode"]
        (a,) = await program.run("prefill", ones(4))
        (b,) = await program.run("decode", -ones(4))
        assert a.shape == b.shape == (4,)
        if device == "numpy":
            assert a.tolist() == [2] * 4
            assert b.tolist() == [0] * 4
        with pytest.raises(errors.InputError, match="no method 'forward'; it has: prefill, decode"):
            await program.forward(ones(4))

    wait(run())


def test_two_delegates_in_a_row() -> None:
    m = MethodWriter()
    x, y, z = (m.tensor((4,)) for _ in range(3))
    m.inputs(x)
    m.delegate(chain(1), [x, y])
    m.delegate(chain(1, op="aten.neg.default"), [y, z])
    m.free(y)
    m.outputs(z)

    async def run() -> None:
        program = await load(m)
        (z,) = await program.forward(np.array([-1, 2, -3, 4], np.float32))
        assert z.tolist() == [0, -2, 0, -4]
        assert program.stats.executions == 2

    wait(run())


def test_a_delegate_may_take_inputs_in_another_order() -> None:
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    g.inputs(y, x)
    g.outputs(g.op("aten.sub.Tensor", x, y, g.int(1), g.tensor((4,))))
    m = MethodWriter()
    a, b, out = (m.tensor((4,)) for _ in range(3))
    m.inputs(a, b)
    m.delegate(g, [b, a, out])
    m.outputs(out)

    async def run() -> None:
        program = await load(m)
        (result,) = await program.forward(np.full(4, 5, np.float32), np.full(4, 2, np.float32))
        assert result.tolist() == [3] * 4

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_an_input_that_is_an_output(device: str) -> None:
    """The method hands one value to the delegate as input and as output."""
    g = GraphWriter()
    x = g.tensor((4,))
    out = g.op(RELU, x, g.tensor((4,)))
    g.inputs(x)
    g.outputs(x, out)

    async def run() -> None:
        program = await load(g, device=device_of(device))
        first, second = await program.forward(-ones(4))
        assert first.shape == second.shape == (4,)
        if device == "numpy":
            assert first.tolist() == [-1] * 4
            assert second.tolist() == [0] * 4

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_that_is_called_again_starts_afresh(device: str) -> None:
    async def run() -> None:
        program = await load(add_graph(), device=device_of(device))
        first = await program.forward(ones(2, 3), ones(2, 3))
        second = await program.forward(ones(2, 3), ones(2, 3))
        np.testing.assert_array_equal(first[0], second[0])
        assert first[0] is not second[0]

    wait(run())


def test_a_buffer_keeps_what_a_call_wrote() -> None:
    """`alias_buffer_mutations`: the sum of all inputs so far has the id of the first one."""

    async def run() -> None:
        g = GraphWriter()
        x = g.tensor((3,))
        total = g.prepack(g.tensor((3,), constant=np.full(3, 10, np.float32)))
        g.op(ADD, total, x, g.int(1), total)
        out = g.op(ADD, total, x, g.int(1), g.tensor((3,)))
        g.inputs(x)
        g.outputs(out)
        async with await webpte.load(write_pte(g), device="numpy") as program:
            for expected in (12, 13, 14):
                (result,) = await program.forward(ones(3))
                assert result.tolist() == [expected] * 3

    wait(run())


def test_the_callers_arrays_are_left_alone() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    v = g.op("aten.view_copy.default", x, g.int_list([2, 2]), g.tensor((2, 2)))
    g.inputs(x)
    g.outputs(v)

    async def run() -> None:
        program = await load(g)
        array = ones(4)
        (result,) = await program.forward(array)
        result[:] = 9
        assert array.tolist() == [1] * 4

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_an_unknown_method(device: str) -> None:
    async def run() -> None:
        program = await load(chain(1), device=device_of(device))
        with pytest.raises(errors.InputError, match="has no method 'backward'; it has: forward"):
            await program.run("backward", ones(4))

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_a_closed_program(device: str) -> None:
    async def run() -> None:
        used = device_of(device)
        async with await load(chain(1), device=used, name="tiny.pte") as program:
            await program.forward(ones(4))
        with pytest.raises(errors.ClosedError, match=r"tiny\.pte was closed; load it again"):
            await program.forward(ones(4))
        program.close()
        assert program.methods["forward"].ops == {RELU: 1}
        if device == "recording":
            assert used.buffers == used.plans == {}

    wait(run())


def test_closing_while_a_plan_is_made_leaves_nothing() -> None:
    """One call waits for its plan, another for the first: both are told, and nothing stays."""

    class Slow(SimulatedDevice):
        def __init__(self) -> None:
            super().__init__()
            self.gate = asyncio.Event()
            self.gate.set()

        async def create_plan(self, commands: PlanCommands) -> int:
            await self.gate.wait()
            return await super().create_plan(commands)

    async def run() -> None:
        device = Slow()
        program = await load(add_graph((8, 3), dynamic=True), device=device)
        device.gate.clear()
        calls = [asyncio.ensure_future(program.forward(ones(n, 3), ones(n, 3))) for n in (2, 3)]
        for _ in range(5):
            await asyncio.sleep(0)
        program.close()
        device.gate.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, errors.WebpteError) for result in results), results
        assert all("closed" in str(result) for result in results), results
        assert device.plans == {}
        assert device.buffers == {}

    wait(run())


def test_an_error_in_the_with_block_closes_too() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        with pytest.raises(ZeroDivisionError):
            async with await load(chain(1), device=device):
                raise ZeroDivisionError
        assert device.buffers == {}

    wait(run())


def test_a_graph_that_computes_on_numpy_end_to_end() -> None:
    """sigmoid((x + w) * scale) > 0.5, as a view, with int and bool outputs."""
    g = GraphWriter()
    x = g.tensor((2, 3))
    w = g.prepack(g.tensor((3,), constant=np.array([1, -1, 0], np.float32)))
    scale = g.prepack(g.tensor((), constant=np.array(2, np.float32)))
    a = g.op(ADD, x, w, g.int(1), g.tensor((2, 3)))
    b = g.op("aten.mul.Tensor", a, scale, g.tensor((2, 3)))
    c = g.op("aten.sigmoid.default", b, g.tensor((2, 3)))
    d = g.op("aten.view_copy.default", c, g.int_list([3, 2]), g.tensor((3, 2)))
    e = g.op("aten.gt.Scalar", d, g.double(0.5), g.tensor((3, 2), "bool"))
    f = g.op("aten._to_copy.default", e, g.tensor((3, 2), "int32"))
    g.inputs(x)
    g.outputs(d, e, f)

    async def run() -> None:
        program = await load(g)
        x = np.array([[-1, 2, -3], [0.5, 1, 0]], np.float32)
        d, e, f = await program.forward(x)
        wanted = 1 / (1 + np.exp(-2 * (x.astype(np.float64) + np.array([1, -1, 0])))).reshape(3, 2)
        np.testing.assert_allclose(d, wanted, rtol=1e-6)
        np.testing.assert_array_equal(e, wanted > 0.5)
        np.testing.assert_array_equal(f, (wanted > 0.5).astype(np.int32))
        assert (d.dtype, e.dtype, f.dtype) == (np.float32, np.bool_, np.int32)

    wait(run())


def test_a_program_is_printed_by_its_name_device_and_methods() -> None:
    async def run() -> None:
        async with await load(add_graph(), device="numpy", name="add.pte") as program:
            assert repr(program) == "<add.pte on numpy: forward>"

    wait(run())
