"""Calls of the tasks that have cases."""

from __future__ import annotations

from collections.abc import Iterator

from support.harness.task_cases import CASES, EXPECTED, made
from support.tasks.calls import TaskCall, read_json


def calls() -> Iterator[TaskCall]:
    """Yield the last case of each task that has cases, and of the two kinds of places in a text."""
    expected = read_json(EXPECTED)
    last = {case[1]: at for at, case in enumerate(CASES)}
    others = {case[0]: at for at, case in enumerate(CASES) if case[0] in ("entities", "answers")}
    for at in (*last.values(), *others.values()):
        model, task, args, options = CASES[at]
        yield TaskCall(task, model, [made(one) for one in args], options, expected[at])
