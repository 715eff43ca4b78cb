"""The base of tasks, and the table of tasks: each module of this folder adds its tasks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar

from webpte.errors import InputError, UnsupportedError
from webpte.program import Program
from webpte.tasks.files import CONFIG, ModelFiles
from webpte.tasks.form import TaskForm


class HeldResult(ABC):
    """A result that stays in memory for further calls of its task, until it is closed.

    fields   names of attributes with plain values, which JavaScript callers see
    """

    fields: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def close(self) -> None:
        """Free the memory; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Task(ABC):
    """An opened model for a task; call it with inputs: `await task("Fine!")`.

    name     the pipeline's name in transformers
    needed   required files next to the program
    wanted   optional files
    patterns names of further optional files, with * for any letters
    form     inputs with an example, and options; None if a page needs more than a form
    view     the view of the page for the task
    calls    names of further methods for JavaScript: they take plain values, and return plain
             values or a `HeldResult`
    """

    name: ClassVar[str] = ""
    needed: ClassVar[Sequence[str]] = (CONFIG,)
    wanted: ClassVar[Sequence[str]] = ()
    patterns: ClassVar[Sequence[str]] = ()
    calls: ClassVar[Sequence[str]] = ()
    form: ClassVar[TaskForm | None] = None
    view: ClassVar[str] = ""

    def __init__(self, files: ModelFiles) -> None:
        """Check that the files fit the task; raise InputError if they do not."""
        self.files = files

    @property
    def program(self) -> Program:
        """The loaded program; `recover` it after a DeviceLostError."""
        return self.files.program

    @classmethod
    def refusal(cls, paths: Collection[str]) -> str:
        """Return why a repository's model with programs of these paths is refused; "" if not."""
        return ""

    @abstractmethod
    async def __call__(self, *given: Any, **options: Any) -> Any:
        """Do the task; see the class."""

    def compiled(self) -> dict[str, Any]:
        """Return the preparation of inputs and the results as a compiled program describes them."""
        raise UnsupportedError(
            f"{self.name} cannot be compiled with its preparation: compile the program alone"
        )

    async def each(
        self,
        inputs: Iterable[Any] | AsyncIterable[Any],
        *given: Any,
        batch_size: int = 32,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Yield the result of each input, in order, for any number of inputs.

        inputs      inputs of the task, from an iterable or an async iterable
        batch_size  inputs to prepare together; the program computes as many of them at once as it
                    takes
        given, options  further arguments of the task
        """
        if type(batch_size) is not int or batch_size < 1:
            raise InputError(f"batch_size is {batch_size!r}; a batch has an input or more")
        # The host prepares a batch while the GPU computes another; but a result does not wait for
        # inputs that are still to come.
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
    """Yield lists of inputs, all of the same size except for the last list."""
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
    """Add a class to the table, under a name to open it by.

    form   inputs with an example, and options; None only with another `view`
    view   the view of the page for the task
    """
    assert (form is None) == (view != "task"), name

    def add(made: Made) -> Made:
        assert name not in TASKS, name
        made.name, made.form, made.view = name, form, view
        TASKS[name] = made
        return made

    return add
