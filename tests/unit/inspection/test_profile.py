"""Timing the kernels of a method: a run like any other, after which all is as before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, RELU, ones
from support.graphs.graphs import chain, load, temporary_op, wait
from support.write.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

TIMED = ("timestamp-query",)


def counting() -> GraphWriter:
    """Adds x to a buffer, and returns its new value."""
    g = GraphWriter()
    x = g.tensor((2,))
    kept = g.prepack(g.tensor((2,), constant=np.zeros(2, np.float32)))
    new = g.op(ADD, kept, x, g.int(1), g.tensor((2,)))
    g.op("aten.alias_copy.default", new, kept)
    g.inputs(x)
    g.outputs(new)
    return g


def test_state_is_afterwards_as_before() -> None:
    async def run() -> None:
        program = await load(counting(), device=SimulatedDevice(features=TIMED))
        assert (await program.forward(ones(2)))[0].tolist() == [1, 1]
        rows = await program.profile()
        assert [microseconds for _, microseconds in rows] == [1.0] * len(rows)
        assert len(rows) == program.stats.dispatches == 2
        assert await program.profile("forward", 5 * ones(2)) == rows
        assert (await program.forward(ones(2)))[0].tolist() == [2, 2]

    wait(run())


def test_a_profile_between_calls_that_are_under_way() -> None:
    async def run() -> None:
        program = await load(counting(), device=SimulatedDevice(features=TIMED))
        first, _, second = await asyncio.gather(
            program.forward(ones(2)), program.profile("forward", ones(2)), program.forward(ones(2))
        )
        assert [first[0].tolist(), second[0].tolist()] == [[1, 1], [2, 2]]

    wait(run())


def test_a_profile_that_fails_leaves_state_alone() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=TIMED)
        program = await load(counting(), device=device)
        await program.forward(ones(2))
        for at_result in (False, True):
            device.inject(method="profile", at_result=at_result)
            with pytest.raises(errors.DeviceError, match="injected"):
                await program.profile()
        assert (await program.forward(ones(2)))[0].tolist() == [2, 2]

    wait(run())


def test_a_language_model_goes_on_as_if_nothing_had_been_timed(root: Path) -> None:
    """Its cache is written by kernels, and its indices are in memory that others use again."""

    async def tokens(profiled: bool) -> list[int]:
        device = SimulatedDevice(features=TIMED)
        path = root / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
        async with await webpte.load(path, device=device) as program:
            found = []
            token, position = [5, 9, 33, 7], 0
            for _ in range(3):
                given = np.array([token]), np.array([position])
                (logits,) = await program.forward(*given)
                position += len(token)
                token = [int(logits.reshape(-1, logits.shape[-1])[-1].argmax())]
                found += token
                if profiled:
                    rows = await program.profile()
                    assert len(rows) == program.stats.dispatches
            return found

    assert wait(tokens(True)) == wait(tokens(False))


def test_before_the_first_run_inputs_have_to_be_given() -> None:
    async def run() -> None:
        program = await load(
            chain(3), device=SimulatedDevice(features=TIMED), options=webpte.Options(fuse=False)
        )
        with pytest.raises(errors.InputError, match="has not run yet; give its inputs"):
            await program.profile()
        assert len(await program.profile("forward", ones(4))) == 3
        with pytest.raises(errors.InputError, match="has not run yet"):
            await program.profile()
        await program.forward(ones(4))
        assert len(await program.profile()) == 3

    wait(run())


def test_inputs_on_the_gpu_are_not_kept_for_a_later_profile() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=TIMED)
        program = await load(chain(1), device=device)
        (tensor,) = await program.forward(ones(4), output="gpu")
        await program.forward(tensor)
        assert len(await program.profile()) == 1
        del tensor
        with pytest.raises(errors.InputError, match="a GPU tensor of the last call is gone"):
            await program.profile()

    wait(run())


def test_several_delegates_and_steps_on_the_host() -> None:
    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    async def run() -> None:
        g = GraphWriter()
        inner = g.tensor((2,))
        a = g.op(RELU, inner, g.tensor((2,)))
        b = g.op("test.host.default", a, g.tensor((2,)))
        g.inputs(inner)
        g.outputs(g.op("aten.neg.default", b, g.tensor((2,))))
        method = MethodWriter()
        x, y, z, w = (method.tensor((2,)) for _ in range(4))
        method.inputs(x)
        method.delegate(counting(), [x, y])
        method.kernel("aten::logcumsumexp.out", y, 0, z, z)
        method.delegate(g, [z, w])
        method.outputs(w)
        program = await load(method, device=SimulatedDevice(features=TIMED))
        assert (await program.forward(ones(2)))[0].tolist() == pytest.approx([-1, -1 - np.log(2)])
        rows = await program.profile()
        labels = [label for label, _ in rows]
        hosts = [label for label in labels if label.startswith("host: ")]
        assert hosts == ["host: aten::logcumsumexp.out", "host: test.host.default"]
        assert len(labels) == 2 + 1 + 1 + 1 + 1
        assert all(microseconds > 0 for _, microseconds in rows)
        assert (await program.forward(ones(2)))[0].tolist() == pytest.approx([-2, -2 - np.log(2)])

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: args.array("self"),
    }
    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        wait(run())


def test_where_there_is_nothing_to_time() -> None:
    async def run() -> None:
        program = await load(chain(1))
        with pytest.raises(errors.DeviceError, match="runs on NumPy"):
            await program.profile("forward", ones(4))
        program = await load(chain(1), device=SimulatedDevice())
        with pytest.raises(errors.DeviceError, match="no timestamps"):
            await program.profile("forward", ones(4))

    wait(run())
