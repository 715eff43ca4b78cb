"""The base of tasks, and the table of them: each module beside this one adds its own."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar

from webpte.errors import InputError
from webpte.program import Program
from webpte.tasks.files import CONFIG, ModelFiles
from webpte.tasks.form import TaskForm


class Held(ABC):
    """A result that stays in memory for further calls of its task, until it is closed.

    told   names of attributes, with plain values, that callers from JavaScript see
    """

    told: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def close(self) -> None:
        """Free its memory; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Task(ABC):
    """An opened model that does one task; call it with what there is: `await task("Fine!")`.

    name     that of transformers' pipelines
    needed   files beside the program without which it cannot be opened
    wanted   files that are read if they are there
    form     its inputs, with an example, and its options; None if a page needs more than a form
    view     the view of the page that shows it
    calls    names of further methods that JavaScript can call: they take and give plain values, or
             give something `Held`
    """

    name: ClassVar[str] = ""
    needed: ClassVar[Sequence[str]] = (CONFIG,)
    wanted: ClassVar[Sequence[str]] = ()
    calls: ClassVar[Sequence[str]] = ()
    form: ClassVar[TaskForm | None] = None
    view: ClassVar[str] = ""

    def __init__(self, files: ModelFiles) -> None:
        """Check that the files fit the task; raise InputError if they do not."""
        self.files = files

    @property
    def program(self) -> Program:
        """The program that runs; `recover` it after a DeviceLostError."""
        return self.files.program

    @abstractmethod
    async def __call__(self, *given: Any, **options: Any) -> Any:
        """Do the task; see the class."""

    async def each(
        self,
        inputs: Iterable[Any] | AsyncIterable[Any],
        *given: Any,
        batch_size: int = 32,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Yield the result of each input, in order, of any number of them.

        inputs      one after the other what the task takes in a list; they may be awaited
        batch_size  inputs that are prepared together; of those the program computes as many at once
                    as it takes
        given, options  what the task is called with besides
        """
        if type(batch_size) is not int or batch_size < 1:
            raise InputError(f"batch_size is {batch_size!r}; a batch has an input or more")
        # The host prepares one batch while the GPU computes the other; but a result does not wait
        # for inputs that are still to come.
        most = 1 if isinstance(inputs, AsyncIterable) else 2
        running = deque[asyncio.Future[Any]]()
        try:
            async for batch in _batches(inputs, batch_size):
                running.append(asyncio.ensure_future(self(batch, *given, **options)))
                if len(running) == most:
                    for found in await running.popleft():
                        yield found
            while running:
                for found in await running.popleft():
                    yield found
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def close(self) -> None:
        """Free the program's memory. The task cannot be called afterwards."""
        self.program.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def _batches(
    inputs: Iterable[Any] | AsyncIterable[Any], size: int
) -> AsyncIterator[list[Any]]:
    """Yield lists of inputs, all of a size but the last one."""
    batch = list[Any]()
    async for one in inputs if isinstance(inputs, AsyncIterable) else awaited(inputs):
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def awaited(inputs: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield each of some inputs."""
    for one in inputs:
        yield one


TASKS: dict[str, type[Task]] = {}
Made = TypeVar("Made", bound=type[Task])


def task(name: str, *, form: TaskForm | None = None, view: str = "task") -> Callable[[Made], Made]:
    """Add a class to the table, by the name that it is opened by.

    form   its inputs, with an example, and its options; None only for a `view` of its own
    view   the view of the page that shows it
    """
    assert (form is None) == (view != "task"), name

    def add(made: Made) -> Made:
        assert name not in TASKS, name
        made.name, made.form, made.view = name, form, view
        TASKS[name] = made
        return made

    return add
