"""Delegates with SymInts, and with ops that have no kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import DEVICES, RELU, device_of, names, ones, sent
from support.graphs.graphs import load, make_delegate, temporary_op, wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.args import Args
from webpte.engine.run.request import RunRequest

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
            await delegate.run(RunRequest([ones(4), np.array([at])]))
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
        on = SimulatedDevice() if device == "recording" else device
        async with await webpte.load(write_pte(g), device=on) as program:
            for count in (5, 8, 1):
                first, number, last = await program.forward(ones(count, 3))
                assert (first.shape, number, last.shape) == ((count, 3), 2 * count, (count, 3))

    wait(run())


def position_of(dtype: str) -> GraphWriter:
    """Gives relu(x), and the first element of a tensor of `dtype` as a SymInt."""
    g = GraphWriter()
    x, position, n = g.tensor((4,)), g.tensor((1,), dtype), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), n)
    g.inputs(x, position)
    g.outputs(g.op(RELU, x, g.tensor((4,))), n)
    return g


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_integer_is_not_cut_to_one(device: str, dtype: str) -> None:
    used = device_of(device)
    with pytest.raises(errors.ValueKindError, match=f"tensor value 1, which is {dtype};"):
        wait(load(position_of(dtype), device=used))
    assert device == "numpy" or used.buffers == {}


@pytest.mark.parametrize("device", DEVICES)
def test_an_integer_beyond_32_bits_is_an_error_and_those_at_the_ends_are_not(device: str) -> None:
    async def run() -> None:
        program = await load(position_of("int64"), device=device_of(device))
        for value in (2**31 - 1, -(2**31)):
            _, number = await program.forward(ones(4), np.array([value]))
            assert number == value
        for value in (2**31, -(2**31) - 1, 2**40, -(2**63)):
            with pytest.raises(errors.ExecutionError, match=f"SymInt value 2: {value} ") as caught:
                await program.forward(ones(4), np.array([value]))
            assert isinstance(caught.value.__cause__, errors.ResizeError)
        _, number = await program.forward(ones(4), np.array([7]))
        assert number == 7

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
            (result,) = await delegate.run(RunRequest([ones(6, 2), np.array([n])]))
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
                result, _ = await delegate.run(RunRequest([ones(12), np.array([n, m])]))
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
            await delegate.run(RunRequest([ones(3)]))
            assert names(device, start) == ["run", "run"]
            assert sent(device)[:12] == np.full(3, 8, np.float32).tobytes(), "relu(1) + 7"
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
                await delegate.run(RunRequest([ones(12), np.array([value])]))
            assert seen == [(3, 4), (4, 3), (12, 1), (3, 4)]

    wait(run())


def update_of(cache: tuple[int, ...], dtype: str, tokens: int) -> GraphWriter:
    """Writes tokens into a cache of zeros at a position, and returns the cache."""
    g = GraphWriter()
    value = g.tensor((1, tokens, *cache[2:]), dtype)
    position, pos = g.tensor((1,), "int64"), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    kept = g.prepack(g.tensor(cache, dtype, constant=np.zeros(cache, dtype)))
    g.op("llama.update_cache.default", value, kept, pos, g.tensor((1,), dtype))
    g.inputs(value, position)
    g.outputs(g.op("aten.view_copy.default", kept, g.int_list(cache), g.tensor(cache, dtype)))
    return g


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_position_out_of_range_is_an_error(device: str, dtype: str) -> None:
    """Another kernel writes 3 bytes to a position. In NumPy, a token at 4 of 4 would be written
    nowhere, and one at -1 to the end.
    """

    async def run() -> None:
        program = await load(update_of((1, 4, 1, 3), dtype, 1), device=device_of(device))
        hosted = {row.op for row in program.report if row.where == "host"}
        assert "update_cache.default" not in hosted
        token = np.ones((1, 1, 1, 3), dtype)
        for position in (4, -1, 7, 2**31 - 1):
            with pytest.raises(errors.ExecutionError, match=f"{position} is not in 0 to 3"):
                await program.forward(token, np.array([position]))
        (cache,) = await program.forward(token, np.array([2]))
        if device == "numpy":
            assert cache[0, :, 0, 0].tolist() == [0, 0, 1, 0], "nothing else was ever written"

    wait(run())


def test_attention_that_no_kernel_takes_keeps_to_its_cache() -> None:
    """Queries of float32 and caches of half floats, on a device that has such: no kernel mixes."""
    g = GraphWriter()
    token, cache = (1, 1, 1, 4), (1, 4, 1, 4)
    q, k, v = (g.tensor(token) for _ in range(3))
    position, pos = g.tensor((1,), "int64"), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    kept = [
        g.prepack(g.tensor(cache, "float16", constant=np.zeros(cache, np.float16), key=name))
        for name in "kv"
    ]
    options = (pos, g.int(1), g.null(), g.double(0), g.bool_(True), g.null())
    out = g.op("sdpa_with_kv_cache.default", q, k, v, *kept, *options, g.tensor(token))
    g.inputs(q, k, v, position)
    g.outputs(out)

    async def run() -> None:
        device = SimulatedDevice()
        device.info = replace(device.info, features=("shader-f16",))
        program = await load(g, device=device)
        inputs = [np.ones(token, np.float32)] * 3
        await program.forward(*inputs, np.array([3]))
        assert {row.op for row in program.report if row.where == "host"} >= {
            "sdpa_with_kv_cache.default"
        }
        for at in (4, -1):
            with pytest.raises(errors.ExecutionError, match=f"{at} is not in 0 to 3"):
                await program.forward(*inputs, np.array([at]))

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_an_op_that_no_kernel_takes_keeps_its_bounds(device: str) -> None:
    async def run() -> None:
        with temporary_op(
            "test.host.default",
            "self: tensor, pos: live -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=refuse,
            reference=lambda args: args.array("self") * args.integer("pos"),
            bounds=lambda args: args.bound("pos", 1, 5, "counts to 5"),
        ):
            g = GraphWriter()
            x, position, pos = g.tensor((3,)), g.tensor((1,), "int64"), g.symint(1)
            g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
            g.inputs(x, position)
            g.outputs(g.op("test.host.default", x, pos, g.tensor((3,))))
            used = device_of(device)
            program = await load(g, device=used)
            for value in (1, 5):
                await program.forward(ones(3), np.array([value]))
            for value in (0, 6):
                with pytest.raises(errors.ExecutionError, match=f"{value} is not in 1 to 5"):
                    await program.forward(ones(3), np.array([value]))
            if device == "recording":
                assert names(used).count("run") == 2 * 2, "what is out of range never starts"

    wait(run())


def test_an_index_out_of_range_outside_of_delegates() -> None:
    m = MethodWriter()
    x, index, out = m.tensor((3,)), m.value(0), m.tensor(())
    m.inputs(x, index)
    m.kernel("aten::select_copy.int_out", x, 0, index, out, out)
    m.outputs(out)

    async def run() -> None:
        program = await load(m)
        (y,) = await program.forward(np.array([5, 6, 7], np.float32), -1)
        assert y.tolist() == 7
        for index in (3, -4):
            with pytest.raises(errors.ExecutionError, match=f"size 3: index is {index}, not -3 to"):
                await program.forward(ones(3), index)

    wait(run())
