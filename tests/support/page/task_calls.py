"""A call of every task, for a page of the tests, with the result that its reference gave.

The references are those of the unit tests: recorded results of transformers, basic-pitch and
PyTorch. All models are served with those of `task_cases`, at `/tasks/`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from support.harness import image_text_cases, sounds
from support.harness.task_cases import CASES, EXPECTED, LONG, SHORT, made, models_folder
from support.llm import text_generation_cases
from support.llm.small_seq2seq import (
    SPOKEN,
    kept,
    sound,
    text_answers,
    text_of,
    whisper_folder,
    write_folder,
)
from support.music import music_cases
from support.reader import reader_cases


@dataclass(frozen=True)
class TaskCall:
    """A call of a task, and its result.

    model    the folder of the model at /tasks/
    wanted   the result; of tables, only the fields that are named here
    added    documents that are added before the call
    noise    what the task draws, in this order
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
    for call in chain(_pipelines(), _texts(), _heard(), _spoken(), _seen(), _found()):
        table.setdefault(call.task, []).append(call)
    return table


def calls_of(task: str) -> Sequence[TaskCall]:
    """Return the calls of a task, one or more."""
    found = _table().get(task)
    assert found, f"{task} has no call here: add one, with the result of a reference"
    return found


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _placed(folder: Path, name: str) -> str:
    """Copy a model to those that are served; return its name there."""
    shutil.copytree(folder, models_folder() / name, dirs_exist_ok=True)
    return name


def _pipelines() -> Iterator[TaskCall]:
    """Yield the last case of each task that has cases, and of the two kinds of places in a text."""
    expected = _read(EXPECTED)
    last = {case[1]: at for at, case in enumerate(CASES)}
    others = {case[0]: at for at, case in enumerate(CASES) if case[0] in ("entities", "answers")}
    for at in (*last.values(), *others.values()):
        model, task, args, options = CASES[at]
        yield TaskCall(task, model, [made(one) for one in args], options, expected[at])


def _texts() -> Iterator[TaskCall]:
    results = {"text2text-generation": "generated_text", "summarization": "summary_text"}
    folder = models_folder() / "t5"
    folder.mkdir(exist_ok=True)
    write_folder(folder, "t5", 41)
    texts, answers = text_answers("t5", 2)
    for task, key in {**results, "translation": "translation_text"}.items():
        wanted = [{key: answer} for answer in answers]
        yield TaskCall(task, "t5", [texts], {"max_new_tokens": 12}, wanted)
    rows = _read(text_generation_cases.EXPECTED)
    chosen = {case[0]: at for at, case in enumerate(text_generation_cases.CASES)}
    for at in (0, *chosen.values()):
        model, given, options = text_generation_cases.CASES[at]
        where = _exported(models_folder() / model) if model == "sequels" else model
        yield TaskCall("text-generation", where, [given], options, rows[at])


def _exported(folder: Path) -> str:
    """Place a language model as `serve.py export FOLDER out/chat` does; return what opens it."""
    _placed(folder, "out")
    (models_folder() / "out" / "model.manifest.json").unlink()
    (models_folder() / "out" / "model.pte").rename(models_folder() / "out" / "chat.pte")
    manifest = models_folder() / "out" / "chat.manifest.json"
    manifest.write_text('{"program": "chat.pte"}', encoding="utf-8")
    return "out/chat"


def _heard() -> Iterator[TaskCall]:
    task, number = "automatic-speech-recognition", 1
    whisper, case = _placed(whisper_folder(), "whisper"), SPOKEN[number]
    wanted = {"text": text_of(kept("whisper")[f"texts{number}"].tolist())}
    args, options = [sound(case.seconds)], {"language": case.language}
    yield TaskCall(task, whisper, args, options, wanted)
    moonshine = _placed(sounds.moonshine_folder(), "moonshine")
    with np.load(sounds.HEARD_TOKENS) as told:
        tokens = [token for token in told["tokens0"].tolist() if token not in (1, 2)]
    args, wanted = [sound(sounds.HEARD[0])], {"text": text_of(tokens)}
    yield TaskCall(task, moonshine, args, {}, wanted)
    name, options = music_cases.CASES[0]
    fields = ("start", "end", "pitch", "amplitude", "pitch_bends")
    rows = _read(music_cases.EXPECTED)[0]
    notes = [dict(zip(fields, row, strict=True)) for row in rows]
    args = [music_cases.SOUNDS[name]()]
    yield TaskCall("audio-to-midi", "music", args, options, notes)


def _spoken() -> Iterator[TaskCall]:
    with np.load(sounds.SPOKEN) as told:
        for number in (1, 4):  # with drawn, and with fixed durations
            voice, text, options = sounds.SAID[number]
            names = sorted(name for name in told if name.startswith(f"noise{number}_"))
            audio, rate = told[f"audio{number}"].tolist(), int(told[f"rate{number}"])
            yield TaskCall(
                "text-to-speech",
                _placed(sounds.voices_folder() / voice, f"voice-{voice}"),
                [text],
                options,
                {"audio": audio, "sampling_rate": rate},
                noise=[told[name] for name in names],
            )


def _seen() -> Iterator[TaskCall]:
    task = "image-text-to-text"
    for seeing in ("patches", "grid"):
        cases = [at for at, case in enumerate(image_text_cases.CASES) if case[0] == seeing]
        at = cases[3]  # two questions, a picture
        model, given, options = image_text_cases.CASES[at]
        answer = _read(image_text_cases.EXPECTED)[at]["generated_text"]
        options = {**image_text_cases.made(given), **options, "return_full_text": False}
        folder = image_text_cases.models_folder() / model
        yield TaskCall(
            task, _placed(folder, f"seeing-{model}"), [], options, [{"generated_text": answer}]
        )
    args, options = [reader_cases.page()], reader_cases.OPTIONS
    lines = _read(reader_cases.EXPECTED)
    yield TaskCall("optical-character-recognition", "reader", args, options, lines)


def _found() -> Iterator[TaskCall]:
    """Yield a query whose vector, and those of the documents, transformers gave."""
    at = max(at for at, case in enumerate(CASES) if case[1] == "feature-extraction")
    assert CASES[at][2] == [[LONG, "ok", SHORT]]
    query, *vectors = np.array(_read(EXPECTED)[at])
    found: list[dict[str, Any]] = [
        {"text": text, "document": f"{text[:2]}.txt", "score": float(query @ vector)}
        for text, vector in zip(("ok", SHORT), vectors, strict=True)
    ]
    documents = [{"name": one["document"], "text": one["text"]} for one in found]
    wanted = sorted(found, key=lambda one: -one["score"])
    yield TaskCall("retrieval", "vectors", [LONG], {}, wanted, added=documents)


def named_fields(found: Any, wanted: Any) -> Any:
    """Return a result with only those fields of tables that are wanted."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {key: named_fields(found[key], one) for key, one in wanted.items()}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [named_fields(*pair) for pair in zip(found, wanted, strict=True)]
    return found
