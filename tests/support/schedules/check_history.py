"""The history of a schedule, and the check that it is allowed.

A call must end in the right result, or in a typed error with a cause. Calls that change state must
be explained by some order, in which calls that ended before others began come first, and calls with
arrays keep their order. In that order every result must equal the model's, and calls that failed
must have changed nothing; a cancelled call did all of its work or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.schedules.base import Arrays, Entry, Kind, RefusedError, State
from support.schedules.generate import REHEARSALS, Call, Recover, Step, Talk
from webpte.errors import (
    ClosedError,
    DeviceError,
    DeviceLostError,
    IndexRangeError,
    InputError,
    WebpteError,
)

UNKNOWN: Any = object()  # a result that could no longer be read


@dataclass(eq=False)
class Event:
    """A step that takes time: a call, a profile, a recovery. Times are ticks of one clock."""

    number: int
    step: Step
    program: int
    started: int
    ended: int = 1 << 60
    arrays: Arrays = field(default_factory=list)
    handed: Any = None  # the GPU tensor among the inputs
    adopted: Any = None  # its buffer, as a separate tensor
    device: Any = None  # of the program, when the event began
    result: Any = None
    error: BaseException | None = None
    cancelled: bool = False  # a cancellation was requested
    tensors: list[Any] = field(default_factory=list)
    explained: bool = False  # whether the error that a Generator raised has a cause

    def __str__(self) -> str:
        return f"call {self.number} ({self.step})" if self.number >= 0 else str(self.step)


@dataclass(eq=False)
class History:
    """All events, with the times at which programs were closed and recovered."""

    kinds: list[Kind]
    events: list[Event] = field(default_factory=list)
    closed: dict[int, int] = field(default_factory=dict)  # program to when
    destroyed: dict[int, int] = field(default_factory=dict)  # id of a GPU tensor to when
    problems: list[str] = field(default_factory=list)


def causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def check_history(history: History) -> list[str]:
    """List everything that is wrong; empty if nothing is."""
    problems = list(history.problems)
    for event in history.events:
        problem = _problem_of(history, event)
        if problem:
            problems.append(f"{event}: {problem}")
    if not problems:
        for program, kind in enumerate(history.kinds):
            if kind.initial is not None and not _has_order(history, program, kind.initial):
                problems.append(_no_order(history, program))
    return problems


def _entry(history: History, event: Event) -> Entry:
    assert isinstance(event.step, Call)
    return history.kinds[event.program].entries[event.step.method]


def _problem_of(history: History, event: Event) -> str | None:
    if event.error is not None:
        return _problem_of_error(history, event, event.error)
    closed = history.closed.get(event.program)
    asked = not isinstance(event.step, Talk) or event.result
    if closed is not None and closed < event.started and asked and not event.cancelled:
        return "the program was closed before, but there is no error"
    if not isinstance(event.step, Call) or (event.result is None and event.cancelled):
        return None
    if event.step.how == "again":
        return None
    if event.step.bad:
        return f"a wrong input ({event.step.bad}) is taken"
    entry = _entry(history, event)
    initial = history.kinds[event.program].initial
    try:
        _, expected = entry.model(initial or (), event.arrays)
    except RefusedError as refused:
        return f"should be refused: {refused}"
    if initial is None and not _is_result(entry, event, expected):
        return f"gives {_shown(event.result)}, not {_shown(_expected(event, expected))}"
    return None


def _problem_of_error(history: History, event: Event, error: BaseException) -> str | None:
    shown = " <- ".join(f"{type(cause).__name__}: {cause}" for cause in causes(error))
    if not isinstance(error, WebpteError):
        return f"an error without a type of ours: {shown}"
    chain = list(causes(error))
    if any("injected" in str(cause) or isinstance(cause, DeviceLostError) for cause in chain):
        return None  # only an injected fault raises this
    if any(isinstance(cause, ClosedError) for cause in chain):
        return None if _may_be_closed(history, event) else f"nothing was closed: {shown}"
    if isinstance(error, InputError) and "another device" in str(error):
        return None if event.handed is not None else f"which other device? {shown}"
    if "destroyed" in str(error) and (event.adopted is not None or _repeats(event)):
        return None if _may_be_closed(history, event) else f"nothing was destroyed: {shown}"
    if "no timestamps" in str(error) and "timestamp-query" not in event.device.info.features:
        return None
    if isinstance(event.step, Talk):
        return None if event.explained else f"nothing explains it: {shown}"
    if any(isinstance(cause, DeviceError) for cause in chain):
        return f"the device refuses: {shown}"
    if not isinstance(event.step, Call):
        return f"fails: {shown}"
    if _repeats(event):
        return None  # there was no run, or none that can be repeated
    if event.step.bad:
        return None if isinstance(error, InputError) else f"not an InputError: {shown}"
    try:
        _entry(history, event).model(history.kinds[event.program].initial or (), event.arrays)
    except RefusedError as refused:
        wanted = "out of range" in str(refused)
        is_range = any(isinstance(cause, IndexRangeError) for cause in chain)
        return None if is_range == wanted else f"refused for another reason: {shown}"
    return f"fails, though nothing is wrong with it: {shown}"


def _may_be_closed(history: History, event: Event) -> bool:
    """Tell whether the program, or an input tensor, was closed or rebuilt before the end."""
    if _repeats(event):
        return True  # the inputs of an earlier call may be gone, wherever they came from
    ends = [history.closed.get(event.program, event.ended)]
    ends += [e.started for e in history.events if _rebuilds(e) and e.program == event.program]
    if event.handed is not None:
        ends.append(history.destroyed.get(id(event.handed), event.ended))
    return min(ends) < event.ended


def _repeats(event: Event) -> bool:
    """Tell whether the event is a profile with the inputs of the last call."""
    return isinstance(event.step, Call) and event.step.how == "again"


def _rebuilds(event: Event) -> bool:
    return isinstance(event.step, Recover)


def _expected(event: Event, outputs: Arrays) -> Any:
    assert isinstance(event.step, Call)
    if event.step.how == "unread":
        return []
    if event.step.how == "argmax":
        return [np.argmax(outputs[0], axis=-1)]
    return outputs


def _is_result(entry: Entry, event: Event, outputs: Arrays) -> bool:
    if isinstance(event.step, Call) and event.step.how == "profile":
        return all(isinstance(name, str) and time >= 0 for name, time in event.result)
    if isinstance(event.step, Call) and event.step.how == "tune":
        return event.result.refused == ()
    expected, close = _expected(event, outputs), 1e-5 if entry.rounds else 0.0
    return len(event.result) == len(expected) and all(
        got is UNKNOWN
        or (
            (got.shape == want.shape and got.dtype.kind == want.dtype.kind)
            and np.allclose(got, want, rtol=close, atol=close)
        )
        for got, want in zip(event.result, expected, strict=True)
    )


def _shown(result: Any) -> str:
    if not isinstance(result, list):
        return repr(result)
    return str([x.tolist() if isinstance(x, np.ndarray) else "?" for x in result])


# State


def _of_state(history: History, program: int) -> list[Event]:
    """Return the events of a program that may have changed its state, or that show it."""
    found = []
    for event in history.events:
        if event.program != program or not isinstance(event.step, Call | Recover):
            continue
        if event.error is None or event.cancelled or _lost_its_result(event.error):
            found.append(event)
    return found


def _lost_its_result(error: BaseException) -> bool:
    """Tell whether a call may have run although it failed: its program closed, or device lost."""
    return any(isinstance(cause, ClosedError | DeviceLostError) for cause in causes(error))


def _in_turn(event: Event) -> bool:
    """Tell whether an event is a call that starts in the order of the calls."""
    step = event.step
    return isinstance(step, Call) and step.how != "argmax" and not event.cancelled


def _has_order(history: History, program: int, initial: State) -> bool:
    events = _of_state(history, program)
    before = [
        {
            other
            for other, second in enumerate(events)
            if second.ended < event.started
            or (second.started < event.started and _in_turn(event) and _in_turn(second))
        }
        for event in events
    ]
    seen: set[tuple[frozenset[int], State]] = set()
    stack: list[tuple[frozenset[int], State]] = [(frozenset(), initial)]
    while stack:
        done, state = stack.pop()
        if len(done) == len(events):
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for at, event in enumerate(events):
            if at not in done and before[at] <= done:
                stack += [(done | {at}, after) for after in _after(history, event, state, initial)]
    return False


def _after(history: History, event: Event, state: State, initial: State) -> list[State]:
    """Return the states in which an event can leave the program; none: an impossible result."""
    unfinished = event.result is None and event.cancelled
    if isinstance(event.step, Recover):
        return [initial, state] if unfinished or event.error is not None else [initial]
    try:
        entry = _entry(history, event)
        after, expected = entry.model(state, event.arrays)
    except RefusedError:
        return [state]
    if isinstance(event.step, Call) and event.step.how in (*REHEARSALS, "again"):
        return [state]
    if event.error is not None or unfinished:
        return [state, after]
    return [after] if _is_result(entry, event, expected) else []


def _no_order(history: History, program: int) -> str:
    lines = [
        f"    {event.started}-{event.ended} {event.step} -> "
        + ("cancelled" if event.cancelled and event.result is None else _shown(event.result))
        for event in _of_state(history, program)
    ]
    name = history.kinds[program].name
    return f"program {program} ({name}): no order of these gives their results\n" + "\n".join(lines)
