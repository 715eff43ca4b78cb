"""Compiled programs that hear letters: their description, and texts as Python's task hears them."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.compiling.hostile import check_changes, check_refused_task
from support.compiling.node import modules_in, run
from support.harness.sounds import SPELLED, letters_folder
from support.llm.small_seq2seq import sound
from webpte.tasks.sound.speech.windows import windows_of

Table = dict[str, Any]
TASK = "automatic-speech-recognition"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Table:
    out = tmp_path_factory.mktemp("compiled") / "out"
    more = dict.fromkeys(("tokenizer.json", "tokenizers.js", "jinja.js"), b"")
    asyncio.run(webpte.compile(letters_folder(), out, task=TASK, more=more))
    assert (out / "webpte-speech.js").is_file()
    assert not [name for name in more if (out / name).exists()]  # its letters are described
    assert not (out / "webpte-task.js").exists()
    table: Table = json.loads((out / "program.json").read_text("utf-8"))
    return table


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_in(tmp_path_factory.mktemp("modules"))


def test_the_description_of_a_model_of_letters(described: Table) -> None:
    assert described["task"] == {
        "name": TASK,
        "method": "forward",
        "input": {"kind": "speech", "rate": 16_000, "normalizes": True},
        "outputs": [
            {
                "kind": "letters",
                "labels": ["", *SPELLED[1:4], " ", *SPELLED[5:]],
                "blank": 0,
                "outputs": [0],
            }
        ],
    }


# A program whose frames of 320 samples have the letter that the first of their samples says, which
# is a tenth of it.
HEARD = """
const { openTask } = await import("./speech.mjs");
const calls = [];
const run = async (name, [{ data, shape }]) => {
    calls.push([...shape, [...data]]);
    const [frames, letters] = given.table.methods.forward.plans[0].results[0].shape.slice(1);
    const logits = new Float32Array(frames * letters);
    for (let i = 0; i < frames; i++) logits[i * letters + Math.round(10 * data[i * 320])] = 1;
    return [{ dtype: "float32", shape: [1, frames, letters], data: logits }];
};
const grown = [];
const task = openTask({ run }, given.table);
const samples = Float32Array.from(given.samples);
const [{ kind, text }] = await task.answer(samples, { onText: (one) => grown.push(one) });
return { kind, text, grown, calls };
"""


def spelled(text: str) -> np.ndarray:
    """Return samples in which the program above hears a text; "-" is no letter."""
    numbers = [0 if one == "-" else SPELLED.index("|" if one == " " else one) for one in text]
    return np.repeat(np.array(numbers, np.float32) / 10, 320)


def test_repeated_letters_count_once(modules: Path, described: Table) -> None:
    table = copy.deepcopy(described)
    table["task"]["input"]["normalizes"] = False
    given = {"table": table, "samples": spelled("--  thhee-e  s-eeaa -").tolist()[:-100]}
    found = run(modules, HEARD, given)
    assert (found["kind"], found["text"], found["grown"]) == ("text", "thee sea", ["thee sea"])
    # Silence fills the call, and its frames are not heard.
    (call,) = found["calls"]
    assert call[:2] == [1, 16_000]
    assert call[2][: len(given["samples"])] == given["samples"]
    assert not any(call[2][len(given["samples"]) :])
    assert run(modules, HEARD, {"table": table, "samples": []})["text"] == ""


def test_samples_are_normalized(modules: Path, described: Table) -> None:
    samples = sound(0.2).astype(np.float32) + np.float32(0.3)
    ((_, _, call),) = run(modules, HEARD, {"table": described, "samples": samples.tolist()})[
        "calls"
    ]
    wanted = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)
    assert np.allclose(call[: len(samples)], wanted, atol=1e-5)


PARTS = """
const { openTask } = await import("./speech.mjs");
const parts = [];
const [, frames, letters] = given.table.methods.forward.plans[0].results[0].shape;
const run = async (name, [{ data }]) => {
    parts.push(data.findLastIndex((value) => value !== 0) + 1);
    const logits = new Float32Array(frames * letters);
    return [{ dtype: "float32", shape: [1, frames, letters], data: logits }];
};
await openTask({ run }, given.table).answer(Float32Array.from(given.samples));
return parts;
"""


def test_a_long_sound_is_cut_as_in_python(modules: Path, described: Table) -> None:
    table = copy.deepcopy(described)
    table["task"]["input"]["normalizes"] = False
    rng = np.random.default_rng(1)
    samples = rng.uniform(0.1, 0.5, 50_000).astype(np.float32)
    samples[12_000:12_600] = 0.01
    wanted = [end - start for start, end in windows_of(samples, 16_000, 16_000)]
    assert len(wanted) > 3
    assert run(modules, PARTS, {"table": table, "samples": samples.tolist()}) == wanted


# Tasks that are wrong in a single place.
BROKEN: dict[str, Callable[[Table], Any]] = {
    "no method": lambda t: t.update(method="__proto__"),
    "no rate": lambda t: t["input"].update(rate=0),
    "a flag": lambda t: t["input"].update(normalizes=1),
    "no results": lambda t: t.update(outputs=[]),
    "a result's kind": lambda t: t["outputs"][0].update(kind="scores"),
    "a result of no output": lambda t: t["outputs"][0].update(outputs=[4]),
    "too few letters": lambda t: t["outputs"][0]["labels"].pop(),
    "a letter that is none": lambda t: t["outputs"][0]["labels"].__setitem__(3, 7),
    "no blank": lambda t: t["outputs"][0].pop("blank"),
}


def test_hostile_tasks_are_refused(modules: Path, described: Table) -> None:
    check_refused_task(modules, "speech", described, BROKEN)


def test_whatever_changes_only_typed_errors_follow(modules: Path, described: Table) -> None:
    check_changes(modules, "speech", described)
