"""Nothing half-done: calls that fail change no plans, shapes or state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.devices.recorded import ADD, RELU, names, ones
from support.graphs.graphs import load, make_delegate, temporary_op, wait
from support.graphs.turns import MOST_TURNS, lookup, nothing_left, outcome, turns
from support.write.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run import delegate as delegate_module
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest
from webpte.llm.decode.decoder import decoder_of
from webpte.program import build_of


def counting(extra: Callable[[GraphWriter, Any], Any] | None = None) -> GraphWriter:
    """Adds x to a buffer and returns its new value; `extra` adds more outputs."""
    g = GraphWriter()
    x = g.tensor((2,))
    kept = g.prepack(g.tensor((2,), constant=np.zeros(2, np.float32)))
    new = g.op(ADD, kept, x, g.int(1), g.tensor((2,)))
    g.op("aten.alias_copy.default", new, kept)
    g.inputs(x)
    g.outputs(new, *([] if extra is None else [extra(g, new)]))
    return g


# Calls that fail


@pytest.mark.parametrize("saves", [False, True])
def test_state_that_could_not_be_put_back_is_before_anything_else_happens(saves: bool) -> None:
    """Before the next call, and before the next copy of it, which would be of the wrong one."""

    async def run() -> None:
        delegate, device = await make_delegate(counting())
        await delegate.run(RunRequest([ones(2)]))
        restore = await delegate.save_state()
        await delegate.run(RunRequest([ones(2)]))
        device.inject(errors.DeviceError, method="copy")
        restore()
        if saves:
            again = await delegate.save_state()
            await delegate.run(RunRequest([ones(2)]))
            again()
        (state,) = await delegate.run(RunRequest([0 * ones(2)]))
        np.testing.assert_array_equal(state, ones(2))

    wait(run())


def test_failed_calls_leave_no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 3)

    async def run() -> None:
        delegate, device = await make_delegate(lookup(64))
        good = np.zeros(64, np.int32)
        await delegate.run(RunRequest([good]))
        before = dict(device.buffers)
        for rows in range(1, 9):
            with pytest.raises(errors.IndexRangeError):
                await delegate.run(RunRequest([np.full(rows, 99, np.int32)]))
        assert len(device.plans) == 1
        assert device.buffers == before
        (rows_0,) = await delegate.run(RunRequest([good]))
        assert rows_0.shape == (64, 2)

    wait(run())


def test_a_failed_first_call_forgets_no_step() -> None:
    """Steps that only the first call can lower are lowered by the first that succeeds."""
    g = GraphWriter()
    x, sizes = g.tensor((6, 2)), g.tensor((2,), "int64")
    n, m = g.symint(0), g.symint(0)
    for at, symint in enumerate((n, m)):
        g.op("et_vk.select_as_symint.default", sizes, g.int(0), g.int(at), symint)
    flat = g.op(RELU, x, g.tensor((6, 2)))
    views = [
        g.op("aten.view_copy.default", flat, g.value_list([s, g.int(-1)]), g.tensor((12, 12)))
        for s in (n, m)
    ]
    g.inputs(x, sizes)
    g.outputs(*(g.op("aten.exp.default", view, g.tensor((12, 12))) for view in views))

    async def run() -> None:
        delegate, _ = await make_delegate(g)
        for bad in ((3, 5), (0, 4)):
            with pytest.raises(errors.GraphError, match="12 elements do not fill"):
                await delegate.run(RunRequest([ones(6, 2), np.array(bad)]))
        first, second = await delegate.run(RunRequest([ones(6, 2), np.array([3, 4])]))
        assert (first.shape, second.shape) == ((3, 4), (4, 3))
        assert np.allclose(first, np.e)
        assert np.allclose(second, np.e)

    wait(run())


def test_after_a_failed_call_the_last_shape_is_still_the_live_one() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(lookup(8))
        await delegate.run(RunRequest([np.arange(3, dtype=np.int32)]))
        plans = len(device.plans)
        with pytest.raises(errors.IndexRangeError):
            await delegate.run(RunRequest([np.full(5, 99, np.int32)]))
        (out,) = await delegate.run(RunRequest([np.arange(3, dtype=np.int32)]))
        assert out[:, 0].tolist() == [0, 1, 2]
        assert len(device.plans) == plans

    wait(run())


@pytest.mark.parametrize("method", ["create_buffers", "create_plan", "create_pipelines", "write"])
def test_a_shape_that_could_not_be_prepared_can_be_tried_again(method: str) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(summing(), device=device)
        delegate = build_of(program).methods["forward"].only_delegate
        assert isinstance(delegate, GpuDelegate)
        delegate.plans.clear()  # whose scratch memory others would use
        before = device.counts()
        device.inject(errors.OutOfMemoryError, method=method)
        with pytest.raises(errors.OutOfMemoryError, match="injected"):
            await program.forward(ones(3, 100_000))
        left = device.counts()
        assert (left["plans"], left["buffers"]) == (before["plans"], before["buffers"])
        (out,) = await program.forward(ones(3, 100_000))
        assert out.tolist() == [100_000] * 3
        program.close()
        assert nothing_left(device)

    wait(run())


def summing() -> GraphWriter:
    """Sums rows of up to 64 by 100,000: large ones in parts, which takes scratch memory."""
    g = GraphWriter()
    x, out = g.tensor((64, 100_000)), g.tensor((64,))
    g.op("aten.sum.dim_IntList", x, g.int_list([1]), g.bool_(False), g.null(), out)
    g.inputs(x)
    g.outputs(out)
    for value in (x, out):
        g.host(value, dynamic=True)
    return g


def test_memory_of_forgotten_shapes_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 4)

    async def run() -> None:
        delegate, device = await make_delegate(summing())
        seen = []
        for rows in range(1, 33):
            await delegate.run(RunRequest([np.broadcast_to(np.float32(1), (rows, 100_000))]))
            seen.append(len(device.buffers))
        assert max(seen[8:]) <= max(seen[:8]) + 1, "as many as a few shapes need"
        delegate.close()
        assert nothing_left(device)

    wait(run())


def test_params_of_forgotten_shapes_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 2)

    async def run() -> None:
        g = GraphWriter()
        value = x = g.tensor((400,))
        for at in range(100):
            value = g.op("aten.leaky_relu.default", value, g.double(at / 8), g.tensor((400,)))
        g.inputs(x)
        g.outputs(value)
        delegate, device = await make_delegate(g)
        sizes = []
        for length in range(1, 40):
            (out,) = await delegate.run(RunRequest([ones(length)]))
            assert out.tolist() == [1] * length
            sizes.append(sum(device.buffers.values()))
        assert max(sizes) == max(sizes[:4])
        (out,) = await delegate.run(RunRequest([-ones(400)]))
        assert (out == 0).all(), "the first slope is 0"

    wait(run())


def test_strict_holds_for_every_shape() -> None:
    def lower(args: Any) -> Any:
        if args.tensor("self").dims[0] == 5:
            raise errors.UnsupportedError("five has no kernel")
        return []

    async def run() -> None:
        g = GraphWriter()
        x, out = g.tensor((8, 3)), g.tensor((8, 3))
        g.op("test.picky.default", x, out)
        g.inputs(x)
        g.outputs(out)
        for value in (x, out):
            g.host(value, dynamic=True)
        program = await load(g, device=SimulatedDevice(), strict=True)
        await program.forward(ones(4, 3))
        with pytest.raises(errors.UnsupportedOpError, match=r"strict=True.*test\.picky") as caught:
            await program.forward(ones(5, 3))
        assert str(caught.value).startswith("method 'forward', delegate 0: ")
        assert caught.value.ops == {"test.picky.default": 1}
        await program.forward(ones(4, 3))
        assert {placement.where for placement in program.report} == {"gpu"}

    shape = lambda args: [args.tensor("self").dims]  # noqa: E731
    with temporary_op("test.picky.default", "self: tensor -> tensor", shape=shape, lower=lower):
        wait(run())


# State


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_failed_call_does_not_change_state(device: str) -> None:
    """The buffer is written before the step that fails, on the host or by an index on the GPU."""
    calls = {"fail": False}

    def reference(args: Any) -> Any:
        if calls["fail"]:
            raise errors.GraphError("this one fails")
        return args.array("self")

    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    async def run() -> None:
        target: Any = SimulatedDevice() if device == "recording" else device
        program = await load(
            counting(lambda g, new: g.op("test.host.default", new, g.tensor((2,)))), device=target
        )
        for expected in (1, 2):
            assert (await program.forward(ones(2)))[0].tolist() == [expected] * 2
        calls["fail"] = True
        for _ in range(2):
            with pytest.raises(errors.ExecutionError, match="this one fails"):
                await program.forward(ones(2))
        calls["fail"] = False
        assert (await program.forward(ones(2)))[0].tolist() == [3, 3]
        program.close()

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": reference,
    }
    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        wait(run())


def test_state_that_could_not_be_put_back_is_put_back_by_the_next_call() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(rows_of_state(), device=device)
        await program.forward(np.array([1, 0], np.int32))
        failing = asyncio.ensure_future(program.forward(np.array([5, 0], np.int32)))
        start = len(device.log)
        while "run" not in names(device, start):
            await asyncio.sleep(0)
        for _ in range(2):
            device.inject(method="copy")
        with pytest.raises(errors.IndexRangeError, match="an index is out of range"):
            await failing
        with pytest.raises(errors.DeviceError, match="injected"):
            await program.forward(np.array([1, 0], np.int32))
        (now,) = await program.forward(np.array([1, 0], np.int32))
        assert now.tolist() == [[2], [0]]

    wait(run())


def test_a_cancelled_call_that_can_fail_late_does_not_change_state() -> None:
    async def run() -> None:
        program = await load(rows_of_state(), device=SimulatedDevice(pauses=lambda: 6))
        one, none = np.array([1, 0], np.int32), np.zeros(2, np.int32)
        await program.forward(one)
        for count in range(MOST_TURNS):
            going = asyncio.ensure_future(program.forward(one))
            await turns(count)
            going.cancel()
            ended = isinstance(await outcome(going), tuple)
            (now,) = await program.forward(none)
            assert now.tolist() == [[1 + ended], [0]], count
            if ended:
                break
        assert 4 < count < MOST_TURNS - 1

    wait(run())


def rows_of_state() -> GraphWriter:
    """Adds x to a buffer, and looks up rows by that: the GPU alone knows the indices."""
    g = GraphWriter()
    x = g.tensor((2,), "int32")
    table = g.prepack(g.tensor((3, 1), constant=np.arange(3, dtype=np.float32).reshape(3, 1)))
    kept = g.prepack(g.tensor((2,), "int32", constant=np.zeros(2, np.int32)))
    new = g.op(ADD, kept, x, g.int(1), g.tensor((2,), "int32"))
    g.op("aten.alias_copy.default", new, kept)
    g.inputs(x)
    g.outputs(g.op("aten.embedding.default", table, new, g.tensor((2, 1))))
    return g


@pytest.mark.parametrize("way", ["run", "argmax", "unread", "gpu"])
def test_an_index_that_only_the_gpu_sees_does_not_change_state(way: str) -> None:
    async def call(program: webpte.Program, *inputs: np.ndarray) -> Any:
        if way == "argmax":
            return await run_argmax(program, "forward", *inputs)
        if way == "unread":
            return await decoder_of(program, "forward").run_unread(inputs)
        return await program.forward(*inputs, output="gpu" if way == "gpu" else "numpy")

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(rows_of_state(), device=device)
        one, five = np.array([1, 0], np.int32), np.array([5, 0], np.int32)
        await call(program, one)
        results = await asyncio.gather(
            *(outcome(call(program, x)) for x in (five, one, five)), return_exceptions=True
        )
        kinds = [isinstance(result, errors.ExecutionError) for result in results]
        assert kinds == [True, False, True], results
        (now,) = await program.forward(np.zeros(2, np.int32))
        assert now.tolist() == [[2], [0]]
        program.close()
        assert nothing_left(device)

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_step_that_fails_takes_back_what_earlier_delegates_wrote(device: str) -> None:
    async def run() -> None:
        method = MethodWriter()
        x, sums, index, row = (method.tensor((2,), d) for d in ("float32",) * 2 + ("int32",) * 2)
        out = method.tensor((2, 2))
        method.inputs(x, index)
        method.delegate(counting(), [x, sums])
        method.kernel("aten::neg.out", index, row, row)
        method.delegate(lookup(2), [row, out])
        method.outputs(sums, out)
        target: Any = SimulatedDevice() if device == "recording" else device
        program = await load(method, device=target)
        good, bad = np.zeros(2, np.int32), np.full(2, 50, np.int32)
        await program.forward(ones(2), good)
        with pytest.raises(errors.ExecutionError):
            await program.forward(ones(2), bad)
        sums_now, _ = await program.forward(ones(2), good)
        assert sums_now.tolist() == [2, 2]

    wait(run())
