"""The teach view: examples are drawn and learned in steps, and drawings are recognised."""

from __future__ import annotations

import asyncio
import io
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from page.app import App
from support.page.fake_page import Engine, FakeBrowser, drive, open_sample
from support.page.teaching import SIDE, examples

TEACH = "teach.pte"


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"teach:{what}", **more})


async def draw(app: App, picture: Any) -> None:
    pixels = np.round(255 * picture).astype(np.uint8).tobytes()
    await act(app, "draw", pixels=pixels, rows=str(SIDE), columns=str(SIDE))


async def teach(app: App, count: int, seed: int = 1) -> None:
    pictures, labels = examples(count, seed, ("circle", "cross"))
    for (picture,), label in zip(pictures, labels, strict=True):
        await draw(app, picture)
        await act(app, "add", kind=str(label))


async def opened(app: App) -> None:
    await open_sample(app, TEACH)
    await app.receive({"act": "view", "name": "teach"})


def text_of(browser: FakeBrowser, section: str = "view-teach") -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html[section]))


async def guess(app: App, browser: FakeBrowser, picture: Any) -> str:
    await draw(app, picture)
    found = re.search(r"Prediction: (\w+)", text_of(browser, "teach-thinks"))
    assert found
    return found[1]


def test_two_classes_are_taught_and_what_was_learned_stays() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        assert "Draw at least one example of A and of B." in text_of(browser)
        await teach(app, 2)
        assert browser.html["view-teach"].count("<img") == 4
        assert browser.other["script"] == {"teach": {"clear": True}}
        await act(app, "name", kind="1", value="cross")
        await act(app, "learn", fields={"steps": "12"})
        assert browser.text["status"].startswith("Learned: loss 0.")
        assert "after 12 steps" in text_of(browser)
        new, _ = examples(1, 7, ("circle", "cross"))
        assert [await guess(app, browser, one[0]) for one in new] == ["A", "cross"]
        await app.receive({"act": "view", "name": "run"})
        await app.receive({"act": "view", "name": "teach"})
        assert "after 12 steps" in text_of(browser)
        await app.receive({"act": "device", "value": "webgpu"})  # the same file, opened again
        await app.receive({"act": "view", "name": "teach"})
        assert [await guess(app, browser, one[0]) for one in new] == ["A", "cross"]
        await act(app, "learn", fields={"steps": "4"})
        assert "after 16 steps" in text_of(browser)
        await act(app, "save")
        assert browser.other["download"]["name"] == "teach.weights.npz"
        with np.load(io.BytesIO(browser.links[-1])) as saved:
            assert saved["names"].tolist() == ["A", "cross"]
            assert saved["weight1"].shape == (32, 512)
        await act(app, "reset")
        assert "after" not in text_of(browser)
        assert browser.html["view-teach"].count("<img") == 4

    drive(script, engine=Engine())


def test_learning_is_stopped_and_goes_on_with_more() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        await teach(app, 1)
        learning = asyncio.ensure_future(act(app, "learn", fields={"steps": "2000"}))
        while "teach-learns" not in browser.html:
            await asyncio.sleep(0)
        await act(app, "less", kind="0")  # not while it is learned
        assert browser.text["status"] == "Still learning: wait for it, or cancel it"
        await act(app, "stop")
        await asyncio.wait_for(learning, 20)
        found = re.search(r"after (\d+) step", text_of(browser))
        assert found
        assert int(found[1]) < 100
        await act(app, "more")
        assert "Draw at least one example of C." in text_of(browser)
        await act(app, "learn", fields={"steps": "2"})
        assert browser.text["status"] == "Draw at least one example of C."
        await act(app, "less", kind="2")
        assert "after" not in text_of(browser)  # other classes: learned anew

    drive(script, engine=Engine())


def test_other_programs_have_no_such_tab() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "digits.pte")
        assert "teach" not in [name for name, _ in browser.other["tabs"]]
        await open_sample(app, TEACH)
        assert "teach" in [name for name, _ in browser.other["tabs"]]

    drive(script)


def test_examples_and_weights_are_there_after_a_reload() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        await teach(app, 2)
        await act(app, "name", kind="1", value="cross")
        await act(app, "learn", fields={"steps": "12"})
        kept = browser.other["store"]
        assert kept["key"] == "teach:samples/teach.pte"
        again = App(browser, Engine())
        await again.receive({"act": "hello", "stored": {kept["key"]: kept["text"]}})
        await opened(again)
        assert browser.html["view-teach"].count("<img") == 4
        assert "after 12 steps" in text_of(browser)
        new, _ = examples(1, 7, ("circle", "cross"))
        assert [await guess(again, browser, one[0]) for one in new] == ["A", "cross"]
        await act(again, "learn", fields={"steps": "4"})
        assert "after 16 steps" in text_of(browser)

    drive(script, engine=Engine())


@pytest.mark.parametrize("text", ["[]", '{"kinds": 3}', '{"kinds": [{"name": "A"}], "steps": 1}'])
def test_a_lesson_that_another_hand_wrote_is_not_used(text: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        again = App(browser, Engine())
        stored = {"teach:samples/teach.pte": text}
        await again.receive({"act": "hello", "stored": stored})
        await opened(again)
        assert "Draw at least one example of A and of B." in text_of(browser)

    drive(script)


def test_weights_of_another_program_are_dropped_and_examples_stay() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app)
        await teach(app, 1)
        await act(app, "learn", fields={"steps": "1"})
        kept = json.loads(browser.other["store"]["text"])
        kept["weights"]["weight1"] = kept["weights"]["weight2"]
        again = App(browser, Engine())
        stored = {"teach:samples/teach.pte": json.dumps(kept)}
        await again.receive({"act": "hello", "stored": stored})
        await opened(again)
        assert browser.html["view-teach"].count("<img") == 2
        assert "after" not in text_of(browser)

    drive(script, engine=Engine())
