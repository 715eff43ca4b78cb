"""The task view: a model with a task is given inputs, and its results are drawn by their fields."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import struct
import zlib
from html import unescape
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest

import webpte
from page.app import App
from page.shared.npy import write_npy
from page.views.task.asked import AskedTask
from page.views.task.results import WAYS, view_of_result
from page.views.task.results.answer import GivenPicture, GivenSound, TaskAnswer
from page.views.task.results.base import as_json, png_of
from support.harness.task_cases import models_folder
from support.music.music_cases import SOUNDS
from support.page.fake_page import FakeBrowser, File, drive
from support.page.task_page import name_task
from webpte.tasks.form import TEXT

RANDOM = np.random.default_rng(5)
PIXELS = RANDOM.integers(0, 256, (23, 31, 3), np.uint8)
PHOTO = File("photo.png", write_npy(PIXELS))


async def opened(app: App, model: str, task: str) -> None:
    await app.receive(
        {
            "act": "open-url",
            "fields": {"url": str(models_folder() / model / name_task(model, task))},
        }
    )
    await settled(app)


async def settled(app: App) -> None:
    """Wait until everything that was given is answered."""
    panel: Any = app._views.panel("task")
    while True:
        await asyncio.sleep(0)
        waiting = [task for task in panel._tasks if not task.done()]
        if not waiting:
            return
        await asyncio.wait(waiting)


def shown(browser: FakeBrowser) -> str:
    """Return the view with its newest result in its place."""
    return browser.html["view-task"] + browser.html.get("task-result", "")


def plain(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def test_every_task_has_a_form_or_a_view_of_its_own() -> None:
    made = [webpte.tasks.find(name) for name in webpte.tasks.names()]
    others = [one for one in made if one.form is None]
    assert 2 < len(others) < len(made) / 2
    for task in others:
        assert task.name in import_module(f"page.views.{task.view}.panel").VIEW.tasks


@pytest.mark.parametrize("name", webpte.tasks.names())
def test_the_example_of_a_form_is_a_call_of_its_task(name: str) -> None:
    task = webpte.tasks.find(name)
    if task.form is None:
        assert task.view != "task"
        return
    asked = AskedTask(name, task.form)
    asked.picture = asked.sound = cast("Any", "given")
    asked.points = [(0.5, 0.5)]
    assert not asked.missing()
    texts = [(one.named, one.name, one.value(one.start)) for one in task.form.fields]
    places = [] if task.form.kind == TEXT else ["given"]
    places += [value for named, _, value in texts if not named]
    names = {key: value for named, key, value in texts if named}
    names |= {one.name: one.start for one in task.form.sliders}
    names |= task.form.fixed
    names |= {"points": []} if task.form.points else {}
    call = inspect.signature(task.__call__)
    assert call.bind(None, *places, **names).arguments
    known = set(call.parameters) - {"options", "given"}
    assert known >= names.keys() or "options" in call.parameters
    for slider in task.form.sliders:
        assert slider.low <= slider.start <= slider.high


def test_a_program_of_another_views_task_opens_there() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "replies", "text-generation")
        assert app._state.front == "chat"
        assert "task" not in [name for name, _ in browser.other["tabs"]]
        await app.receive({"act": "open-url", "fields": {"url": "samples/digits.pte"}})
        assert app._state.front == "run"

    drive(script)


def test_a_manifest_with_a_task_opens_the_view() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "things", "object-detection")
        assert app._state.front == "task"
        assert ["task", "Task"] in browser.other["tabs"]
        assert "Object detection" in shown(browser)
        assert "Choose a picture" in shown(browser)
        await app.receive({"act": "task:files", "files": [PHOTO]})
        await settled(app)
        await app.receive({"act": "task:option", "name": "threshold", "value": "0"})
        await settled(app)
        assert not browser.html.get("error"), browser.html["error"]
        async with await webpte.tasks.open(
            "object-detection", models_folder() / "things", device="numpy"
        ) as task:
            wanted = await task(PIXELS, threshold=0.0)
        assert wanted
        assert f"{len(wanted)} things found" in shown(browser)
        result = browser.html["task-result"]
        assert result.count("<title>") == len(wanted)
        for one in wanted:
            assert f"{one['label']} {100 * one['score']:.1f} %" in plain(result)
        await app.receive({"act": "task:save"})
        saved = json.loads(browser.links[-1])
        assert [one["label"] for one in saved] == [one["label"] for one in wanted]
        assert browser.other["download"]["name"] == "photo.object-detection.json"
        await app.receive({"act": "task:png"})
        assert browser.other["script"]["task"]["save"] == "photo.object-detection.png"

    drive(script)


def test_a_text_is_answered_as_it_is_typed() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "feelings", "text-classification")
        first = browser.html["task-result"]
        assert 'class="bars task-bars"' in first  # the text that is there at first
        await app.receive({"act": "task:text", "name": "text", "value": "Oh no, it rains!"})
        await settled(app)
        assert browser.html["task-result"] != first
        await app.receive({"act": "task:text", "name": "text", "value": "  "})
        await settled(app)
        assert "Write something into" in plain(browser.html["task-result"])

    drive(script)


@pytest.mark.parametrize(
    ("model", "task", "seen"),
    [
        ("entities", "token-classification", "task-text"),
        ("answers", "question-answering", "task-answer"),
        ("verdicts", "zero-shot-classification", "travel"),
        ("gaps", "fill-mask", "task-bars"),
        ("vectors", "feature-extraction", "numbers, length"),
        ("ranks", "reranking", "Wolves hunt in packs."),
    ],
)
def test_texts_are_answered_at_once(model: str, task: str, seen: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, model, task)
        assert not browser.html.get("error"), browser.html["error"]
        assert seen in browser.html["task-result"]

    drive(script)


@pytest.mark.parametrize(
    ("model", "task", "seen"),
    [
        ("shapes", "image-classification", "task-bars"),
        ("depths", "depth-estimation", "depth 100 %"),
        ("scenes", "image-segmentation", "Parts of the picture"),
        ("captions", "zero-shot-image-classification", "a dog"),
        ("enlarged", "image-to-image", "pixels"),
        ("cutouts", "background-removal", "the background is clear"),
    ],
)
def test_pictures_are_answered(model: str, task: str, seen: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, model, task)
        await app.receive({"act": "open-file", "files": [PHOTO]})  # as a pasted one
        await settled(app)
        assert not browser.html.get("error"), browser.html["error"]
        assert seen in plain(browser.html["task-result"]) + browser.html["task-result"]

    drive(script)


def test_a_clicked_thing_is_masked() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "prompts", "mask-generation")
        await app.receive({"act": "task:files", "files": [PHOTO]})
        await settled(app)
        assert "Click a thing" in shown(browser)
        await app.receive({"act": "task:point", "x": 0.5, "y": 0.25})
        await settled(app)
        assert not browser.html.get("error"), browser.html["error"]
        assert 'cx="15.5" cy="5.8"' in browser.html["task-result"]
        assert "Remove points" in browser.html["view-task"]
        await app.receive({"act": "task:setting", "name": "mask", "value": "1"})
        assert browser.html["task-result"].count('aria-pressed="true"') == 1

    drive(script)


def test_a_sound_is_answered() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "voices", "voice-activity-detection")
        samples = RANDOM.normal(0, 0.2, 16_000).astype(np.float32)
        await app.receive({"act": "task:npy", "files": [File("talk.wav", write_npy(samples))]})
        await settled(app)
        assert not browser.html.get("error"), browser.html["error"]
        assert "talk.wav, 1.0 s" in shown(browser)
        assert re.search("part|Nothing was found", plain(browser.html["task-result"]))

    drive(script)


def test_notes_are_drawn_listed_and_saved() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "music", "audio-to-midi")
        chords = SOUNDS["chords"]()[:22_050]
        await app.receive({"act": "task:npy", "files": [File("song.wav", write_npy(chords))]})
        await settled(app)
        assert not browser.html.get("error"), browser.html["error"]
        result = browser.html["task-result"]
        count = result.count('class="task-note"')
        assert count > 1
        assert f"{count} notes, C5 to " in plain(result)
        assert result.count("<tr data-item=") == count
        assert re.search(r"<title>C5, 0\.\d+ to \d\.\d+ s, amplitude", result)
        await app.receive({"act": "task:file"})
        assert browser.other["download"]["name"] == "song.audio-to-midi.mid"
        assert browser.links[-1][:4] == b"MThd"
        await app.receive({"act": "task:option", "name": "onset_threshold", "value": "0.95"})
        await settled(app)
        assert "above 0.95" in plain(shown(browser))

    drive(script)


def test_many_notes_are_listed_in_part() -> None:
    notes = [
        {"start": at, "end": at + 1, "pitch": 21 + at % 88, "name": "x", "amplitude": 0.5}
        for at in range(300)
    ]
    html = view_of_result(notes).draw(TaskAnswer("audio-to-midi", notes, 1.0), {})
    assert html.count('class="task-note"') == 300
    assert "first 200 notes" in html
    assert "C4" in html


def test_the_files_of_a_folder_may_be_dropped() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        folder = models_folder() / "shapes"
        manifest = folder / name_task("shapes", "image-classification")
        names = ["model.pte", manifest.name, "config.json", "preprocessor_config.json"]
        files = [File(name, (folder / name).read_bytes()) for name in names]
        await app.receive({"act": "open-file", "files": [*files, PHOTO]})
        await settled(app)
        assert app._state.front == "task"
        assert not browser.html.get("error"), browser.html["error"]

    drive(script)


def test_a_missing_file_is_named_and_can_be_tried_again() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        folder = models_folder() / "shapes"
        manifest = folder / name_task("shapes", "image-classification")
        files = [File(path.name, path.read_bytes()) for path in (folder / "model.pte", manifest)]
        await app.receive({"act": "open-file", "files": files})
        await settled(app)
        assert "has no preprocessor_config.json" in plain(shown(browser))
        assert 'data-act="task:again"' in shown(browser)

    drive(script)


def test_another_program_without_a_task_has_no_tab() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, "shapes", "image-classification")
        await app.receive({"act": "open-url", "fields": {"url": "samples/digits.pte"}})
        assert app._state.front == "run"
        assert "task" not in [name for name, _ in browser.other["tabs"]]

    drive(script)


def test_results_choose_their_way_by_their_fields() -> None:
    picture = GivenPicture("a.png", PIXELS, "blob:1")
    sound = GivenSound("a.wav", np.zeros(100, np.float32), 50)
    mask = np.zeros((23, 31), np.uint8)
    results: list[Any] = [
        [{"text": "Hi <b>", "score": 0.9, "box": [[1, 1], [9, 1], [9, 4], [1, 4]]}],
        [{"label": "cat", "score": 0.5, "box": {"xmin": 1, "ymin": 2, "xmax": 5, "ymax": 6}}],
        [{"label": "sky", "score": None, "mask": mask}],
        {"masks": [mask > 0], "scores": [0.5]},
        {"depth": mask, "predicted_depth": mask.astype(np.float32)},
        PIXELS,
        [{"token_str": "a", "score": 0.1, "token": 1, "sequence": "a b"}],
        [{"corpus_id": 0, "score": 3.5, "text": "far"}],
        {"sequence": "s", "labels": ["x"], "scores": [1.0]},
        [{"label": "x", "score": 0.25}],
        [{"entity_group": "LOC", "score": 0.5, "word": "Rome", "start": 0, "end": 4}],
        {"answer": "Rome", "score": 0.5, "start": 0, "end": 4},
        {"text": " spoken", "chunks": []},
        [{"translation_text": "Roma"}],
        [{"start": 0.5, "end": 1.0, "pitch": 60, "name": "C4", "amplitude": 0.5}],
        [{"start": 0.5, "end": 1.0}],
        np.ones((1, 3, 5), np.float32),
        {"anything": [1, None]},
    ]
    assert len(results) == len(WAYS)
    for result, way in zip(results, WAYS, strict=True):
        assert view_of_result(result) is way
        texts = {"context": "Rome is old."}
        html = way.draw(TaskAnswer("a-task", result, 1.0, picture, sound, texts), {})
        assert html
        json.dumps(as_json(result))
    assert "Hi &lt;b&gt;" in WAYS[0].draw(TaskAnswer("a", results[0], 1.0, picture), {})
    assert WAYS[0].text is not None
    assert WAYS[0].text(TaskAnswer("a", results[0], 1.0)) == "Hi <b>"


@pytest.mark.parametrize(("shape", "kind"), [((5, 7), 0), ((5, 7, 3), 2), ((5, 7, 4), 6)])
def test_pictures_are_saved_as_they_are(shape: tuple[int, ...], kind: int) -> None:
    pixels = RANDOM.integers(0, 256, shape, np.uint8)
    png = png_of(pixels)
    assert struct.unpack(">IIBB", png[16:26]) == (7, 5, 8, kind)
    at = png.index(b"IDAT")
    (size,) = struct.unpack(">I", png[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(png[at + 4 : at + 4 + size]), np.uint8).reshape(5, -1)
    assert not rows[:, 0].any()  # the filter of each row
    assert np.array_equal(rows[:, 1:].reshape(shape), pixels)
