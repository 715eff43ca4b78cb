"""Delegates with SymInts, and with ops that have no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs import make_delegate, temporary_op, wait
from support.pte_writer import GraphWriter, write_pte
from support.recorded import RELU, names, ones, sent
from webpte import errors
from webpte.gpu.recording import RecordingDevice
from webpte.ops.args import Args

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


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_a_symint_can_be_an_output(device: str) -> None:
    """A size that a kernel outside of the delegate needs, between two tensors."""

    async def run() -> None:
        g = GraphWriter()
        x, rows, doubled = g.tensor((8, 3)), g.symint(0), g.symint(0)
        out = g.op(RELU, x, g.tensor((8, 3)))
        g.op("sym_size.int", out, g.int(0), rows)
        g.op("mul", rows, g.int(2), doubled)
        g.inputs(x)
        g.outputs(out, doubled, x)
        for value in (out, x):
            g.host(value, dynamic=True)
        on = RecordingDevice() if device == "recording" else device
        async with await webpte.load(write_pte(g), device=on) as program:
            for count in (5, 8, 1):
                first, number, last = await program.forward(ones(count, 3))
                assert (first.shape, number, last.shape) == ((count, 3), 2 * count, (count, 3))

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


# Ops without a kernel


def refuse(_args: Args) -> list[Any]:
    raise errors.UnsupportedError("no kernel takes this")


def test_an_op_without_a_kernel_runs_between_two_replays() -> None:
    async def run() -> None:
        with temporary_op(
            "test.host.default",
            "self: tensor -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=refuse,
            reference=lambda args: args.array("self") + 7,
        ):
            g = GraphWriter()
            x = g.tensor((3,))
            a = g.op(RELU, x, g.tensor((3,)))
            b = g.op("test.host.default", a, g.tensor((3,)))
            g.inputs(x)
            g.outputs(g.op("aten.neg.default", b, g.tensor((3,))))
            delegate, device = await make_delegate(g)
            start = len(device.log)
            await delegate.execute([ones(3)])
            assert names(device, start) == ["run", "run"]
            assert sent(device)[:12] == np.full(3, 7, np.float32).tobytes(), "zeros + 7"
            assert delegate.host_ops == {"test.host.default": 1}

    wait(run())


def test_an_op_without_a_kernel_sees_sizes_that_follow_a_symint() -> None:
    """Only the dims of a view change: the same commands, but not the same arrays."""
    seen: list[tuple[int, ...]] = []

    def note(args: Args) -> np.ndarray:
        seen.append(args.array("self").shape)
        return np.zeros((2,), np.float32)

    async def run() -> None:
        with temporary_op(
            "test.note.default",
            "self: tensor -> tensor",
            shape=lambda args: [(2,)],
            lower=refuse,
            reference=note,
        ):
            g = GraphWriter()
            x, position, n = g.tensor((12,)), g.tensor((1,), "int64"), g.symint(3)
            g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), n)
            v = g.op("aten.view_copy.default", x, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
            g.inputs(x, position)
            g.outputs(g.op("test.note.default", v, g.tensor((2,))))
            delegate, _ = await make_delegate(g)
            for value in (3, 4, 12, 3):
                await delegate.execute([ones(12), np.array([value])])
            assert seen == [(3, 4), (4, 3), (12, 1), (3, 4)]

    wait(run())
