"""Tasks in a page, against what their references gave."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from support.harness.task_cases import check, models_folder
from support.page.page import encode, python
from support.tasks.calls import calls_of, named_fields
from webpte_host.harness.browser import Harness

_RUN = """
import json

def given(one):
    if isinstance(one, list):
        return [given(item) for item in one]
    if isinstance(one, dict) and "dtype" in one:
        return unpack(one)
    return {key: given(item) for key, item in one.items()} if isinstance(one, dict) else one

def plain(one):
    if isinstance(one, np.ndarray):
        return {"pixels": one.tolist()} if one.dtype == np.uint8 else one.tolist()
    if isinstance(one, dict):
        return {key: plain(item) for key, item in one.items()}
    return [plain(item) for item in one] if isinstance(one, list) else one

async with await webpte.tasks.open(name, f"/tasks/{model}", strict=True) as task:
    if added:
        await task.add(added)
    if noise:
        drawn = iter(given(noise))
        options["draw"] = lambda shape: next(drawn).reshape(shape)
    found = plain(await task(*given(args), **given(options)))
return json.dumps(found)
"""


def name_task(model: str, task: str) -> str:
    """Write a manifest that names a task into the folder of a model; return the file's name."""
    name = f"{task}.manifest.json"
    content = {"task": task, "program": "model.pte"}
    (models_folder() / model / name).write_text(json.dumps(content), encoding="utf-8")
    return name


def packed(argument: Any) -> Any:
    """Return an argument of a case as the page takes it."""
    if isinstance(argument, dict):
        return {key: packed(one) for key, one in argument.items()}
    if isinstance(argument, list):
        return [packed(one) for one in argument]
    return encode(argument) if isinstance(argument, np.ndarray) else argument


def check_task(harness: Harness, task: str) -> None:
    """Run the calls of a task in the page, and compare their results."""
    for call in calls_of(task):
        given = {"args": call.args, "options": call.options, "noise": call.noise}
        told = packed({**given, "name": task, "model": call.model, "added": call.added})
        found = json.loads(python(harness, _RUN, **told))
        where = f"{task} of {call.model}"
        check(named_fields(found, call.wanted), call.wanted, where, tolerance=1e-3)
