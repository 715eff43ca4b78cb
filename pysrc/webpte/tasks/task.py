"""The base of tasks, and the table of them: each module beside this one adds its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from webpte.runtime.program import Program
from webpte.tasks.files import CONFIG, ModelFiles


class Task(ABC):
    """An opened model that does one task; call it with what there is: `await task("Fine!")`.

    name     that of transformers' pipelines
    needed   files beside the program without which it cannot be opened
    wanted   files that are read if they are there
    """

    name: ClassVar[str] = ""
    needed: ClassVar[Sequence[str]] = (CONFIG,)
    wanted: ClassVar[Sequence[str]] = ()

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

    def close(self) -> None:
        """Free the program's memory. The task cannot be called afterwards."""
        self.program.close()

    async def __aenter__(self) -> Task:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


TASKS: dict[str, type[Task]] = {}
Made = TypeVar("Made", bound=type[Task])


def task(name: str) -> Callable[[Made], Made]:
    """Add a class to the table, by the name that it is opened by."""

    def add(made: Made) -> Made:
        assert name not in TASKS, name
        made.name = name
        TASKS[name] = made
        return made

    return add
