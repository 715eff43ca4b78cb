"""A delegate on the recording device: what it allocates, hands over, repeats and gives back."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from support.graphs import chain, load, make_delegate, temporary_op, wait
from support.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.gpu.device import PlanCommands
from webpte.gpu.recording import RecordingDevice
from webpte.ops.args import Args
from webpte.ops.records import Dispatch
from webpte.runtime import delegate as delegate_module

RELU, ADD = "aten.relu.default", "aten.add.Tensor"


def ones(*dims: int) -> np.ndarray:
    return np.ones(dims, np.float32)


def names(device: RecordingDevice, since: int = 0) -> list[str]:
    return [name for name, _ in device.log[since:]]


def sent(device: RecordingDevice) -> bytes:
    """The bytes that went up in the last execution."""
    name, detail = device.log[-1]
    assert name == "run"
    payload: bytes = detail[1]  # type: ignore[index]
    return payload


def plans(device: RecordingDevice) -> list[PlanCommands]:
    made = [detail for name, detail in device.log if name == "create_plan"]
    assert all(isinstance(plan, PlanCommands) for plan in made)
    return made  # type: ignore[return-value]


# Static graphs


def test_a_static_graph_repeats_itself() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(chain(5))
        start = len(device.log)
        for _ in range(4):
            await delegate.execute([ones(4)])
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
        await delegate.execute([ones(4)])
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
        device = RecordingDevice()
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
        results = await delegate.execute(values)
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
        await delegate.execute([ones(1000), ones(4)])

    wait(run())


@pytest.mark.parametrize("dtype", ["int64", "float64", "float16"])
def test_outputs_have_the_declared_type(dtype: str) -> None:
    async def run() -> None:
        g = GraphWriter()
        x = g.tensor((3,), dtype)
        g.inputs(x)
        g.outputs(g.op(RELU, x, g.tensor((3,), dtype)))
        delegate, device = await make_delegate(g)
        (result,) = await delegate.execute([np.array([1, 2, 3], dtype)])
        assert result.dtype == np.dtype(dtype)
        payload = sent(device)
        stored = np.int32 if dtype == "int64" else np.float32
        assert payload[:12] == np.array([1, 2, 3], stored).tobytes()

    wait(run())


def test_the_wrong_number_of_inputs() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(chain(1))
        with pytest.raises(errors.ExecutionError, match="takes 1 inputs, not 2"):
            await delegate.execute([ones(4), ones(4)])

    wait(run())


def test_each_of_several_executions_at_once_has_its_own_bytes() -> None:
    class Echo(RecordingDevice):
        def run(self, plan: int, payload: np.ndarray, *rest: Any, **more: Any) -> Any:
            super().run(plan, payload, *rest, **more).close()  # type: ignore[attr-defined]
            taken = payload.tobytes()

            async def later() -> bytes:
                await asyncio.sleep(0)
                return taken

            return later()

    async def run() -> None:
        delegate, _ = await make_delegate(chain(1), Echo())
        inputs = [np.full(4, value, np.float32) for value in range(8)]
        results = await asyncio.gather(*(delegate.execute([x]) for x in inputs))
        for x, (result,) in zip(inputs, results, strict=True):
            np.testing.assert_array_equal(result, x)

    wait(run())


# Dynamic graphs


def dynamic() -> GraphWriter:
    """x [<=8, 3] -> relu -> + y [<=8, 3]."""
    g = GraphWriter()
    x, y = g.tensor((8, 3)), g.tensor((8, 3))
    a = g.op(RELU, x, g.tensor((8, 3)))
    out = g.op(ADD, a, y, g.int(1), g.tensor((8, 3)))
    g.inputs(x, y)
    g.outputs(out)
    return g


def pair(rows: int) -> list[np.ndarray]:
    return [ones(rows, 3), ones(rows, 3)]


def test_shrink_and_grow() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        for rows in (8, 3, 1, 0, 7, 8):
            (result,) = await delegate.execute(pair(rows))
            assert result.shape == (rows, 3)
        sizes = [[u.nbytes for u in plan.uploads] for plan in plans(device)]
        assert sizes == [[96, 96], [48, 48], [16, 16], [], [96, 96]], "only live bytes go up"
        assert [len(plan.dispatches) for plan in plans(device)] == [2, 2, 2, 0, 2]
        assert names(device).count("create_buffers") == 2, "no reallocation"

    wait(run())


def test_plans_are_kept_by_shape() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        for rows in (8, 3, 5):
            await delegate.execute(pair(rows))
        lowerings, start = delegate.lowerings, len(device.log)
        for rows in (3, 8, 5, 3, 3, 8):
            await delegate.execute(pair(rows))
        assert delegate.lowerings == lowerings
        assert names(device, start) == ["run"] * 6
        used = [detail[0] for name, detail in device.log if name == "run"]  # type: ignore[index]
        assert used == [used[i] for i in (0, 1, 2)] + [used[i] for i in (1, 0, 2, 1, 1, 0)]

    wait(run())


def test_hooks_fire_once_per_change() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(dynamic())
        await delegate.execute(pair(8))
        assert delegate.hooks_fired == 0
        await delegate.execute(pair(3))
        assert delegate.hooks_fired == 2
        await delegate.execute(pair(3))
        assert delegate.hooks_fired == 2

    wait(run())


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ([ones(9, 3), ones(9, 3)], errors.ResizeError),
        ([ones(4, 3), ones(5, 3)], errors.GraphError),
        ([ones(4), ones(4, 3)], errors.ResizeError),
        ([ones(4, 3)], errors.ExecutionError),
    ],
)
@pytest.mark.parametrize("rows_before", [8, 2])
def test_a_failed_resize_leaves_the_delegate_usable(
    inputs: list[np.ndarray], error: type[Exception], rows_before: int
) -> None:
    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        await delegate.execute(pair(rows_before))
        wanted = device.log[-1]
        with pytest.raises(error):
            await delegate.execute(inputs)
        (result,) = await delegate.execute(pair(rows_before))
        assert result.shape == (rows_before, 3)
        assert device.log[-1] == wanted
        (result,) = await delegate.execute(pair(6))
        assert result.shape == (6, 3)
        assert len(plans(device)[-1].dispatches) == 2
        assert plans(device)[-1].result_bytes == 80

    wait(run())


@pytest.mark.parametrize("failure", [errors.GraphError, ValueError, KeyError, ZeroDivisionError])
def test_a_failed_lowering_leaves_the_delegate_usable(failure: type[Exception]) -> None:
    """Also if the error is not one of ours."""

    def lower(args: Args) -> list[Any]:
        if args.tensor("self").dims[0] == 5:
            raise failure("five is too many")
        return []

    async def run() -> None:
        with temporary_op(
            "test.picky.default",
            "self: tensor -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=lower,
        ):
            g = GraphWriter()
            x = g.tensor((8, 3))
            a = g.op(RELU, x, g.tensor((8, 3)))
            b = g.op("test.picky.default", a, g.tensor((8, 3)))
            out = g.op("aten.neg.default", b, g.tensor((8, 3)))
            g.inputs(x)
            g.outputs(out)
            delegate, device = await make_delegate(g)
            await delegate.execute([ones(8, 3)])
            with pytest.raises(failure, match="five is too many"):
                await delegate.execute([ones(5, 3)])
            with pytest.raises(failure, match="five is too many"):
                await delegate.execute([ones(5, 3)])
            for rows in (8, 4):
                (result,) = await delegate.execute([ones(rows, 3)])
                assert result.shape == (rows, 3)
                grids = [d.grid for d in plans(device)[-1].dispatches]
                assert len(grids) == 2

    wait(run())


def test_a_plan_that_cannot_be_made_leaves_the_delegate_usable() -> None:
    class Full(RecordingDevice):
        full = False

        async def create_plan(self, commands: PlanCommands) -> int:
            if self.full:
                raise errors.OutOfMemoryError("no room for another plan")
            return await super().create_plan(commands)

    async def run() -> None:
        delegate, device = await make_delegate(dynamic(), Full())
        assert isinstance(device, Full)
        await delegate.execute(pair(8))
        device.full = True
        with pytest.raises(errors.OutOfMemoryError):
            await delegate.execute(pair(2))
        (result,) = await delegate.execute(pair(8))
        assert result.shape == (8, 3)
        device.full = False
        (result,) = await delegate.execute(pair(2))
        assert result.shape == (2, 3)
        assert [u.nbytes for u in plans(device)[-1].uploads] == [32, 32]

    wait(run())


def test_the_number_of_plans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 3)

    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        for rows in (8, 1, 2, 3, 4, 5, 6, 7, 8):
            (result,) = await delegate.execute(pair(rows))
            assert result.shape == (rows, 3)
            assert len(device.plans) <= 3
        delegate.close()
        assert device.plans == {}

    wait(run())


def test_a_plan_in_use_is_not_the_one_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding goes back to one shape between prompts of many lengths: it is never planned anew."""
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 3)

    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        await delegate.execute(pair(1))
        for rows in (2, 3, 4, 5, 6, 7):
            await delegate.execute(pair(rows))
            start = len(device.log)
            await delegate.execute(pair(1))
            assert names(device, start) == ["run"]

    wait(run())


