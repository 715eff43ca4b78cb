"""Tasks by name: a model is opened from its folder and called with inputs.

    task = await webpte.tasks.open("text-classification", "out/feelings")
    print(await task("What a day!"))        # [{"label": "glad", "score": 0.98}]

Names, options and results agree with transformers' pipelines. The files next to the program
define how inputs are prepared and results are read. See docs/use/tasks.md.

The first use imports every module of this package, and so fills the table of tasks: a new task is
a new file and no list to edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from webpte.engine.open.hub_name import is_hub
from webpte.errors import InputError, UnsupportedError
from webpte.hub.layouts import ChosenProgram
from webpte.program import Program
from webpte.tasks.detect import detect
from webpte.tasks.files import bind_files, find_program, open_files
from webpte.tasks.task import TASKS, Task

__all__ = ["Task", "bind", "find", "names", "open"]


@cache
def _table() -> Mapping[str, type[Task]]:
    """Import every module of this package, which fills the table of tasks, and return the table."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
    return TASKS


def names() -> list[str]:
    """Return the names of all tasks."""
    return sorted(_table())


async def open(task: str | Path, source: str | Path | None = None, **loading: Any) -> Task:
    """Open a model for a task.

    task     one of `names()`; without it, `tasks.open(source)`, the model's files name the task
    source   the folder of the model, its manifest or its program: a path, in the browser a URL;
             or the output name given to `serve.py export`; or hf:OWNER/NAME[/PATH][@REVISION]
    loading  arguments of `webpte.load`: device, keep, progress, ...
    """
    given: Any = task if source is None else source
    if source is None or is_hub(source):
        given = await find_program(given, bool(loading.get("keep")))
    if source is None:
        task = await detect(given, names())
    made = find(str(task))
    if isinstance(given, ChosenProgram) and (why := made.refusal([p.name for p in given.parts])):
        raise UnsupportedError(f"{given}: {why}")
    named = made.needed, made.wanted, made.patterns
    files = await open_files(made.name, given, *named, **loading)
    try:
        return made(files)
    except BaseException:
        files.program.close()
        raise


async def bind(task: str, program: Program, files: Mapping[str, bytes]) -> Task:
    """Make a task of a loaded program; closing the task closes the program.

    files   the contents of the files next to the program, by name: all of `find(task).needed`, and
            the existing files of `wanted` and `patterns`
    """
    made = find(task)
    return made(await bind_files(task, program, files, made.needed))


def find(task: str) -> type[Task]:
    """Return the class of a task; raise InputError for an unknown name."""
    made = _table().get(task)
    if made is None:
        raise InputError(f"there is no task {task!r}; there are {', '.join(names())}")
    return made
