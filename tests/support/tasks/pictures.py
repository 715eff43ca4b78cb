"""Calls of the tasks that read pictures."""

from __future__ import annotations

from collections.abc import Iterator

from support.harness import image_text_cases
from support.reader import reader_cases
from support.tasks.calls import TaskCall, placed, read_json


def calls() -> Iterator[TaskCall]:
    task = "image-text-to-text"
    for seeing in ("patches", "grid"):
        cases = [at for at, case in enumerate(image_text_cases.CASES) if case[0] == seeing]
        at = cases[3]  # two questions, a picture
        model, given, options = image_text_cases.CASES[at]
        answer = read_json(image_text_cases.EXPECTED)[at]["generated_text"]
        options = {**image_text_cases.made(given), **options, "return_full_text": False}
        folder = image_text_cases.models_folder() / model
        yield TaskCall(
            task, placed(folder, f"seeing-{model}"), [], options, [{"generated_text": answer}]
        )
    args, options = [reader_cases.page()], reader_cases.OPTIONS
    lines = read_json(reader_cases.EXPECTED)
    yield TaskCall("optical-character-recognition", "reader", args, options, lines)
