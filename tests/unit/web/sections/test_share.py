"""A link brings back the program, its inputs and the view."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from page.app import App
from page.core.engine import PageEngine
from page.shared.persistence.shared_inputs import MOST_CHARACTERS, from_fragment, to_fragment
from support.page.fake_page import SAMPLES, FakeBrowser, drive, open_file, open_sample


def test_a_link_brings_back_inputs_and_view() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await app.receive({"act": "fill", "input": "0", "value": "normal"})
        await app.receive({"act": "view", "name": "graph"})
        session = app._state.session
        assert session is not None
        wanted = session.inputs[0].array()
        await app.receive({"act": "share"})
        assert browser.other["copy"]["done"] == "Link copied"
        link = urlsplit(browser.other["copy"]["text"])
        named = {name: values[0] for name, values in parse_qs(link.query).items()}
        assert named == {"url": "samples/add.pte", "view": "graph"}
        again = App(FakeBrowser(), PageEngine())
        await again.receive({"act": "hello", "linked": True, "hash": f"#{link.fragment}"})
        await again.receive({"act": "link", **named})
        session = again._state.session
        assert session is not None
        np.testing.assert_array_equal(session.inputs[0].array(), wanted)
        assert again._state.front == "graph"

    drive(script)


def test_code_that_embeds_the_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        assert "Share" in browser.html["program"]
        await app.receive({"act": "fill", "input": "0", "value": "normal"})
        await app.receive({"act": "share-frame"})
        code = browser.other["copy"]["text"]
        assert code.startswith(
            '<iframe src="http://site/embed.html?url=samples/add.pte&amp;view=run'
        )
        assert "#inputs=" in code
        assert 'title="add.pte"' in code
        assert "embed code copied" in browser.other["copy"]["done"].lower()

    drive(script)


def test_a_dropped_program_has_no_link() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, SAMPLES / "add.pte")
        assert "Share" not in browser.html["program"]
        await app.receive({"act": "share-frame"})
        assert "copy" not in browser.other
        await app.receive({"act": "share"})
        assert "copy" not in browser.other
        assert "without a URL" in browser.text["status"]

    drive(script)


@pytest.mark.parametrize("text", ["", "#inputs=", "#inputs=!!", "#inputs=eJwDAAAAAAE", "#other=a"])
def test_a_damaged_fragment_has_no_inputs(text: str) -> None:
    assert from_fragment(text) is None


def test_large_inputs_are_left_out() -> None:
    key, inputs = "a.pte:3", {"forward": {"x": {"text": "é" * 9}}}
    assert from_fragment(to_fragment(key, inputs)) == (key, inputs)
    noise = np.random.default_rng(0).integers(0, 255, MOST_CHARACTERS).tolist()
    assert to_fragment(key, {"forward": {"x": noise}}) == ""
