"""A delegate on the recording device: buffers, plans, repeated calls, and freed memory."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import ADD, RELU, names, ones, pair, plans, resizable, sent
from support.graphs.graphs import chain, load, make_delegate, temporary_op, wait
from support.write.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.run.request import RunRequest

# Static graphs


def test_a_static_graph_repeats_itself() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(5))
        start = len(device.log)
        for _ in range(4):
            await delegate.run(RunRequest([ones(4)]))
        entries = device.log[start:]
        assert [name for name, _ in entries] == ["run"] * 4
        assert all(entry == entries[0] for entry in entries), "the same plan, the same bytes"
        assert delegate.hooks_fired == 0
        assert delegate.executions == 4

    wait(run())


@pytest.mark.parametrize("count", [10, 500])
def test_executions_cross_over_as_often_for_10_ops_as_for_500(count: int) -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(count))
        assert delegate.dispatches == count
        before = device.interop_calls
        await delegate.run(RunRequest([ones(4)]))
        assert device.interop_calls - before == 1

    wait(run())


def test_building_crosses_over_as_often_for_10_ops_as_for_500() -> None:
    async def calls(count: int) -> int:
        _, device = await make_delegate(chain(count))
        return device.interop_calls

    assert wait(calls(10)) == wait(calls(500))


def test_one_pipeline_and_one_block_for_500_equal_ops() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(500))
        assert delegate.pipelines == len(device.pipelines) == 1
        (plan,) = plans(device)
        assert len(plan.dispatches) == 500
        assert len({d.pipeline for d in plan.dispatches}) == 1
        assert len({d.resources[-1] for d in plan.dispatches}) == 1
        (write,) = (detail for name, detail in device.log if name == "write")
        assert write[2] == 256  # type: ignore[index]

    wait(run())


def test_different_params_go_up_in_one_write() -> None:
    async def run() -> None:
        g = GraphWriter()
        value = x = g.tensor((4,))
        for at in range(40):
            value = g.op("aten.leaky_relu.default", value, g.double(at / 8), g.tensor((4,)))
        g.inputs(x)
        g.outputs(value)
        delegate, device = await make_delegate(g)
        assert names(device).count("write") == 1
        assert delegate.pipelines == 1
        (plan,) = plans(device)
        blocks = [d.resources[-1] for d in plan.dispatches]
        assert len({block.offset for block in blocks}) == 40
        assert all(block.offset % 256 == 0 for block in blocks)
        assert len({block.buffer for block in blocks}) == 1

    wait(run())


def test_many_params_take_several_pages() -> None:
    async def run() -> None:
        g = GraphWriter()
        value = x = g.tensor((4,))
        for at in range(600):
            value = g.op("aten.leaky_relu.default", value, g.double(at / 8), g.tensor((4,)))
        g.inputs(x)
        g.outputs(value)
        delegate, device = await make_delegate(g)
        (plan,) = plans(device)
        blocks = [d.resources[-1] for d in plan.dispatches]
        assert len(set(blocks)) == 600
        assert names(device).count("write") == len({block.buffer for block in blocks}) == 3
        assert all(b.offset + b.nbytes <= device.buffers[b.buffer] for b in blocks)
        delegate.close()
        assert device.buffers == {}

    wait(run())


def test_no_dispatch_reads_and_writes_one_buffer() -> None:
    async def run() -> None:
        _, device = await make_delegate(chain(20))
        (plan,) = plans(device)
        for dispatch in plan.dispatches:
            *reads, write, _params = dispatch.resources
            assert write.buffer not in {read.buffer for read in reads}

    wait(run())


@pytest.mark.parametrize("name", [ADD, "aten.mul.Tensor"])
def test_an_op_that_writes_over_its_input_does_not_load(name: str) -> None:
    """WebGPU would refuse the dispatch: one buffer, read and written."""

    async def run() -> None:
        g = GraphWriter()
        x, y = g.tensor((4,)), g.tensor((4,))
        extra = [g.int(1)] if name == ADD else []
        g.op(name, x, y, *extra, x)
        g.inputs(x, y)
        g.outputs(x)
        device = SimulatedDevice()
        with pytest.raises(errors.GraphError, match=rf"op 0 \({name}\)"):
            await make_delegate(g, device)
        assert device.buffers == {}

    wait(run())


# Inputs and outputs


def test_inputs_go_up_packed_and_padded() -> None:
    async def run() -> None:
        g = GraphWriter()
        x, flags = g.tensor((3,)), g.tensor((5,), "bool")
        out = g.op("aten.logical_not.default", flags, g.tensor((5,), "bool"))
        other = g.op(RELU, x, g.tensor((3,)))
        g.inputs(x, flags)
        g.outputs(out, other)
        delegate, device = await make_delegate(g)
        (plan,) = plans(device)
        assert [(u.payload_offset, u.nbytes) for u in plan.uploads] == [(0, 16), (16, 16)]
        assert [(r.result_offset, r.nbytes) for r in plan.readbacks] == [(0, 16), (16, 16)]
        assert plan.result_bytes == 32
        values = np.array([1, 2, 3], np.float32), np.array([True, False, True, True, False])
        results = await delegate.run(RunRequest(values))
        payload = sent(device)
        assert payload[:12] == values[0].tobytes()
        assert payload[16:21] == values[1].tobytes()
        assert [(r.shape, str(r.dtype)) for r in results] == [((5,), "bool"), ((3,), "float32")]

    wait(run())


def test_an_unused_input_is_not_uploaded() -> None:
    async def run() -> None:
        g = GraphWriter()
        x, unused = g.tensor((4,)), g.tensor((1000,))
        out = g.op(RELU, x, g.tensor((4,)))
        g.inputs(unused, x)
        g.outputs(out)
        delegate, device = await make_delegate(g)
        (plan,) = plans(device)
        assert [u.nbytes for u in plan.uploads] == [16]
        await delegate.run(RunRequest([ones(1000), ones(4)]))

    wait(run())


@pytest.mark.parametrize("dtype", ["int64", "float64", "float16"])
def test_outputs_have_the_declared_type(dtype: str) -> None:
    async def run() -> None:
        g = GraphWriter()
        x = g.tensor((3,), dtype)
        g.inputs(x)
        g.outputs(g.op(RELU, x, g.tensor((3,), dtype)))
        delegate, device = await make_delegate(g)
        (result,) = await delegate.run(RunRequest([np.array([1, 2, 3], dtype)]))
        assert result.dtype == np.dtype(dtype)
        payload = sent(device)
        stored = np.int32 if dtype == "int64" else np.float32
        assert payload[:12] == np.array([1, 2, 3], stored).tobytes()

    wait(run())


def test_the_wrong_number_of_inputs() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(chain(1))
        with pytest.raises(errors.ExecutionError, match="takes 1 inputs, not 2"):
            await delegate.run(RunRequest([ones(4), ones(4)]))

    wait(run())


def test_each_of_several_executions_at_once_has_its_own_bytes() -> None:
    class Echo(SimulatedDevice):
        def run(self, run: PlanRun) -> Any:
            super().run(run).close()  # type: ignore[attr-defined]
            taken = run.payload.tobytes()

            async def later() -> bytes:
                await asyncio.sleep(0)
                return taken

            return later()

    async def run() -> None:
        delegate, _ = await make_delegate(chain(1), Echo())
        inputs = [np.full(4, value, np.float32) for value in range(8)]
        results = await asyncio.gather(*(delegate.run(RunRequest([x])) for x in inputs))
        for x, (result,) in zip(inputs, results, strict=True):
            np.testing.assert_array_equal(result, x)

    wait(run())


# Giving back


def test_close_gives_everything_back_and_can_be_called_again() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        for rows in (8, 3):
            await delegate.run(RunRequest(pair(rows)))
        assert device.buffers
        assert len(device.plans) == 2
        delegate.close()
        assert device.buffers == {}
        assert device.plans == {}
        assert delegate.allocated == {}
        count = len(device.log)
        delegate.close()
        assert len(device.log) == count

    wait(run())


def test_counters_tell_what_is_allocated() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        assert delegate.allocated == device.buffers

    wait(run())


@pytest.mark.parametrize("limit", [0, 100, 250, 1000])
def test_too_little_memory_frees_what_there_was(limit: int) -> None:
    """The limit strikes at the slots, or at the page for params: nothing stays either way."""

    async def run() -> None:
        device = SimulatedDevice(memory_limit=limit)
        with pytest.raises(errors.OutOfMemoryError):
            await make_delegate(resizable(), device)
        assert device.buffers == {}
        assert device.plans == {}

    wait(run())


@pytest.mark.parametrize("method", ["create_pipelines", "transfer", "create_plan", "write"])
def test_any_failure_while_building_frees_what_there_was(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise errors.DeviceLostError("gone")

    async def run() -> None:
        device = SimulatedDevice()
        monkeypatch.setattr(device, method, fail)
        with pytest.raises(errors.DeviceLostError):
            await make_delegate(resizable(), device)
        assert device.buffers == {}
        assert device.plans == {}

    wait(run())


def test_a_second_delegate_that_fails_frees_the_first() -> None:
    def method() -> MethodWriter:
        m = MethodWriter()
        graph = chain(2, dims=(1000,))
        x, y, z = m.tensor((1000,)), m.tensor((1000,)), m.tensor((1000,))
        m.inputs(x)
        m.delegate(graph, [x, y])
        summed = m.tensor((1000,))
        m.kernel("aten::logcumsumexp.out", y, 0, summed, summed)  # on the host, so there are two
        m.delegate(chain(3, dims=(1000,)), [summed, z])
        m.outputs(z)
        return m

    async def run() -> None:
        device = SimulatedDevice(memory_limit=64 * 1024 + 10_000)
        with pytest.raises(errors.OutOfMemoryError):
            await load(method(), device=device)
        assert "create_plan" in names(device), "the first was built"
        assert device.buffers == {}
        assert device.plans == {}

    wait(run())


def test_a_shader_that_does_not_match_its_record() -> None:
    async def run() -> None:
        with temporary_op(
            "test.wrong.default",
            "self: tensor -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=lambda args: [Dispatch("view", (args.out.id,), b"", (1, 1, 1))],
        ):
            g = GraphWriter()
            x = g.tensor((4,))
            g.inputs(x)
            g.outputs(g.op("test.wrong.default", x, g.tensor((4,))))
            device = SimulatedDevice()
            with pytest.raises(errors.GraphError, match="has 3 bindings, the record fills 2"):
                await make_delegate(g, device)
            assert device.buffers == {}

    wait(run())