def test_a_failed_call_does_not_go_back_to_a_plan_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 2)

    def lower(args: Args) -> list[Any]:
        return [*args.bound("pos", 0, 9, "the cache holds 10")]

    async def run() -> None:
        with temporary_op(
            "test.cache.default",
            "self: tensor, pos: live -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=lower,
        ):
            g = GraphWriter()
            x, position, pos = g.tensor((8, 3)), g.tensor((1,), "int64"), g.symint(0)
            g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
            a = g.op(RELU, x, g.tensor((8, 3)))
            out = g.op("test.cache.default", a, pos, g.tensor((8, 3)))
            g.inputs(x, position)
            g.outputs(out)
            delegate, _ = await make_delegate(g)

            def inputs(rows: int, at: int) -> list[np.ndarray]:
                return [ones(rows, 3), np.array([at])]

            await delegate.execute(inputs(8, 0))
            await delegate.execute(inputs(2, 0))
            await delegate.execute(inputs(8, 0))
            with pytest.raises(errors.ResizeError, match="the cache holds 10: 10 is not in 0 to 9"):
                await delegate.execute(inputs(5, 10))
            (result,) = await delegate.execute(inputs(8, 9))
            assert result.shape == (8, 3)

    wait(run())


# SymInts


def test_a_position_goes_up_with_the_inputs_and_lowers_nothing() -> None:
    async def run() -> None:
        g = GraphWriter()
        x, position = g.tensor((4,)), g.tensor((1,), "int64")
        pos, following = g.symint(0), g.symint(1)
        g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
        g.op("add", pos, g.int(1), following)
        out = g.op(RELU, x, g.tensor((4,)))
        g.inputs(x, position)
        g.outputs(out)
        delegate, device = await make_delegate(g)
        lowerings, made = delegate.lowerings, len(device.plans)
        for at in (0, 5, 6, 6, -3):
            await delegate.execute([ones(4), np.array([at])])
            payload = sent(device)
            block = np.frombuffer(payload, np.int32)[-128:].reshape(2, 64)
            assert block[:, 0].tolist() == [at, at + 1]
        assert delegate.lowerings == lowerings
        assert len(device.plans) == made

    wait(run())


