"""The view Train: lines are learned in steps, and a question is answered before and after."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import webpte
from page.app import App
from page.views.train.course import EXAMPLE, Course, from_json, to_json
from support.llm.training_models import folder
from support.page.fake_page import Engine, FakeBrowser, File, drive, open_file, open_sample
from webpte.training import SavedLora

LINES = "Who are you? => I am Pip.\nThe gulls count us."


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"train:{what}", **more})


def fields(**changes: Any) -> dict[str, Any]:
    return {"lines": LINES, "steps": "8", "rate": "0.005", **changes}


def text_of(browser: FakeBrowser, section: str = "view-train") -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html[section]))


async def opened(app: App) -> None:
    await open_file(app, folder() / "llama_8w.pte")
    await app.receive({"act": "view", "name": "train"})
    await asyncio.sleep(0.1)
    names = ("tokenizer.json", "tokenizer_config.json")
    files = [File(name, (folder() / name).read_bytes()) for name in names]
    await act(app, "tokenizer", files=files)


def test_lines_are_learned_and_a_question_is_answered_twice(tmp_path: Path) -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        assert "Train first," in text_of(browser)
        await act(app, "train", fields=fields())
        assert "Loss" in text_of(browser)
        assert "after 8 steps" in text_of(browser)
        assert "Trained: loss" in browser.text["status"]
        await act(app, "train", fields=fields(steps="4"))
        assert "after 12 steps" in text_of(browser)
        await act(app, "ask", fields={"question": "Who are you?"})
        shown = text_of(browser)
        assert shown.index("Before") < shown.index("After")
        await act(app, "save")
        assert browser.other["download"]["name"] == "llama_8w.lora.zip"
        zipfile.ZipFile(io.BytesIO(browser.links[-1])).extractall(tmp_path)
        own = engine.programs[-1]
        assert (await webpte.llm.load_lora(own, tmp_path)).rank == 4
        assert "learn" not in engine.programs[0].methods
        await act(app, "reset")
        assert "Train first," in text_of(browser)
        assert "Who are you? => I am Pip." in text_of(browser)
        await open_sample(app, "digits.pte")
        assert own in engine.closed

    drive(script, engine=engine)


def test_a_training_is_stopped_and_kept_for_the_next_visit() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        training = asyncio.ensure_future(act(app, "train", fields=fields(steps="400")))
        while "Loss" not in browser.html.get("train-learns", ""):
            await asyncio.sleep(0)  # time is virtual
        await act(app, "stop")
        await training
        found = re.search(r"after (\d+) steps", text_of(browser))
        assert found
        assert int(found[1]) < 400
        saved = app._state.store.read("train:llama_8w.pte")
        course = from_json(saved)
        assert course is not None
        assert course.lora is not None
        assert len(course.losses) == int(found[1])

    drive(script, engine=Engine())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lines": " \n"}, "Write at least one line"),
        ({"steps": "many"}, "must be numbers"),
        ({"steps": "0"}, "Steps must be from 1"),
        ({"rate": "0"}, "The learning rate must be above 0"),
        ({"lines": "a" * 300_000}, "at most 200,000"),
    ],
)
def test_what_cannot_be_learned_is_told(changes: dict[str, str], told: str) -> None:
    assert told in Course().take(fields(**changes))


def test_an_error_is_shown_and_the_next_training_works() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        long = "word " * 60 + "=> yes"
        await act(app, "train", fields=fields(lines=long))
        assert "its question takes" in text_of(browser, "error")
        await act(app, "train", fields=fields())
        assert "after 8 steps" in text_of(browser)

    drive(script, engine=Engine())


def test_lines_come_from_a_file_or_the_example() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        await act(app, "typed", value="My own line.")
        await act(app, "file", files=[File("one.txt", b"And another.")])
        assert re.search(r"My own line.\s+And another.", text_of(browser))
        await act(app, "example")
        assert EXAMPLE.splitlines()[0] in text_of(browser)
        await act(app, "file", files=[File("more.txt", b"One more line.\n")])
        assert "One more line." in text_of(browser)
        assert EXAMPLE.splitlines()[0] in text_of(browser)

    drive(script, engine=Engine())


def test_other_programs_have_no_such_view() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "teach.pte")
        names = [name for name, _ in browser.other["tabs"]]
        assert "teach" in names
        assert "train" not in names

    drive(script)


def test_a_saved_course_is_read_and_a_broken_one_is_not() -> None:
    course = Course("a line", 5, 2.0, [1.0, 0.5], SavedLora(b"12345", {"r": 4}))
    again = from_json(to_json(course))
    assert again is not None
    assert (again.text, again.steps, again.rate, again.losses) == ("a line", 5, 2.0, [1.0, 0.5])
    assert again.lora == course.lora
    assert to_json(Course()) == {}
    for broken in (
        None,
        {},
        {**to_json(course), "weights": "!"},
        {**to_json(course), "steps": "x"},
    ):
        assert from_json(broken) is None
