"""Language models on NumPy, their answers, and calls that fail or take long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import webpte
from webpte.errors import ExecutionError
from webpte.llm import Generation, Generator, kv_session
from webpte.llm.decode.decode_steps import DecodeSteps
from webpte.llm.passed_caches import session_decoder


async def load(path: Path) -> webpte.Program:
    return await webpte.load(path, device="numpy")


async def tokens_of(generation: Generation) -> list[int]:
    return [token async for token in generation]


async def cancelled_after(turns: int, answer: Generation) -> list[int]:
    """Ask for a token and cancel the request after some turns of the loop; return it if it came."""
    task = asyncio.ensure_future(anext(answer))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    results = await asyncio.gather(task, return_exceptions=True)
    return [token for token in results if isinstance(token, int)]


_GREEDY: dict[tuple[Path, tuple[int, ...]], tuple[int, list[int]]] = {}


async def greedy(path: Path, context: list[int], count: int) -> list[int]:
    """Return the tokens that follow a context which a fresh program gets at once.

    Many tests ask for the same, and the answer depends on nothing else: it is computed once. An
    answer that is long enough begins with the shorter one.
    """
    key = (path, tuple(context))
    if key not in _GREEDY or _GREEDY[key][0] < count:
        found = await tokens_of(Generator(await load(path)).generate(context, count))
        _GREEDY[key] = count, found
    return _GREEDY[key][1][:count]


class failing:  # noqa: N801 - reads as a verb
    """Make the program's next calls run, and then raise."""

    def __init__(self, program: webpte.Program) -> None:
        self._program = program

    def __enter__(self) -> None:
        async def fail(running: Awaitable[Any]) -> None:
            await running
            raise ExecutionError("no device")

        change_calls(self._program, fail)
        # Steps of an answer that has begun keep the rows they were made of.
        self._patches = [
            patch.object(DecodeSteps, name, lambda *given, inner=inner: fail(inner(*given)))
            for name, inner in (("sample", DecodeSteps.sample), ("submit", DecodeSteps.submit))
        ]
        for each in self._patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        restore_calls(self._program)
        for each in self._patches:
            each.stop()


def slow(program: webpte.Program) -> None:
    """Make calls take several turns of the event loop, as on a GPU."""

    async def later(running: Awaitable[Any]) -> Any:
        result = await running
        for _ in range(5):
            await asyncio.sleep(0)
        return result

    change_calls(program, later)


def change_calls(
    program: webpte.Program, change: Callable[[Awaitable[Any]], Awaitable[Any]]
) -> None:
    """Wrap all that a Generator awaits of a program, until `restore_calls`."""

    def changed_decoder(inner: Any) -> Any:
        sample, steps, run_unread = inner.sample, inner.steps, inner.run_unread
        inner.sample = lambda *given: change(sample(*given))
        inner.steps = lambda *given: changed_steps(steps(*given))
        inner.run_unread = lambda *given: change(run_unread(*given))
        return inner

    def changed_steps(steps: Any) -> Any:
        if not isinstance(steps, str):
            submit, single = steps.submit, steps.sample
            steps.submit = lambda *given: change(submit(*given))
            steps.sample = lambda *given: change(single(*given))
        return steps

    _CHANGED[program] = changed_decoder


def restore_calls(program: webpte.Program) -> None:
    """Undo `change_calls`."""
    del _CHANGED[program]


def _decoder_of(program: webpte.Program, *methods: Any) -> Any:
    found = session_decoder(program, *methods)
    return _CHANGED[program](found) if program in _CHANGED else found


_CHANGED: WeakKeyDictionary[webpte.Program, Callable[[Any], Any]] = WeakKeyDictionary()
setattr(kv_session, "session_decoder", _decoder_of)  # noqa: B010 - the tests' own in its place
