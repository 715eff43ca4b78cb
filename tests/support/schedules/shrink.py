"""Shrinks a schedule that fails, so that it can be understood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from support.schedules.generate import Call, Cancel, Destroy, Numbered, Read, Schedule, Step, Talk


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Drop steps, and simplify the others, for as long as the schedule still fails."""
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(schedule):
            if fails(candidate):
                schedule, changed = candidate, True
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    steps = schedule.steps
    for at in reversed(range(len(steps))):
        yield replace(schedule, steps=_without(steps, at))
    for number in range(len(schedule.programs)):
        used = any(getattr(step, "program", None) == number for step in steps)
        if not used and len(schedule.programs) > 1:
            yield _without_program(schedule, number)
    for at, step in enumerate(steps):
        for simpler in _simpler(step):
            yield replace(schedule, steps=(*steps[:at], simpler, *steps[at + 1 :]))
    if schedule.seed:
        yield replace(schedule, seed=0)


def _without(steps: tuple[Step, ...], at: int) -> tuple[Step, ...]:
    """Remove a step, and renumber the calls after it."""
    left = [*steps[:at], *steps[at + 1 :]]
    if not isinstance(steps[at], Numbered):
        return tuple(left)
    gone = sum(isinstance(step, Numbered) for step in steps[:at])
    return tuple(_renumbered(step, gone) for step in left if getattr(step, "call", None) != gone)


def _renumbered(step: Step, gone: int) -> Step:
    if isinstance(step, Cancel | Destroy | Read) and step.call > gone:
        return replace(step, call=step.call - 1)
    if isinstance(step, Call) and step.handed is not None:
        number, output = step.handed
        if number == gone:
            return replace(step, handed=None, native=False)
        return replace(step, handed=(number - (number > gone), output))
    return step


def _without_program(schedule: Schedule, number: int) -> Schedule:
    programs = (*schedule.programs[:number], *schedule.programs[number + 1 :])
    steps = tuple(
        replace(step, program=step.program - 1)  # type: ignore[attr-defined, call-arg]
        if getattr(step, "program", -1) > number
        else step
        for step in schedule.steps
    )
    return replace(schedule, programs=programs, steps=steps)


def _simpler(step: Step) -> Iterator[Step]:
    if step.turns:
        yield replace(step, turns=0)
        yield replace(step, turns=step.turns // 2)
    if isinstance(step, Talk):
        plain: dict[str, Any] = {
            "seed": None,
            "penalty": None,
            "stop": (),
            "tokens": step.tokens[:1],
        }
        plain |= {"kept": 0, "take": 1, "ahead": 1}
        for name, value in plain.items():
            if getattr(step, name) != value:
                yield replace(step, **{name: value})
        if step.take > 2:
            yield replace(step, take=step.take // 2)
    if isinstance(step, Call):
        if step.how != "run":
            yield replace(step, how="run")
        if step.native:
            yield replace(step, native=False)
        if step.handed is not None:
            yield replace(step, handed=None, native=False)
