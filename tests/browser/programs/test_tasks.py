"""Tasks in the page: from URLs, with the browser's tokenizers and pictures, on WebGPU."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from page.outputs.pictures import bmp
from support.harness.task_cases import CASES, EXPECTED, check, make_picture
from support.page.page import python
from support.page.task_page import check_tasks, packed
from webpte_host.harness.browser import Harness

RUN = """
import json

task = await webpte.tasks.open(name, f"/tasks/{model}", keep=False)
found = [await task(*args, **options) for args, options in calls]
task.close()
return json.dumps(found)
"""

PICTURES = """
import json
from js import Blob
from pyodide.ffi import to_js

async with await webpte.tasks.open("image-classification", "/tasks/shapes/") as task:
    data = base64.b64decode(file)
    ways = [unpack(pixels), data, Blob.new([to_js(data)])]
    found = [await task(one) for one in ways]
    problems = [
        await raises(webpte.errors.SourceError, task(b"no picture")),
        await raises(webpte.errors.SourceError, task("/tasks/none.bmp")),
        await raises(webpte.errors.InputError, task(3)),
    ]
missing = await raises(
    webpte.errors.SourceError, webpte.tasks.open("fill-mask", "/tasks/shapes/")
)
return json.dumps([found, problems, missing])
"""

# Each with its last case.
SEEN_AND_HEARD = (
    *("object-detection", "depth-estimation", "image-segmentation", "mask-generation"),
    *("zero-shot-image-classification", "image-to-image", "background-removal"),
    *("voice-activity-detection", "zero-shot-object-detection"),
)


def test_what_is_seen_and_heard_is_as_in_the_pipeline(harness: Harness) -> None:
    """One page runs a model of each task."""
    check_tasks(harness, SEEN_AND_HEARD)


@pytest.mark.parametrize(
    ("model", "task"),
    [("entities", "token-classification"), ("byte-answers", "question-answering")],
)
def test_texts_are_as_in_the_pipeline(harness: Harness, model: str, task: str) -> None:
    """The page finds the places of tokens itself, for word pieces and for byte-level BPE."""
    expected: list[Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    rows = [(case, at) for at, case in enumerate(CASES) if case[:2] == (model, task)]
    calls = [[args, options] for (_, _, args, options), _ in rows]
    found = json.loads(python(harness, RUN, name=task, model=model, calls=calls))
    for result, (_, at) in zip(found, rows, strict=True):
        check(result, expected[at], tolerance=1e-3)


def test_a_picture_is_an_array_or_a_file(harness: Harness) -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    at = next(at for at, case in enumerate(CASES) if case[0] == "shapes")
    picture = make_picture(*CASES[at][2][0]["picture"])
    file = base64.b64encode(bmp(picture)).decode()
    found, problems, missing = json.loads(
        python(harness, PICTURES, pixels=packed(picture), file=file)
    )
    for result in found:
        check(result, expected[at], tolerance=1e-3)
    assert "cannot read the picture" in problems[0]
    assert "404" in problems[1]
    assert "is not a picture" in problems[2]
    assert "has no config.json" in missing or "has no tokenizer.json" in missing
