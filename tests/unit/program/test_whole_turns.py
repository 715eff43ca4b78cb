"""Nothing half-done: calls that overlap, are cancelled, or meet a close or a rebuild.

The device suspends at every await, so an action after so many turns of the loop can come between
any two steps of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.devices.recorded import RELU, add_graph, names, ones
from support.graphs.graphs import chain, load, make_delegate, temporary_op, wait
from support.graphs.turns import MOST_TURNS, lookup, nothing_left, outcome, turns
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.request import RunRequest
from webpte.llm.decode.decoder import decoder_of


def test_a_fault_belongs_to_its_call() -> None:
    async def run() -> None:
        delegate, _ = await make_delegate(lookup(computed=True))
        good, bad = np.zeros(8, np.int32), np.full(8, 50, np.int32)
        results = await asyncio.gather(
            outcome(delegate.run(RunRequest([bad]))), outcome(delegate.run(RunRequest([good])))
        )
        assert [type(result) for result in results] == [errors.IndexRangeError, list]
        cancelled = asyncio.ensure_future(delegate.run(RunRequest([bad])))
        await turns(2)
        cancelled.cancel()
        await outcome(cancelled)
        await delegate.run(RunRequest([good]))

    wait(run())


# Closing, rebuilding and cancelling


def host_step() -> GraphWriter:
    """relu, an op on the host, neg."""
    g = GraphWriter()
    x = g.tensor((4,))
    a = g.op(RELU, x, g.tensor((4,)))
    b = g.op("test.host.default", a, g.tensor((4,)))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", b, g.tensor((4,))))
    return g


def two_delegates() -> MethodWriter:
    method = MethodWriter()
    x, y, z, w = (method.tensor((4,)) for _ in range(4))
    method.inputs(x)
    method.delegate(chain(1), [x, y])
    method.kernel("aten::logcumsumexp.out", y, 0, z, z)
    method.delegate(chain(2), [z, w])
    method.outputs(w)
    return method


CALLS: dict[str, tuple[Callable[[], Any], Callable[[webpte.Program], Any]]] = {
    "new shape": (
        lambda: add_graph((8, 3), dynamic=True),
        lambda program: program.forward(ones(5, 3), ones(5, 3)),
    ),
    "kept on the GPU": (
        lambda: add_graph((8, 3), dynamic=True),
        lambda program: program.forward(ones(5, 3), ones(5, 3), output="gpu"),
    ),
    "argmax": (lambda: chain(2), lambda program: run_argmax(program, "forward", ones(4))),
    "unread": (
        lambda: chain(2),
        lambda program: decoder_of(program, "forward").run_unread([ones(4)]),
    ),
    "op on the host": (host_step, lambda program: program.forward(ones(4))),
    "two delegates": (two_delegates, lambda program: program.forward(ones(4))),
    "profile": (host_step, lambda program: program.profile("forward", ones(4))),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("what", ["close", "cancel", "recover"])
def test_at_every_turn_of_a_call(kind: str, what: str) -> None:
    write, call = CALLS[kind]

    async def at(count: int) -> tuple[Any, bool]:
        device = SimulatedDevice(features=("timestamp-query",))
        program = await load(write(), device=device)
        expected = await call(program) if what == "cancel" else None
        going = asyncio.ensure_future(call(program))
        await turns(count)
        early = not going.done()
        if what == "close":
            program.close()
        elif what == "cancel":
            going.cancel()
        else:
            await program.recover()
        result = await outcome(going)
        if isinstance(result, BaseException):
            allowed = asyncio.CancelledError if what == "cancel" else errors.ClosedError
            assert type(result) is allowed, result
        if what != "close":
            again = await outcome(call(program))
            assert not isinstance(again, BaseException), again
            if isinstance(expected, np.ndarray):
                assert np.array_equal(again, expected)
        del expected
        program.close()
        await turns(3)
        assert nothing_left(device), count
        return result, early

    async def run() -> None:
        stopped = 0
        for count in range(MOST_TURNS):
            result, early = await at(count)
            stopped += isinstance(result, BaseException)
            if not early:
                break
        assert not early, "the last time came after the end"
        assert stopped or what == "recover"

    reference = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": _no_kernel,
        "reference": lambda args: args.array("self") + 7,
    }
    with temporary_op("test.host.default", "self: tensor -> tensor", **reference):
        wait(run())


def _no_kernel(args: Any) -> Any:
    raise errors.UnsupportedError("no kernel")


def test_cancelling_at_every_turn_of_loading() -> None:
    async def at(count: int) -> bool:
        device = SimulatedDevice()
        going = asyncio.ensure_future(load(add_graph((8, 3)), device=device))
        await turns(count)
        going.cancel()
        result = await outcome(going)
        if isinstance(result, webpte.Program):
            result.close()
        await turns(3)
        assert nothing_left(device), count
        return isinstance(result, webpte.Program)

    async def run() -> None:
        loaded = [await at(count) for count in range(0, MOST_TURNS, 2)]
        assert True in loaded
        assert False in loaded

    wait(run())


def test_a_program_closed_before_an_op_on_the_host_submits_nothing_after_it() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(host_step(), device=device)
        start = len(device.log)
        going = asyncio.ensure_future(program.forward(ones(4)))
        while "run" not in names(device, start):
            await asyncio.sleep(0)
        program.close()
        with pytest.raises(errors.ClosedError, match="closed while this call was being prepared"):
            await going
        assert names(device, start).count("run") == 1
        assert nothing_left(device)

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": _no_kernel,
        "reference": lambda args: args.array("self") + 7,
    }
    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        wait(run())


def test_first_calls_of_argmax_at_once_make_one_head() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(1, dims=(2, 4)), device=device)
        x = np.array([[1, 5, 2, 3], [4, 0, 1, 2]], np.float32)
        before = len(device.buffers)
        first = await run_argmax(program, "forward", x)
        each = len(device.buffers) - before
        await program.recover()
        both = await asyncio.gather(*(run_argmax(program, "forward", x) for _ in range(2)))
        assert [r.tolist() for r in (first, *both)] == [[1, 0]] * 3
        assert len(device.buffers) - before == each
        program.close()
        assert nothing_left(device)

    wait(run())


def test_closing_twice_and_calling_afterwards() -> None:
    async def run() -> None:
        program = await webpte.load(write_pte(chain(1)), device=SimulatedDevice())
        program.close()
        program.close()
        for call in (program.forward(ones(4)), program.profile(), program.recover()):
            with pytest.raises(errors.ClosedError, match="was closed; load it again"):
                await call

    wait(run())
