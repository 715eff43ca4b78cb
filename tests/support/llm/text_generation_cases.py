"""Calls of text-generation whose results transformers gave: tests/data/tasks/written.json."""

from __future__ import annotations

from typing import Any

from support.harness.task_cases import DATA, WRITERS

__all__ = ["CASES", "EXPECTED", "WRITERS", "said"]

EXPECTED = DATA / "written.json"


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


QUESTION = said("user", "Tell me a short story, please.")
TALK = [
    said("system", "You answer what you are asked."),
    QUESTION,
    said("assistant", "Once upon a time there was a small model."),
    said("user", "What did it do?"),
]

# (model, the task's input, options)
CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("replies", "Once upon a time", {"max_new_tokens": 12}),
    ("replies", ["Hello! How", "The program is loaded"], {"max_new_tokens": 7}),
    ("replies", "What can I do", {"max_new_tokens": 9, "return_full_text": False}),
    ("replies", "", {"max_new_tokens": 5}),
    ("replies", [QUESTION], {"max_new_tokens": 12}),
    ("replies", TALK, {"max_new_tokens": 8, "return_full_text": False}),
    ("replies", [[QUESTION], TALK], {"max_new_tokens": 5}),
    ("replies", [QUESTION, said("assistant", "Once upon a")], {"max_new_tokens": 6}),
    ("sequels", "runs", {"max_new_tokens": 10}),
    ("sequels", ["weather", "café"], {"max_new_tokens": 8, "return_full_text": False}),
]
