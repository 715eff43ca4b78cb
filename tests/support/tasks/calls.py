"""A call of every task, for a page of the tests, with the result that its reference gave.

Each other module of this folder has calls of some tasks, found by their place: `calls()` yields
them. The references are the unit tests': recorded results of transformers, basic-pitch and
PyTorch. All models are served with those of `task_cases`, at `/tasks/`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from support.harness.task_cases import models_folder


@dataclass(frozen=True)
class TaskCall:
    """A call of a task, and its result.

    model    the folder of the model at /tasks/
    wanted   the result; of tables, only the fields that are named here
    added    documents that are added before the call
    noise    random numbers of the task, in this order
    """

    task: str
    model: str
    args: list[Any]
    options: dict[str, Any]
    wanted: Any
    added: list[Any] = field(default_factory=list)
    noise: list[Any] = field(default_factory=list)


@cache
def _table() -> Mapping[str, Sequence[TaskCall]]:
    table: dict[str, list[TaskCall]] = {}
    for module in iter_modules([str(Path(__file__).parent)]):
        if module.name != "calls":
            for call in import_module(f"support.tasks.{module.name}").calls():
                table.setdefault(call.task, []).append(call)
    return table


def calls_of(task: str) -> Sequence[TaskCall]:
    """Return the calls of a task, one or more."""
    found = _table().get(task)
    assert found, f"{task} has no call: add a file to tests/support/tasks"
    return found


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def placed(folder: Path, name: str) -> str:
    """Copy a model to the served models; return its name there."""
    shutil.copytree(folder, models_folder() / name, dirs_exist_ok=True)
    return name


def named_fields(found: Any, wanted: Any) -> Any:
    """Return a result with only those fields of tables that are wanted."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {key: named_fields(found[key], one) for key, one in wanted.items()}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [named_fields(*pair) for pair in zip(found, wanted, strict=True)]
    return found
