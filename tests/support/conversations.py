"""Language models on NumPy, what they say, and calls of them that fail or take their time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import webpte
from webpte.errors import ExecutionError
from webpte.llm import Generation, Generator


async def load(path: Path) -> webpte.Program:
    return await webpte.load(path, device="numpy")


async def tokens_of(generation: Generation) -> list[int]:
    return [token async for token in generation]


async def greedy(path: Path, context: list[int], count: int) -> list[int]:
    """What follows a context that a fresh program is given at once."""
    return await tokens_of(Generator(await load(path)).generate(context, count))


class failing:  # noqa: N801 - reads as a verb
    """The program's next calls run, and then say that they failed."""

    def __init__(self, program: webpte.Program) -> None:
        self._program = program

    def __enter__(self) -> None:
        for name in ("run", "run_argmax", "run_unread"):
            setattr(self._program, name, self._fail(getattr(self._program, name)))

    def __exit__(self, *_: object) -> None:
        for name in ("run", "run_argmax", "run_unread"):
            delattr(self._program, name)

    def _fail(self, call: Any) -> Any:
        async def run(*arguments: Any, **options: Any) -> None:
            await call(*arguments, **options)
            raise ExecutionError("no device")

        return run


def slow(program: webpte.Program) -> None:
    """Calls take several turns of the event loop, as they do on a GPU."""
    for name in ("run", "run_argmax", "run_unread"):
        call = getattr(program, name)

        async def later(*arguments: Any, call: Any = call, **options: Any) -> Any:
            result = await call(*arguments, **options)
            for _ in range(5):
                await asyncio.sleep(0)
            return result

        setattr(program, name, later)
