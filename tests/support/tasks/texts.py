"""Calls of the tasks that write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.harness.task_cases import models_folder
from support.llm import text_generation_cases
from support.llm.small_seq2seq import text_answers, write_folder
from support.tasks.calls import TaskCall, placed, read_json


def calls() -> Iterator[TaskCall]:
    results = {"text2text-generation": "generated_text", "summarization": "summary_text"}
    folder = models_folder() / "t5"
    folder.mkdir(exist_ok=True)
    write_folder(folder, "t5", 41)
    texts, answers = text_answers("t5", 2)
    for task, key in {**results, "translation": "translation_text"}.items():
        wanted = [{key: answer} for answer in answers]
        yield TaskCall(task, "t5", [texts], {"max_new_tokens": 12}, wanted)
    rows = read_json(text_generation_cases.EXPECTED)
    chosen = {case[0]: at for at, case in enumerate(text_generation_cases.CASES)}
    for at in (0, *chosen.values()):
        model, given, options = text_generation_cases.CASES[at]
        where = _exported(models_folder() / model) if model == "sequels" else model
        yield TaskCall("text-generation", where, [given], options, rows[at])


def _exported(folder: Path) -> str:
    """Place a language model as `serve.py export FOLDER out/chat` does; return what opens it."""
    placed(folder, "out")
    (models_folder() / "out" / "model.manifest.json").unlink()
    (models_folder() / "out" / "model.pte").rename(models_folder() / "out" / "chat.pte")
    manifest = models_folder() / "out" / "chat.manifest.json"
    manifest.write_text('{"program": "chat.pte"}', encoding="utf-8")
    return "out/chat"
