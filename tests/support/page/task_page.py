"""Tasks of pictures and sounds in a page, against what transformers gave."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from support.harness.task_cases import CASES, EXPECTED, check, made, models_folder
from support.page.page import python
from webpte_host.harness.browser import Harness

_RUN = """
import json
import numpy as np

def given(one):
    if isinstance(one, list):
        return [given(item) for item in one]
    return unpack(one) if isinstance(one, dict) and "dtype" in one else one

def plain(one):
    if isinstance(one, np.ndarray):
        return {"pixels": one.tolist()} if one.dtype == np.uint8 else one.tolist()
    if isinstance(one, dict):
        return {key: plain(item) for key, item in one.items()}
    return [plain(item) for item in one] if isinstance(one, list) else one

found = []
for model, name, args, options in calls:
    async with await webpte.tasks.open(name, f"/tasks/{model}", strict=True) as task:
        found.append(plain(await task(*[given(one) for one in args], **options)))
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
    if isinstance(argument, list):
        return [packed(one) for one in argument]
    if isinstance(argument, np.ndarray):
        data = base64.b64encode(argument.tobytes()).decode()
        return {"data": data, "dtype": str(argument.dtype), "shape": list(argument.shape)}
    return argument


def check_tasks(harness: Harness, names: Iterable[str]) -> None:
    """Run the last case of each task in the page, and compare the results."""
    expected: list[Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    rows = {case[1]: at for at, case in enumerate(CASES) if case[1] in names}
    assert rows.keys() == set(names)
    calls = [
        [model, task, [packed(made(arg)) for arg in args], options]
        for model, task, args, options in (CASES[at] for at in rows.values())
    ]
    found = json.loads(python(harness, _RUN, calls=calls))
    for result, at in zip(found, rows.values(), strict=True):
        check(result, expected[at], CASES[at][1], tolerance=1e-3)
