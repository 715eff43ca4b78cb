"""The page's library: files that are kept, acts on them, and reloads."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import webpte
from page.app import App
from page.core.engine import PageEngine
from page.core.saved_inputs import file_json, restore_file
from page.sections.library.view import age_text
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.photos import Form
from page.shared.npy import read_npy, write_npy
from support.page.fake_page import (
    SAMPLES,
    STATE,
    FakeBrowser,
    File,
    drive,
    drop,
    open_sample,
)
from support.page.fake_photo import FakePhoto
from support.page.library_page import kept_in_tab, open_method, reload, settle
from webpte.errors import SourceError

SAMPLE = (SAMPLES / "sigmoid.pte").read_bytes()
CONSTANTS = (SAMPLES.parents[1] / "tests/data/format/linear.ptd").read_bytes()
SIGMOID = "http://site/samples/sigmoid.pte"


def test_what_was_opened_is_listed_and_opens_without_a_network() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        assert "are kept here" in browser.html["library"]
        assert browser.text["library-total"] == "empty"
        await open_sample(app)
        await settle()
        assert browser.text["library-total"] == "1 program, 1.34 KiB"
        assert 'aria-current="true"' in browser.html["library"]
        await app.receive({"act": "close"})
        assert "aria-current" not in browser.html["library"]
        browser.offline = True
        await open_sample(app, "add.pte")
        assert "Failed to fetch" in browser.html["error"]
        await app.receive({"act": "library-open", "address": SIGMOID})
        assert browser.text["status"].startswith("sigmoid.pte loaded")
        assert browser.text["status"].endswith(" (cached)")
        assert browser.other["address"] == "?url=http://site/samples/sigmoid.pte&view=run"

    drive(script)


def test_what_is_open_stays_and_what_is_closed_can_go() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await settle()
        assert re.search(r"<button[^>]* disabled [^>]*Close it first", browser.html["library"])
        await app.receive({"act": "library-delete", "address": SIGMOID})
        assert SIGMOID in browser.library.files
        await app.receive({"act": "close"})
        await app.receive({"act": "library-delete", "address": SIGMOID})
        assert browser.library.files == {}
        assert browser.text["status"] == "Deleted: 1.34 KiB freed"
        assert browser.text["library-total"] == "empty"

    drive(script)


def test_a_dropped_program_is_kept_if_people_say_so_and_survives_a_reload() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("mine.pte", (STATE / "shared.pte").read_bytes()))
        await settle()
        assert browser.library.files == {}
        assert 'data-act="library-keep"' in browser.html["keep"]
        await app.receive({"act": "library-keep"})
        assert browser.html["keep"] == ""
        assert list(browser.library.files) == ["local:mine.pte"]
        assert browser.other["address"] == "?url=local:mine.pte&view=run"
        await app.receive({"act": "close"})
        await app.receive({"act": "library-delete", "address": "local:mine.pte"})
        assert "the only copy" in browser.html["library"]
        assert browser.library.files != {}
        await app.receive({"act": "library-open", "address": "local:mine.pte"})
        methods = set(re.findall(r'option value="(\w+)"', browser.html["program"]))
        other = min(methods - {open_method(browser)})
        await app.receive({"act": "method", "name": other})
        again = await reload(browser)
        assert browser.text["status"].startswith("mine.pte loaded")
        assert open_method(browser) == other
        await again.receive({"act": "close"})
        assert kept_in_tab(browser) == {"session": ""}

    drive(script)


def test_a_reload_says_what_it_cannot_bring_back() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("mine.pte", SAMPLE))
        await reload(browser)
        assert "mine.pte was open before" in browser.html["keep"]

    drive(script)


def test_no_room_is_told_and_nothing_else_is_lost() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.library.full = True
        await open_sample(app)
        await settle()
        assert browser.text["status"].startswith("sigmoid.pte loaded")  # the note has the rest
        assert "no room is left. It works all the same." in browser.html["keep"]
        assert browser.library.files == {}
        await app.receive({"act": "run"})
        assert browser.text["status"].startswith("Done")
        assert "It works all the same" in browser.html["keep"]
        await app.receive({"act": "close"})
        assert browser.html["keep"] == ""
        await drop(app, File("mine.pte", SAMPLE))
        await app.receive({"act": "library-keep"})
        assert "no room left" in browser.html["error"]
        assert 'data-act="library-keep"' in browser.html["keep"]

    drive(script)


def test_what_could_not_be_loaded_is_not_kept() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-url", "fields": {"url": "style/style.css"}})
        assert "OtherFileError" in browser.html["error"]
        await settle()
        assert browser.opened[0].left
        assert browser.library.files == {}

    drive(script)


@pytest.mark.parametrize(
    ("address", "rest"),
    [
        ("http://far/big.pte", "open it to download the rest"),
        ("local:big.pte", "drop the file and keep it again"),
    ],
)
def test_an_interrupted_file_is_listed_with_its_share_and_can_be_deleted(
    address: str, rest: str
) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.library.put(address, "big.pte", b"", 4096)
        entry, data = browser.library.files[address]
        browser.library.files[address] = replace(entry, missing=3072), data
        await app.receive({"act": "library-refresh"})
        assert f"1.00 KiB of 4.00 KiB (25%); {rest}" in browser.html["library"]
        assert browser.text["library-total"] == "1 program, 1.00 KiB"
        await app.receive({"act": "library-delete", "address": address, "sure": True})
        assert browser.library.files == {}
        assert browser.text["status"] == "Deleted: 1.00 KiB freed"

    drive(script)


def test_ages_are_round() -> None:
    seconds = (5, 60, 119, 3600, 2 * 86400 + 5)
    assert [age_text(s) for s in seconds] == [
        "just now",
        "1 minute ago",
        "1 minute ago",
        "1 hour ago",
        "2 days ago",
    ]


def test_outside_of_the_browser_there_is_no_library() -> None:
    with pytest.raises(SourceError, match="only in a browser"):
        asyncio.run(webpte.library.entries())


def test_small_files_of_inputs_are_there_after_a_reload() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        values = np.linspace(-3, 3, 37 * 41, dtype=np.float32).reshape(37, 41)
        await open_sample(app)
        await drop(app, File("mine.npy", write_npy(values)))
        kept = browser.other["store"]
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": {kept["key"]: kept["text"]}})
        await open_sample(again)
        assert "from mine.npy" in browser.html["inputs"]
        await again.receive({"act": "run"})
        await again.receive({"act": "download", "output": "0"})
        np.testing.assert_allclose(read_npy(browser.links[-1]), 1 / (1 + np.exp(-values)), 1e-6)

    drive(script)


def test_drawings_are_there_after_another_program_and_after_a_reload() -> None:
    card = json.loads((SAMPLES / "digits.json").read_text()) | {"folder": "samples/"}
    grey = np.zeros((28, 28), np.uint8)
    grey[4:24, 14] = 255

    async def opened_again(app: App, browser: FakeBrowser) -> None:
        browser.other.pop("paint", None)
        await app.receive({"act": "card", "name": "digits"})
        assert app._state.session is not None
        (state,) = app._state.session.inputs
        assert isinstance(state, TensorInput)
        assert state.fill == "draw"
        np.testing.assert_array_equal(state.array()[0, 0], grey / np.float32(255))
        pad = browser.other["paint"]["input-0-pad"]
        assert (pad["rows"], pad["columns"], pad["grey"]) == (28, 28, grey.tobytes())

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [card]})
        await app.receive({"act": "card", "name": "digits"})
        drawn = {"pixels": grey.tobytes(), "rows": "28", "columns": "28"}
        await app.receive({"act": "draw", "input": "0", **drawn})
        kept = browser.other["store"]
        await open_sample(app)
        await opened_again(app, browser)
        again = App(browser, PageEngine())
        stored = {kept["key"]: kept["text"]}
        await again.receive({"act": "hello", "cards": [card], "stored": stored})
        await opened_again(again, browser)

    drive(script)


def test_a_drawing_that_does_not_fit_any_more_is_left_out() -> None:
    small, large = (
        TensorInput(0, "x", "float32", ((1, 1), (1, 1), (side, side), (side, side)))
        for side in (8, 9)
    )
    small.form = large.form = Form("NCHW", 1)
    small.take_drawing(np.full((8, 8), 7, np.uint8))
    restore_file(large, file_json(small), FakePhoto)
    assert (large.fill, large.dims, large.touched) == ("normal", [1, 1, 9, 9], False)


def test_large_files_are_not_remembered() -> None:
    state = TensorInput(0, "x", "float32", ((1, 300), (1, 300)))
    state.take_array(np.zeros((300, 300), np.float32), "large.npy")
    assert file_json(state) == {}
    state.take_array(np.zeros((30, 30), np.float32), "small.npy")
    assert set(file_json(state)) == {"file"}
