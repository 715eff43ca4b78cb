"""Programs: what they say about themselves, what they take, and how they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs import chain, load, run_once, temporary_op, wait
from support.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.gpu.device import PlanCommands
from webpte.gpu.recording import RecordingDevice

RELU, ADD = "aten.relu.default", "aten.add.Tensor"
DEVICES = ["numpy", "recording"]


def device_of(name: str) -> Any:
    return RecordingDevice() if name == "recording" else name


def add_graph(
    dims: tuple[int, ...] = (2, 3), *, dynamic: bool = False, host: str | None = None
) -> GraphWriter:
    """(x, y) -> x + y."""
    g = GraphWriter()
    x, y, out = (g.tensor(dims) for _ in range(3))
    g.op(ADD, x, y, g.int(1), out)
    g.inputs(x, y)
    g.outputs(out)
    for value in (x, y, out):
        g.host(value, host, dynamic=dynamic)
    return g


def ones(*dims: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(dims, dtype)


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


# Types at the border


@pytest.mark.parametrize("device", DEVICES)
def test_int64_arrays_for_an_int32_graph(device: str) -> None:
    g = GraphWriter()
    x = g.tensor((3,), "int32")
    out = g.op("aten.neg.default", x, g.tensor((3,), "int32"))
    g.inputs(x)
    g.outputs(out)
    g.host(x, "int64")
    g.host(out, "int64")

    async def run() -> None:
        program = await load(g, device=device_of(device))
        (result,) = await program.forward(np.array([1, 2**31 - 1, -(2**31) + 1]))
        assert result.dtype == np.int64
        if device == "numpy":
            assert result.tolist() == [-1, -(2**31) + 1, 2**31 - 1]
        for value in (2**31, -(2**31) - 1):
            with pytest.raises(errors.ExecutionError, match="outside the range of int32"):
                await program.forward(np.array([0, 1, value]))
        await program.forward(np.array([0, 1, 2]))

    wait(run())


def test_float64_arrays_for_a_float32_graph() -> None:
    async def run() -> None:
        program = await load(add_graph(host="float64"))
        (result,) = await program.forward(ones(2, 3, dtype="float64"), ones(2, 3, dtype="float64"))
        assert result.dtype == np.float64
        assert result.tolist() == [[2] * 3] * 2

    wait(run())


def test_a_host_type_that_the_graph_cannot_mean_is_refused() -> None:
    """A float array for an int32 graph would lose its fractions without a word."""
    g = GraphWriter()
    x = g.tensor((3,), "int32")
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((3,), "int32")))
    g.host(x, "float32")

    async def run() -> None:
        with pytest.raises(errors.WebpteError, match=r"float32.*int32"):
            await run_once(g, np.array([1.5, 2.5, 3.5], np.float32))

    wait(run())


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_smaller_integers_are_widened(dtype: str) -> None:
    g = GraphWriter()
    x = g.tensor((3,), "int64")
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((3,), "int64")))

    async def run() -> None:
        program = await load(g)
        (result,) = await program.forward(np.array([1, 2, 3], dtype))
        assert result.dtype == np.int64
        assert result.tolist() == [-1, -2, -3]

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "array",
    [
        ones(2, 6)[:, ::2],
        np.asfortranarray(ones(2, 3)),
        ones(3, 2).T,
        np.broadcast_to(np.float32(1), (2, 3)),
    ],
)
def test_arrays_of_any_layout(array: np.ndarray, device: str) -> None:
    async def run() -> None:
        program = await load(add_graph(), device=device_of(device))
        (result,) = await program.forward(array, array)
        assert result.shape == (2, 3)
        if device == "numpy":
            assert (result == 2).all()

    wait(run())


@pytest.mark.parametrize("value", [np.float32(3), np.array(3, np.float32)])
def test_numpy_scalars_for_rank_0(value: Any) -> None:
    async def run() -> None:
        program = await load(add_graph(()))
        (result,) = await program.forward(value, value)
        assert isinstance(result, np.ndarray)
        assert (result.shape, float(result)) == ((), 6)

    wait(run())


# What is refused

WRONG_INPUTS: list[tuple[str, list[Any], str]] = [
    (
        "none",
        [],
        "takes 2 inputs .input0: float32 .2, 3.; input1: float32 .2, 3.., but 0 were given",
    ),
    ("one", [ones(2, 3)], "takes 2 inputs .*, but 1 were given"),
    ("three", [ones(2, 3)] * 3, "takes 2 inputs .*, but 3 were given"),
    ("rank", [ones(2, 3), ones(6)], r"input1: float32 \[2, 3\]: rank 2 is needed, not 1: \[6\]"),
    ("size", [ones(2, 3), ones(2, 4)], r"input1: float32 \[2, 3\]: \[2, 4\] was given"),
    ("smaller", [ones(1, 3), ones(2, 3)], r"input0: float32 \[2, 3\]: \[1, 3\] was given"),
    ("empty", [ones(0, 3), ones(0, 3)], r"input0: float32 \[2, 3\]: \[0, 3\] was given"),
    (
        "float64",
        [ones(2, 3, dtype="float64"), ones(2, 3)],
        r"input0: .*: float32 is needed, not float64; convert with array.astype\(np.float32\)",
    ),
    ("int32", [ones(2, 3), ones(2, 3, dtype="int32")], "input1: .*: float32 is needed, not int32"),
    ("bool", [ones(2, 3, dtype="bool"), ones(2, 3)], "input0: .*: float32 is needed, not bool"),
    ("list", [[[1.0] * 3] * 2, ones(2, 3)], "input0: .*: a NumPy array is needed, not a list"),
    ("None", [None, ones(2, 3)], "input0: .*: a NumPy array is needed, not a NoneType"),
    ("float", [ones(2, 3), 1.0], "input1: .*: a NumPy array is needed, not a float"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("inputs", "message"), [row[1:] for row in WRONG_INPUTS], ids=[row[0] for row in WRONG_INPUTS]
)
def test_wrong_inputs_are_refused_and_right_ones_still_work(
    inputs: list[Any], message: str, device: str
) -> None:
    async def run() -> None:
        program = await load(add_graph(), device=device_of(device))
        before = await program.forward(ones(2, 3), ones(2, 3))
        with pytest.raises(errors.InputError, match=rf"method 'forward'.*{message}"):
            await program.forward(*inputs)
        after = await program.forward(ones(2, 3), ones(2, 3))
        np.testing.assert_array_equal(before[0], after[0])
        assert program.stats.executions == 2

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_dynamic_inputs_have_upper_bounds(device: str) -> None:
    async def run() -> None:
        program = await load(add_graph((8, 3), dynamic=True), device=device_of(device))
        for rows in (8, 1, 5, 0, 8):
            (result,) = await program.forward(ones(rows, 3), ones(rows, 3))
            assert result.shape == (rows, 3)
        message = r"input0: float32 \[≤8, ≤3\]: \[9, 3\] was given"
        with pytest.raises(errors.InputError, match=message):
            await program.forward(ones(9, 3), ones(9, 3))
        with pytest.raises(errors.InputError, match="rank 2 is needed, not 3"):
            await program.forward(ones(1, 8, 3), ones(8, 3))
        (result,) = await program.forward(ones(4, 3), ones(4, 3))
        assert result.shape == (4, 3)

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_inside_names_the_step_and_has_its_cause(device: str) -> None:
    async def run() -> None:
        program = await load(add_graph((8, 3), dynamic=True), device=device_of(device))
        with pytest.raises(errors.ExecutionError) as caught:
            await program.forward(ones(4, 3), ones(5, 3))
        assert type(caught.value) is errors.ExecutionError
        assert str(caught.value) == (
            "method 'forward', delegate 0: op 0 (aten.add.Tensor): "
            "shapes [4, 3] and [5, 3] do not broadcast together"
        )
        assert isinstance(caught.value.__cause__, errors.GraphError)
        (result,) = await program.forward(ones(5, 3), ones(5, 3))
        assert result.shape == (5, 3)

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("failure", [ValueError("odd"), KeyError("odd"), errors.GraphError("odd")])
def test_any_error_inside_is_one_execution_error(device: str, failure: Exception) -> None:
    """Whatever goes wrong in there, callers catch one type."""

    def fail_later(args: Any) -> Any:
        if args.tensor("self").dims[0] == 5:
            raise failure
        return [] if device == "recording" else args.array("self")

    async def run() -> None:
        with temporary_op(
            "test.picky.default",
            "self: tensor -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=fail_later if device == "recording" else lambda args: [],
            reference=fail_later,
        ):
            g = GraphWriter()
            x = g.tensor((8,))
            g.inputs(x)
            g.outputs(g.op("test.picky.default", x, g.tensor((8,))))
            g.host(x, dynamic=True)
            program = await load(g, device=device_of(device))
            with pytest.raises(
                errors.ExecutionError, match=r"method 'forward', delegate 0.*odd"
            ) as caught:
                await program.forward(ones(5))
            assert caught.value.__cause__ is not None
            (result,) = await program.forward(ones(3))
            assert result.shape == (3,)

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

    class Slow(RecordingDevice):
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
        device = RecordingDevice()
        with pytest.raises(ZeroDivisionError):
            async with await load(chain(1), device=device):
                raise ZeroDivisionError
        assert device.buffers == {}

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_unsupported_ops_are_reported_all_at_once(device: str) -> None:
    g = GraphWriter()
    value = x = g.tensor((4,))
    for name in ("aten.nope.default", "et.hmm", RELU, "aten.nope.default"):
        value = g.op(name, value, g.tensor((4,)))
    g.inputs(x)
    g.outputs(value)
    m = MethodWriter.of(g)
    z = m.tensor((4,))
    m.kernel("made::up.out", m.output(0), z, z)
    m.outputs(z)

    async def run() -> None:
        used = device_of(device)
        with pytest.raises(errors.UnsupportedOpError) as caught:
            await webpte.load(write_pte(m), device=used, name="odd.pte")
        assert caught.value.ops == {"aten.nope.default": 2, "et.hmm": 1, "made::up.out": 1}
        assert str(caught.value) == (
            "odd.pte: 3 operators not supported by this version of webpte: "
            "aten.nope.default ×2, et.hmm ×1, made::up.out ×1"
        )
        if device == "recording":
            assert used.log == []
        info = (await webpte.inspect(write_pte(m)))["forward"]
        assert info.unsupported == caught.value.ops
        assert info.kernels_outside == {"made::up.out": 1}
        assert info.ops == {"aten.nope.default": 2, "et.hmm": 1, RELU: 1}

    wait(run())


def test_a_foreign_delegate_names_its_backend_and_the_way_out() -> None:
    data = write_pte(chain(1), delegate_id="XnnpackBackend")

    async def run() -> None:
        with pytest.raises(errors.ForeignDelegateError) as caught:
            await webpte.load(data, device="numpy")
        assert "method 'forward' has a delegate compiled for 'XnnpackBackend'" in str(caught.value)
        assert "VulkanPartitioner" in str(caught.value)
        assert (await webpte.inspect(data))["forward"].ops == {}

    wait(run())


@pytest.mark.parametrize("broken", [b"", b"not a program", bytes(100), b"\x00" * 4 + b"ET12"])
def test_bytes_that_are_no_program(broken: bytes) -> None:
    async def run() -> None:
        device = RecordingDevice()
        for action in (webpte.load(broken, device=device), webpte.inspect(broken)):
            with pytest.raises(errors.FormatError, match=r"\(at byte \d+\)$"):
                await action
        assert device.log == []

    wait(run())


def test_an_unknown_device() -> None:
    async def run() -> None:
        with pytest.raises(errors.DeviceError, match="no device is called 'cuda'; there are"):
            await load(chain(1), device="cuda")

    wait(run())


def test_webgpu_needs_a_browser() -> None:
    async def run() -> None:
        with pytest.raises(errors.DeviceError, match=r"needs a browser.*device='numpy'"):
            await load(chain(1), device="webgpu")

    wait(run())


# Sources


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_load_from_memory(kind: Any) -> None:
    async def run() -> None:
        program = await webpte.load(kind(write_pte(chain(1))), device="numpy")
        assert program.name == "bytes"
        (result,) = await program.forward(-ones(4))
        assert result.tolist() == [0] * 4

    wait(run())


@pytest.mark.parametrize("kind", [Path, str])
def test_load_from_a_file(tmp_path: Path, kind: Any) -> None:
    (tmp_path / "tiny.pte").write_bytes(write_pte(chain(1)))

    async def run() -> None:
        program = await webpte.load(kind(tmp_path / "tiny.pte"), device="numpy")
        assert program.name == "tiny.pte"
        assert (await webpte.inspect(kind(tmp_path / "tiny.pte")))["forward"].ops == {RELU: 1}

    wait(run())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(errors.SourceError, match=r"none\.pte: No such file"):
            await webpte.load(tmp_path / "none.pte", device="numpy")

    wait(run())


@pytest.mark.parametrize("source", [None, 5, [b"x"], object()])
def test_a_source_of_the_wrong_type(source: Any) -> None:
    async def run() -> None:
        with pytest.raises(errors.SourceError, match=f"cannot open a {type(source).__name__}"):
            await webpte.load(source, device="numpy")

    wait(run())


def test_progress_and_times() -> None:
    async def run() -> None:
        calls: list[tuple[str, int, int]] = []
        program = await load(chain(1), progress=lambda *call: calls.append(call))
        assert ("read", 1, 1) in calls
        assert {"fetch", "read", "build"} <= program.stats.load_ms.keys()
        assert all(ms >= 0 for ms in program.stats.load_ms.values())

    wait(run())


def test_stats() -> None:
    async def run() -> None:
        device = RecordingDevice()
        program = await load(chain(7), device=device)
        await program.forward(ones(4))
        stats = program.stats
        assert stats.dispatches == 7
        assert stats.pipelines == 1
        assert stats.buffers == len(device.buffers)
        assert stats.buffer_bytes == sum(device.buffers.values())
        assert stats.executions == 1
        assert stats.interop_calls == device.interop_calls
        assert program.device_info.kind == "recording"
        numpy = await load(chain(7))
        assert (numpy.stats.buffers, numpy.stats.interop_calls) == (0, 0)
        assert numpy.device_info.kind == "numpy"

    wait(run())


def test_two_programs_on_one_device() -> None:
    async def run() -> None:
        device = RecordingDevice()
        first = await load(chain(2), device=device)
        buffers = set(device.buffers)
        second = await load(chain(3), device=device)
        assert len(device.pipelines) == 1
        second.close()
        assert set(device.buffers) == buffers
        await first.forward(ones(4))
        first.close()
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