def test_a_symint_that_does_not_fit_leaves_the_delegate_usable() -> None:
    async def run() -> None:
        g = GraphWriter()
        x, position = g.tensor((6, 2)), g.tensor((1,), "int64")
        n = g.symint(6)
        g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), n)
        v = g.op("aten.view_copy.default", x, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
        rows = g.symint(6)
        g.op("sym_size.int", v, g.int(0), rows)
        out = g.op("aten.view_copy.default", v, g.value_list([g.int(-1), rows]), g.tensor((12, 12)))
        g.inputs(x, position)
        g.outputs(out)
        delegate, _ = await make_delegate(g)

        async def shape(n: int) -> tuple[int, ...]:
            (result,) = await delegate.execute([ones(6, 2), np.array([n])])
            return result.shape

        assert await shape(3) == (4, 3)
        assert await shape(4) == (3, 4)
        for wrong in (5, 2**40, 0):
            with pytest.raises(errors.WebpteError):
                await shape(wrong)
            assert await shape(4) == (3, 4)
        assert await shape(12) == (1, 12)

    wait(run())


def test_a_failed_call_keeps_sizes_and_symints_together() -> None:
    """The plan stays the same while a SymInt moves a view's dims; then a call fails."""

    async def run() -> None:
        g = GraphWriter()
        x, position = g.tensor((12,)), g.tensor((2,), "int64")
        n, m = g.symint(3), g.symint(0)
        for at, symint in enumerate((n, m)):
            g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(at), symint)
        v = g.op("aten.view_copy.default", x, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
        flat = g.op("aten.view_copy.default", v, g.int_list([-1]), g.tensor((12,)))
        # Reads the live dims of v only when m changes.
        with temporary_op(
            "test.peek.default",
            "self: tensor, m: int -> tensor",
            shape=lambda args: [args.tensor("self").dims if args.integer("m") else (1, 1)],
            lower=lambda args: [],
        ):
            out = g.op("test.peek.default", v, m, g.tensor((12, 12)))
            g.inputs(x, position)
            g.outputs(out, flat)
            delegate, _ = await make_delegate(g)

            async def shape(n: int, m: int) -> tuple[int, ...]:
                result, _ = await delegate.execute([ones(12), np.array([n, m])])
                return result.shape

            assert await shape(3, 0) == (1, 1)
            assert await shape(4, 0) == (1, 1)
            with pytest.raises(errors.GraphError):
                await shape(5, 0)
            assert await shape(4, 1) == (4, 3)

    wait(run())


# Giving back


def test_close_gives_everything_back_and_can_be_called_again() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        for rows in (8, 3):
            await delegate.execute(pair(rows))
        assert device.buffers
        assert len(device.plans) == 2
        delegate.close()
        assert device.buffers == {}
        assert device.plans == {}
        assert delegate.buffers == delegate.buffer_bytes == 0
        count = len(device.log)
        delegate.close()
        assert len(device.log) == count

    wait(run())


def test_counters_tell_what_is_allocated() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(dynamic())
        assert delegate.buffers == len(device.buffers)
        assert delegate.buffer_bytes == sum(device.buffers.values())

    wait(run())


@pytest.mark.parametrize("limit", [0, 100, 250, 1000])
def test_too_little_memory_frees_what_there_was(limit: int) -> None:
    """The limit strikes at the slots, or at the page for params: nothing stays either way."""

    async def run() -> None:
        device = RecordingDevice(memory_limit=limit)
        with pytest.raises(errors.OutOfMemoryError):
            await make_delegate(dynamic(), device)
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
        device = RecordingDevice()
        monkeypatch.setattr(device, method, fail)
        with pytest.raises(errors.DeviceLostError):
            await make_delegate(dynamic(), device)
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
        m.delegate(chain(3, dims=(1000,)), [y, z])
        m.outputs(z)
        return m

    async def run() -> None:
        device = RecordingDevice(memory_limit=64 * 1024 + 10_000)
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
            device = RecordingDevice()
            with pytest.raises(errors.GraphError, match="has 3 bindings, the record fills 2"):
                await make_delegate(g, device)
            assert device.buffers == {}

    wait(run())
