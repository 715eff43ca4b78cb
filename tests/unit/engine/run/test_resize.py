"""Delegates at many shapes: plans are kept, and a call that fails changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.devices.recorded import RELU, names, ones, pair, plans, resizable
from support.graphs.graphs import make_delegate, temporary_op, wait
from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.device import PlanCommands
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.args import Args
from webpte.engine.run import delegate as delegate_module
from webpte.engine.run.request import RunRequest


def test_shrink_and_grow() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        for rows in (8, 3, 1, 0, 7, 8):
            (result,) = await delegate.run(RunRequest(pair(rows)))
            assert result.shape == (rows, 3)
        sizes = [[u.nbytes for u in plan.uploads] for plan in plans(device)]
        assert sizes == [[96, 96], [48, 48], [16, 16], [], [96, 96]], "only live bytes go up"
        assert [len(plan.dispatches) for plan in plans(device)] == [2, 2, 2, 0, 2]
        assert names(device).count("create_buffers") == 2, "no reallocation"

    wait(run())


def test_plans_are_kept_by_shape() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        for rows in (8, 3, 5):
            await delegate.run(RunRequest(pair(rows)))
        lowerings, start = delegate.lowerings, len(device.log)
        for rows in (3, 8, 5, 3, 3, 8):
            await delegate.run(RunRequest(pair(rows)))
        assert delegate.lowerings == lowerings
        assert names(device, start) == ["run"] * 6
        used = [detail[0] for name, detail in device.log if name == "run"]  # type: ignore[index]
        assert used == [used[i] for i in (0, 1, 2)] + [used[i] for i in (1, 0, 2, 1, 1, 0)]

    wait(run())


def test_hooks_fire_once_per_change() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(resizable())
        await delegate.run(RunRequest(pair(8)))
        assert delegate.hooks_fired == 0
        await delegate.run(RunRequest(pair(3)))
        assert delegate.hooks_fired == 2
        await delegate.run(RunRequest(pair(3)))
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
        delegate, device = await make_delegate(resizable())
        await delegate.run(RunRequest(pair(rows_before)))
        wanted = device.log[-1]
        with pytest.raises(error):
            await delegate.run(RunRequest(inputs))
        (result,) = await delegate.run(RunRequest(pair(rows_before)))
        assert result.shape == (rows_before, 3)
        assert device.log[-1] == wanted
        (result,) = await delegate.run(RunRequest(pair(6)))
        assert result.shape == (6, 3)
        assert len(plans(device)[-1].dispatches) == 2
        assert plans(device)[-1].result_bytes == 80

    wait(run())


@pytest.mark.parametrize("failure", [errors.GraphError, ValueError, KeyError, ZeroDivisionError])
def test_a_failed_lowering_leaves_the_delegate_usable(failure: type[Exception]) -> None:
    """An error of another kind becomes the cause of a WebpteError."""

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
            await delegate.run(RunRequest([ones(8, 3)]))
            for _ in range(2):
                with pytest.raises(errors.GraphError, match="five is too many") as caught:
                    await delegate.run(RunRequest([ones(5, 3)]))
                assert isinstance(caught.value.__cause__, failure)
            for rows in (8, 4):
                (result,) = await delegate.run(RunRequest([ones(rows, 3)]))
                assert result.shape == (rows, 3)
                grids = [d.grid for d in plans(device)[-1].dispatches]
                assert len(grids) == 2

    wait(run())


def test_a_plan_that_cannot_be_made_leaves_the_delegate_usable() -> None:
    class Full(SimulatedDevice):
        full = False

        async def create_plan(self, commands: PlanCommands) -> int:
            if self.full:
                raise errors.OutOfMemoryError("no room for another plan")
            return await super().create_plan(commands)

    async def run() -> None:
        delegate, device = await make_delegate(resizable(), Full())
        assert isinstance(device, Full)
        await delegate.run(RunRequest(pair(8)))
        device.full = True
        with pytest.raises(errors.OutOfMemoryError):
            await delegate.run(RunRequest(pair(2)))
        (result,) = await delegate.run(RunRequest(pair(8)))
        assert result.shape == (8, 3)
        device.full = False
        (result,) = await delegate.run(RunRequest(pair(2)))
        assert result.shape == (2, 3)
        assert [u.nbytes for u in plans(device)[-1].uploads] == [32, 32]

    wait(run())


def test_the_number_of_plans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 3)

    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        for rows in (8, 1, 2, 3, 4, 5, 6, 7, 8):
            (result,) = await delegate.run(RunRequest(pair(rows)))
            assert result.shape == (rows, 3)
            assert len(device.plans) <= 3
        delegate.close()
        assert device.plans == {}

    wait(run())


def test_a_plan_in_use_is_not_the_one_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding goes back to one shape between prompts of many lengths: it is never planned anew."""
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 3)

    async def run() -> None:
        delegate, device = await make_delegate(resizable())
        await delegate.run(RunRequest(pair(1)))
        for rows in (2, 3, 4, 5, 6, 7):
            await delegate.run(RunRequest(pair(rows)))
            start = len(device.log)
            await delegate.run(RunRequest(pair(1)))
            assert names(device, start) == ["run"]

    wait(run())


def test_a_failed_call_does_not_go_back_to_a_plan_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegate_module, "MAX_PLANS", 2)

    async def run() -> None:
        with temporary_op(
            "test.cache.default",
            "self: tensor, pos: live -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=lambda args: [],
            bounds=lambda args: args.bound("pos", 0, 9, "the cache holds 10"),
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

            await delegate.run(RunRequest(inputs(8, 0)))
            await delegate.run(RunRequest(inputs(2, 0)))
            await delegate.run(RunRequest(inputs(8, 0)))
            with pytest.raises(errors.ResizeError, match="the cache holds 10: 10 is not in 0 to 9"):
                await delegate.run(RunRequest(inputs(5, 10)))
            (result,) = await delegate.run(RunRequest(inputs(8, 9)))
            assert result.shape == (8, 3)

    wait(run())
