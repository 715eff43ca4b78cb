"""Tasks in the page: from URLs, with the browser's tokenizers and pictures, on WebGPU."""

from __future__ import annotations

import base64
import json

import pytest

import webpte
from page.shared.outputs.pictures import bmp
from support.harness import extent
from support.harness.task_cases import CASES, EXPECTED, check, make_picture
from support.page.page import python
from support.page.task_page import check_task, packed
from webpte_host.harness.browser import Harness

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


# Kinds of input and output; unit tests have all tasks, tests/browser/views/test_task_view.py has
# tasks with pictures and sounds on WebGPU, tests/native has speech, and pictures in prompts.
USUAL = [
    *("automatic-speech-recognition", "feature-extraction", "question-answering", "retrieval"),
    *("text-generation", "translation", "zero-shot-image-classification"),
]
OTHERS = [name for name in webpte.tasks.names() if name not in USUAL]


@pytest.mark.parametrize("task", extent.some(USUAL, *OTHERS))
def test_results_are_those_of_the_reference(harness: Harness, task: str) -> None:
    check_task(harness, task)


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
