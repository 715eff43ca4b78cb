"""The runner of schedules: it is deterministic, finds faults, and shrinks schedules.

Also schedules that once revealed a fault of the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest

from support.schedules.generate import (
    Call,
    Cancel,
    Close,
    Destroy,
    Inject,
    Read,
    Recover,
    Schedule,
    Settle,
    Step,
    Talk,
    schedules,
)
from support.schedules.kinds import KINDS
from support.schedules.quick import first_failure, quickly, run
from support.schedules.run import World
from support.schedules.shrink import shrunk
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.gpu.simulated.emulation import EmulatedCall
from webpte.program import Program


def test_a_seed_gives_the_same_schedules_whatever_the_count() -> None:
    assert list(schedules(3, 20)) == list(schedules(3, 20))
    assert list(schedules(3, 5, 15)) == list(schedules(3, 20))[15:]
    assert list(schedules(4, 20)) != list(schedules(3, 20))


def test_a_schedule_goes_the_same_way_each_time() -> None:
    """Every call of every device, and its order, is the same."""

    def logs() -> list[list[str]]:
        devices: list[SimulatedDevice] = []
        make = SimulatedDevice.__init__

        def noted(self: SimulatedDevice, *args: Any, **options: Any) -> None:
            make(self, *args, **options)
            devices.append(self)

        with patch.object(SimulatedDevice, "__init__", noted), quickly() as runner:
            for schedule in schedules(5, 12):
                runner.run(schedule)
        return [[name for name, _ in device.log] for device in devices]

    first = logs()
    assert first == logs()
    assert sum(map(len, first)) > 200


def test_schedules_have_everything() -> None:
    found: set[object] = set()
    for schedule in schedules(0, 600):
        found |= {*schedule.programs, schedule.device}
        for step in schedule.steps:
            found.add(type(step))
            if isinstance(step, Call):
                found |= {
                    step.how,
                    step.bad,
                    step.handed is not None,
                    "native" if step.native else "",
                }
            if isinstance(step, Talk):
                found |= {step.how, step.ahead, step.seed is None, step.penalty, len(step.stop)}
            if isinstance(step, Inject):
                found |= {step.error, step.method}
    steps: set[object] = {Call, Cancel, Close, Destroy, Inject, Read, Recover, Settle, Talk}
    talks = {"generate", "continue", "more", "prefill", "reset", 1, 2, 4, 16, False, 1.4}
    hows = {"run", "gpu", "argmax", "unread", "profile", "tune", "again"}
    bads = {"shape", "dtype", "count"}
    errors = {"error", "memory", "loss", "create_buffers", "create_plan", "run", None}
    assert found >= steps | hows | bads | talks | errors | set(KINDS) | {
        "numpy",
        "recording",
        True,
        "native",
    }


# Deliberate faults


def wrong_numbers(call: EmulatedCall, memory: Any, run: Callable[..., None]) -> None:
    run(call, memory)
    for value_id in call.origin.graph.expand(call.origin.call.args[-1:]):
        place = call.origin.tensors.get(value_id)
        if place is not None and call.origin.call.name == "aten.neg.default":
            memory[place.buffer].write(b"\x01", place.offset)


def test_wrong_numbers_are_found() -> None:
    proper = EmulatedCall.run
    with patch.object(
        EmulatedCall, "run", lambda call, memory: wrong_numbers(call, memory, proper)
    ):
        failure = first_failure([Schedule(0, ("total",), (Call(spec=(1,)), Call(spec=(2,))))])
    assert failure is not None
    assert "no order of these gives their results" in failure
    assert failure.count("Call(spec") == 1, "one call is enough to show it"


def test_memory_that_is_left_is_found() -> None:
    with patch.object(Program, "close", lambda self: None):
        assert "left on device 0" in str(run(Schedule(0, ("sum",), ())))


def test_calls_that_never_end_are_found() -> None:
    async def never(*args: Any, **options: Any) -> Any:
        await asyncio.Event().wait()

    with patch.object(Program, "run", never):
        assert "does not end" in str(run(Schedule(0, ("sum",), (Call(spec=(1, 1)),))))


def test_errors_without_a_type_are_found() -> None:
    async def broken(*args: Any, **options: Any) -> Any:
        raise KeyError("oops")

    with patch.object(Program, "run", broken):
        assert "without a type of ours" in str(run(Schedule(0, ("sum",), (Call(spec=(1, 1)),))))


def test_work_that_nobody_waits_for_is_found() -> None:
    proper = World._begin_call

    def careless(world: World, step: Call) -> None:
        proper(world, step)
        asyncio.sleep(0)  # type: ignore[unused-coroutine]

    with patch.object(World, "_begin_call", careless):
        assert "never awaited" in str(run(Schedule(0, ("sum",), (Call(spec=(1, 1)),))))


def test_an_error_that_nothing_explains_is_found() -> None:
    """A call says that its program was closed, and it was not; or gives numbers after it was."""
    with patch.object(World, "_close", lambda world, number: world.programs[number].close()):
        schedule = Schedule(0, ("sum",), (Close(), Call(spec=(1, 1))))
        assert "nothing was closed" in str(run(schedule))
    with patch.object(Program, "close", lambda self: None):
        assert "closed before, but there is no error" in str(run(schedule))


# Shrinking


def test_shrinking_keeps_what_matters() -> None:
    """Two calls of which the second has the tensor of the first, and nothing else."""
    schedule = next(
        found for found in schedules(0, 500) if any(_takes_a_tensor(found, s) for s in found.steps)
    )

    def fails(candidate: Schedule) -> bool:
        return any(_takes_a_tensor(candidate, step) for step in candidate.steps)

    small = shrunk(schedule, fails)
    assert len(small.steps) == 2
    assert len(small.steps) < len(schedule.steps)
    assert len(small.programs) <= 2
    assert fails(small)
    namespace = {kind.__name__: kind for kind in (Schedule, Call)}
    assert eval(repr(small), namespace) == small, "it can be pasted into a test"


def _takes_a_tensor(schedule: Schedule, step: Step) -> bool:
    calls = [step for step in schedule.steps if isinstance(step, Call)]
    if not isinstance(step, Call) or step.handed is None or step.handed[0] >= len(calls):
        return False
    return calls[step.handed[0]].how == "gpu"


def test_calls_are_renumbered() -> None:
    steps = (
        Call(how="run", spec=(1, 1)),
        Call(how="gpu", spec=(2, 2)),
        Cancel(call=0),
        Cancel(call=1),
        Call(handed=(1, 0), spec=(3, 3)),
    )

    def fails(candidate: Schedule) -> bool:
        return sum(isinstance(step, Call) for step in candidate.steps) == 2 and any(
            isinstance(step, Cancel) for step in candidate.steps
        )

    schedule = Schedule(0, ("sum",), steps)
    (small,) = islice((s for s in _one_less(schedule) if fails(s)), 1)
    assert [step.handed for step in small.steps if isinstance(step, Call)] in (
        [None, (0, 0)],
        [None] * 2,
    )
    assert all(step.call < 2 for step in small.steps if isinstance(step, Cancel))


def _one_less(schedule: Schedule) -> list[Schedule]:
    tried: list[Schedule] = []
    shrunk(schedule, lambda candidate: bool(tried.append(candidate)))  # type: ignore[func-returns-value]
    return tried


# Found before

FOUND = {
    "an op on the host fails after state was written": Schedule(
        0, ("hosted",), (Call(spec=(1, 1)), Call(spec=(2, 0)))
    ),
    "the program is closed while a shape is prepared": Schedule(
        0, ("sum",), (Call(turns=1, spec=(2, 1)), Close())
    ),
    "a right call beside a wrong one": Schedule(
        0, ("embed",), (Call(spec=(2, 11)), Call(spec=(2, 8)))
    ),
    "a program is rebuilt while its first argmax is prepared": Schedule(
        0, ("cache",), (Recover(), Call(how="argmax", spec=(0, 3, 0)))
    ),
    "two first calls of argmax": Schedule(
        0, ("sum",), (Call(how="argmax", spec=(2, 0)), Call(how="argmax", spec=(2, 0)))
    ),
    "a program is rebuilt while a shape is prepared": Schedule(
        51018, ("cache",), (Recover(turns=10, fresh=True), Call(how="unread", spec=(2, 3, 12)))
    ),
    "the head of an argmax fails after state was written": Schedule(
        0,
        ("total",),
        (Inject(after=2, method="run"), Call(how="argmax", spec=(2,)), Settle(), Call(spec=(5,))),
    ),
    "strict, and the second shape has no kernel": Schedule(0, ("picky",), (Call(spec=(5, 4)),)),
    "a first call that fails leaves steps that were never lowered": Schedule(
        0, ("folds",), (Call(spec=(3, 1, 5)), Settle(), Call(spec=(4, 0, 2)))
    ),
    "an index is found wrong after state was written": Schedule(
        6123, ("guarded",), (Call(spec=(2, 5, -10)), Call(how="gpu", spec=(4, 5, 5)))
    ),
    "a program is rebuilt while an op runs on the host": Schedule(
        44558, ("hosted",), (Recover(), Call(spec=(1, 0)), Call(spec=(2, 1)), Call(spec=(5, 0)))
    ),
    "an error while a run is under way that nobody awaits then": Schedule(
        0,
        ("embed",),
        (Inject(error="memory", method="read"), Call(how="unread", spec=(2, 5))),
    ),
    "one method writes what another has read": Schedule(
        0,
        ("shared",),
        (Call(method="get"), Call(turns=2, method="put", spec=(6,)), Call(method="get")),
    ),
    "calls that fail at other shapes push out the plan that is used": Schedule(
        0,
        ("lookup",),
        (
            *(Call(spec=(8, 0)), Settle(), Call(spec=(1, 11)), Settle(), Call(spec=(2, 11))),
            *(
                Settle(),
                Call(spec=(3, 11)),
                Settle(),
                Call(spec=(8, 0)),
                Settle(),
                Call(spec=(8, 0)),
            ),
        ),
    ),
    "on NumPy a call that fails leaves the cache written": Schedule(
        0, ("cache",), (Call(spec=(1, 2, 5)), Settle(), Call(spec=(2, 0, 4))), device="numpy"
    ),
    "a profile is not a call": Schedule(
        0, ("total",), (Call(how="profile", spec=(1,)), Settle(), Call(spec=(2,)))
    ),
    "the first chunk of a prompt overtakes a call that came before": Schedule(
        0,
        ("talk",),
        (
            Talk(tokens=(0, 9, 8, 1), take=1),
            Talk(generator=1, how="continue", tokens=(2, 9, 1, 4, 1, 7), take=1),
        ),
    ),
    "a cancelled prefill overwrites rows of steps decoded ahead": Schedule(
        0,
        ("talk",),
        (
            *(Talk(tokens=(3, 1), most=13, take=3, seed=1), Settle()),
            *(Talk(turns=38, how="prefill", tokens=(7, 7, 5)), Cancel(call=1), Settle()),
            Talk(how="more", take=12),
        ),
    ),
    "a cancelled call with a wrong index": Schedule(
        0,
        ("embed",),
        (Call(turns=1, spec=(8, 11)), Cancel(call=0), Settle(), Call(spec=(8, 1))),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_once(name: str) -> None:
    assert run(FOUND[name]) == []
