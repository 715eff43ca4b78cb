"""Tasks by name: a model is opened from its folder and called with what there is.

    task = await webpte.tasks.open("text-classification", "out/feelings")
    print(await task("What a day!"))        # [{"label": "glad", "score": 0.98}]

Names, options and results are those of transformers' pipelines. How an input is prepared, and what
the numbers of a result mean, is read from the files beside the program. See docs/tasks.md.

Importing this package imports every module in it, and so fills the table of tasks: a new task is a
new file and no list to edit.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from webpte.errors import InputError
from webpte.tasks.files import open_files
from webpte.tasks.task import TASKS, Task

__all__ = ["Task", "names", "open"]

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)


def names() -> list[str]:
    """Return the names of all tasks."""
    return sorted(TASKS)


async def open(task: str, source: str | Path, **loading: Any) -> Task:
    """Open a model for a task.

    task     one of `names()`
    source   the folder of the model, its manifest or its program: a path, in the browser a URL
    loading  arguments of `webpte.load`: device, keep, progress, ...
    """
    made = TASKS.get(task)
    if made is None:
        raise InputError(f"there is no task {task!r}; there are {', '.join(names())}")
    files = await open_files(task, source, made.needed, made.wanted, **loading)
    try:
        return made(files)
    except BaseException:
        files.program.close()
        raise
