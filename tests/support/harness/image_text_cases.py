"""Calls of image-text-to-text whose results transformers gave: tests/data/image_text."""

from __future__ import annotations

import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from support.harness.task_cases import make_picture

DATA = Path(__file__).parents[2] / "data" / "image_text"
ARCHIVE, EXPECTED = DATA / "models.tar.xz", DATA / "expected.json"
STEPS = DATA / "steps.npz"  # of models that see grids, on the way to an answer

WIDE, HIGH, SMALL = {"picture": [23, 61]}, {"picture": [67, 29]}, {"picture": [9, 9]}


def user(*parts: Any) -> dict[str, Any]:
    """Return a message of a user: texts, and pictures."""
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "image": part}
        for part in parts
    ]
    return {"role": "user", "content": content}


SAID = {"role": "assistant", "content": [{"type": "text", "text": "Two dogs."}]}
FIRST = user(WIDE, "What is in the picture?")

# (model, arguments of the pipeline, options)
_ALL: list[dict[str, Any]] = [
    {"text": [user(HIGH, "What is in the picture?")]},
    {"text": [user("Describe it in one word.", SMALL)]},
    {"images": [SMALL, WIDE], "text": "One <image>, and two <image>: it"},
    {"text": [FIRST, SAID, user("How many are there?")]},
    {"text": [user("No picture at all?")]},
]
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (model, given, {"max_new_tokens": 8})
    for model, count in (("tiles", 5), ("one-tile", 3), ("patches", 5))
    for given in _ALL[:count]
]
# In the text of models that see grids, a picture has other tokens.
_SEEN = "<|vision_start|><|image_pad|><|vision_end|>"
_GRIDS = [
    {**given, "text": given["text"].replace("<image>", _SEEN)} if "images" in given else given
    for given in _ALL
]
CASES += [
    (model, given, {"max_new_tokens": 8})
    for model, count in (("grid", 5), ("windows", 4))
    for given in _GRIDS[:count]
]
STEP_PICTURES = [WIDE, SMALL, HIGH]
STEP_SPLIT = 19  # a place within the first picture, where the prompt can be split
STEP_TEXT = f"One {_SEEN}, and two {_SEEN}{_SEEN}: it is"


def made(value: Any) -> Any:
    """Return an argument with its pictures made."""
    if isinstance(value, dict) and value.keys() == {"picture"}:
        return make_picture(*value["picture"])
    if isinstance(value, dict):
        return {key: made(one) for key, one in value.items()}
    return [made(one) for one in value] if isinstance(value, list) else value


@cache
def models_folder() -> Path:
    """Return a folder with the models, unpacked."""
    folder = Path(tempfile.mkdtemp(prefix="webpte-image-text-"))
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder
