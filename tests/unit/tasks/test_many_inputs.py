"""Many inputs of a task: in batches of the program, with the results of each alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import LONG, SHORT, check, models_folder, plain
from webpte.errors import InputError
from webpte.tasks import Task

FOLDER = models_folder()
TEXTS = [SHORT[:length] for length in range(1, 20)]
ASKED = [{"question": SHORT[:at], "context": (LONG, SHORT)[at % 2]} for at in range(3, 9)]
LABELS = ["rain", "sun"]
PICTURES = [np.full((9, 7 + at, 3), 40 * at, np.uint8) for at in range(5)]


@pytest.fixture
def opened() -> Iterator[Callable[[str, str], Task]]:
    """Opens a task whose calls of the program are counted in `task.calls`."""
    made: list[Task] = []

    def open_task(name: str, model: str) -> Task:
        task: Any = asyncio.run(webpte.tasks.open(name, FOLDER / model, device="numpy"))
        run, task.calls = task.program.run, 0

        async def counted(*given: Any, **options: Any) -> Any:
            task.calls += 1
            return await run(*given, **options)

        task.program.run = counted
        made.append(task)
        return made[-1]

    yield open_task
    for task in made:
        task.close()


@pytest.mark.parametrize(
    ("name", "model", "inputs", "options", "most"),
    [
        ("text-classification", "feelings", TEXTS, {"top_k": None}, 3),
        ("zero-shot-classification", "verdicts", TEXTS, {"candidate_labels": LABELS}, 5),
        ("question-answering", "answers", ASKED, {"max_seq_len": 40}, 4),
        ("image-classification", "shapes", PICTURES, {}, 2),
        ("depth-estimation", "depths", PICTURES[:3], {}, 3),  # its program takes one
    ],
)
def test_results_are_those_of_each_alone(
    opened: Callable[[str, str], Any],
    name: str,
    model: str,
    inputs: list[Any],
    options: dict[str, Any],
    most: int,
) -> None:
    task = opened(name, model)

    async def run() -> None:
        alone = [plain(await task(one, **options)) for one in inputs]
        task.calls = 0
        check(plain(await task(inputs, **options)), alone)
        assert task.calls <= most
        for size in (1, 8, 100):
            each = [one async for one in task.each(inputs, batch_size=size, **options)]
            check(plain(each), alone)
        assert await task([], **options) == []

    asyncio.run(run())


def test_inputs_are_taken_as_they_are_needed(opened: Callable[[str, str], Any]) -> None:
    task, taken = opened("text-classification", "feelings"), list[str]()

    def endless() -> Iterator[str]:
        while True:
            taken.append(SHORT)
            yield SHORT

    async def run() -> None:
        results = task.each(endless(), batch_size=3)
        first = [await anext(results) for _ in range(4)]
        await results.aclose()
        assert first == [first[0]] * 4
        assert len(taken) == 9  # two batches that were begun to be read, and one under way

    asyncio.run(run())


def test_results_do_not_wait_for_inputs_to_come(opened: Callable[[str, str], Any]) -> None:
    task = opened("text-classification", "feelings")

    async def run() -> None:
        asked: asyncio.Queue[str] = asyncio.Queue()

        async def questions() -> AsyncIterator[str]:
            while True:
                yield await asked.get()

        results = task.each(questions(), batch_size=1)
        for text in TEXTS[:3]:
            asked.put_nowait(text)
            assert await anext(results) == (await task(text))[0]
        await results.aclose()

    asyncio.run(run())


def test_an_error_ends_it_and_leaves_the_task(opened: Callable[[str, str], Any]) -> None:
    task = opened("text-classification", "feelings")

    async def run() -> None:
        results = task.each([SHORT, SHORT, 7, SHORT], batch_size=1)
        found = [await anext(results), await anext(results)]
        with pytest.raises(InputError, match=r"give a text, .* not a int"):
            await anext(results)
        with pytest.raises(InputError, match="batch_size is 0"):
            await anext(task.each([SHORT], batch_size=0))
        assert [found[0]] == await task(SHORT)

    asyncio.run(run())
