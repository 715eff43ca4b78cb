"""Compiled programs that answer a sound in tokens: features and times as Python computes them."""

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
from support.harness import extent
from support.harness.sounds import moonshine_folder
from support.llm.small_seq2seq import sound, whisper_folder
from webpte.tasks.sound.speech import LogMel
from webpte.tasks.sound.speech.timestamps import TimestampRule, split

Table = dict[str, Any]
TASK = "automatic-speech-recognition"
MODULE = "listen-index"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_in(tmp_path_factory.mktemp("modules"))


def compiled(model: Path, out: Path) -> Table:
    more = dict.fromkeys(("tokenizers.js", "jinja.js"), b"")
    more["tokenizer.json"] = (model / "tokenizer.json").read_bytes()
    asyncio.run(webpte.compile(model, out, task=TASK, more=more))
    assert (out / "webpte-listen.js").is_file()
    assert not (out / "jinja.js").exists()
    table: Table = json.loads((out / "program.json").read_text("utf-8"))
    return table


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return compiled(whisper_folder(), tmp_path_factory.mktemp("whisper") / "out")


@pytest.fixture(scope="module")
def moonshine(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return compiled(moonshine_folder(), tmp_path_factory.mktemp("moonshine") / "out")


def test_the_description_of_a_whisper(whisper: Table) -> None:
    assert whisper["task"]["input"] == {
        "kind": "spoken",
        "rate": 16_000,
        "longest": 16_000,
        "frames": None,
        "features": {"bands": 8, "fft": 400, "hop": 160},
        "tokenizer": "tokenizer.json",
        "config": None,
    }
    decoder = whisper["task"]["decoder"]
    assert decoder["languages"] == {"en": 22, "de": 23}
    assert (decoder["prompt"], decoder["ends"], decoder["times"]) == ([21], [20], [29, 25])
    methods = whisper["methods"]
    prompts = {plan["shapes"][0][1] for plan in methods["text_decoder"]["plans"]}
    assert prompts == {1, 3, 4}  # a token; language and task; no timestamps
    for plan in methods["text_decoder.greedy"]["plans"]:
        assert plan["shapes"][0] == [1, 1]
        assert plan["result"] <= 32  # a token, no logits


def test_a_moonshine_has_plans_for_lengths_of_whole_frames(moonshine: Table) -> None:
    plans = moonshine["methods"]["encoder"]["plans"]
    lengths = [plan["shapes"][0][1] for plan in plans]
    assert [(length - 511) / 384 for length in lengths] == [1248, 624, 312, 156, 78, 39]
    encoded = {plan["results"][0]["shape"][2] for plan in plans}
    steps = {p["shapes"][2][2] for p in moonshine["methods"]["text_decoder.greedy"]["plans"]}
    assert steps == encoded


FEATURES = """
const { makeFeatures } = await import("./listen-features.mjs");
const { data, frames } = makeFeatures(given.settings)(Float32Array.from(given.samples));
return [[...data], frames];
"""


@pytest.mark.parametrize(
    "mel", [LogMel(8, 400, 160, 16000, 1), LogMel(5, 123, 50, 8000, 1), LogMel(40, 64, 64, 16000)]
)
@pytest.mark.parametrize("seconds", [0.1, 1.3])
def test_features_are_those_of_python(modules: Path, mel: LogMel, seconds: float) -> None:
    samples = sound(seconds)
    names = ("bands", "fft", "hop", "rate")
    settings = {name: getattr(mel, name) for name in names} | {"longest": mel.window_samples}
    given = {"settings": settings, "samples": samples.tolist()}
    data, frames = run(modules, FEATURES, given)
    wanted = mel.features(samples)
    found = np.array(data, np.float32).reshape(mel.bands, frames)
    assert np.allclose(found, wanted, atol=1e-6)


RULED = """
const { makeRule } = await import("./listen-times.mjs");
return given.cases.map(({ first, latest, end, history, logits }) => {
    const row = Float32Array.from(logits);
    makeRule(first, latest, end)(history, row);
    return [...row].map((value) => (Number.isFinite(value) ? value : null));
});
"""


def test_timestamps_are_ruled_as_in_python(modules: Path) -> None:
    rng = np.random.default_rng(3)
    cases: list[Table] = []
    wanted = []
    for case in range(200):
        first, end, latest = 20, 15, [None, 4][case % 2]
        history = rng.integers(10, 40, rng.integers(0, 6)).tolist()
        history = [*sorted(history[:2]), *history[2:]]
        logits = rng.normal(0, 3, 40).astype(np.float32)
        cases.append(
            {"first": first, "latest": latest, "end": end}
            | {"history": history, "logits": logits.tolist()}
        )
        ruled = TimestampRule(0, first, end, latest)(history, logits)
        wanted.append([float(np.float32(one)) if np.isfinite(one) else None for one in ruled])
    assert run(modules, RULED, {"cases": cases}) == wanted


SPLIT = """
const { split } = await import("./listen-times.mjs");
return given.cases.map((tokens) => split(tokens, 20, 15));
"""


def test_segments_are_those_of_python(modules: Path) -> None:
    rng = np.random.default_rng(4)
    cases = [rng.integers(10, 32, rng.integers(0, 9)).tolist() for _ in range(200)]
    cases += [[20, 3, 24], [20, 3, 24, 24, 5, 29], [20, 3, 24, 24], [24], []]
    wanted = []
    for tokens in cases:
        spans, understood = split(tokens, 20, 15)
        wanted.append([[list(span.tokens) for span in spans], understood])
    assert run(modules, SPLIT, {"cases": cases}) == wanted


# Tasks that are wrong in a single place.
BROKEN: dict[str, Callable[[Table], Any]] = {
    "no encoder": lambda t: t.update(method="__proto__"),
    "no decoder": lambda t: t.pop("decoder"),
    "no steps": lambda t: t["decoder"].update(greedy="encoder"),
    "no rate": lambda t: t["input"].update(rate=0),
    "no features": lambda t: t["input"].update(features=None),
    "other features": lambda t: t["input"]["features"].update(bands=9),
    "no window": lambda t: t["input"].update(longest=0),
    "a position that is none": lambda t: t["decoder"].update(position=9),
    "a prompt of texts": lambda t: t["decoder"].update(prompt=["a"]),
    "no languages": lambda t: t["decoder"].update(languages=None),
    "times that are none": lambda t: t["decoder"].update(times=[0, None]),
    "a tokenizer elsewhere": lambda t: t["input"].update(tokenizer="../secret.json"),
}


def test_hostile_tasks_are_refused(modules: Path, whisper: Table) -> None:
    check_refused_task(modules, MODULE, whisper, BROKEN)


@pytest.mark.parametrize("family", extent.some(["whisper"], "moonshine"))
def test_whatever_changes_only_typed_errors_follow(
    modules: Path, request: pytest.FixtureRequest, family: str
) -> None:
    table = copy.deepcopy(request.getfixturevalue(family))
    for method in table["methods"].values():
        for plan in method.get("plans", ()):
            del plan["dispatches"][1:]  # most values of a table, which are alike
        if "plans" in method:
            del method["plans"][1:]
    kept = {"encoder", "text_decoder", "text_decoder.greedy"}
    table["methods"] = {name: one for name, one in table["methods"].items() if name in kept}
    check_changes(modules, MODULE, table)
