"""Back and forward: entries of the browser's history, and what going there does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from page.app import App
from page.browser import OpenProgram, Progress, Source
from page.core.engine import PageEngine
from support.page.fake_page import SAMPLES, Engine, FakeBrowser, File

SIGMOID = {"name": "sigmoid", "folder": "samples/", "files": {"program": "sigmoid.pte"}}
ADD = {"name": "add", "folder": "samples/", "files": {"program": "add.pte"}}


class Historian(FakeBrowser):
    """A browser with a history, as address.js keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[str, str]] = [("", "")]  # (query, file)
        self.at = 0
        self.opening = {0: False}  # whether the program of an entry is still on its way
        self.held: asyncio.Event | None = None  # fetches end once this is set

    async def fetch(
        self, url: str, progress: Progress, download: Any = None, sha256: str = ""
    ) -> Source:
        if self.held is not None:
            await self.held.wait()
        return await super().fetch(url, progress, download, sha256)

    def show(self, **changes: Any) -> None:
        if "entry" in changes:
            query, file = self.entries[self.at]
            opening = changes["entry"].get("opening", False)
            self.at += not self.opening[self.at]
            self.entries[self.at :] = [(query, file if opening else changes["entry"]["file"])]
            self.opening[self.at] = opening
        if "address" in changes:
            self.entries[self.at] = changes["address"], self.entries[self.at][1]
        super().show(**changes)

    def go(self, by: int) -> dict[str, str]:
        self.at += by
        query, file = self.entries[self.at]
        named = dict(parse_qsl(query.removeprefix("?")))
        return {"act": "go", **named, **({"file": file} if file else {})}


def visit(script: Callable[[App, Historian], Awaitable[None]], engine: Any = None) -> None:
    async def whole() -> None:
        browser = Historian()
        app = App(browser, engine or PageEngine())
        await app.receive({"act": "hello", "cards": [SIGMOID, ADD]})
        await script(app, browser)

    asyncio.run(whole())


def test_back_from_a_program_goes_to_the_gallery_and_forward_to_the_program() -> None:
    async def script(app: App, browser: Historian) -> None:
        await app.receive({"act": "card", "name": "add"})
        assert browser.entries == [("", ""), ("?model=add&view=run", "")]
        await app.receive(browser.go(-1))
        assert browser.text["status"] == "Closed"
        assert not browser.hidden["welcome"]
        await app.receive(browser.go(1))
        assert browser.text["status"].startswith("add.pte loaded")
        assert browser.entries == [("", ""), ("?model=add&view=run", "")]

    visit(script)


def test_each_program_and_closing_is_an_entry_and_a_view_by_itself_is_none() -> None:
    async def script(app: App, browser: Historian) -> None:
        await app.receive({"act": "card", "name": "add"})
        await app.receive({"act": "view", "name": "python"})  # address.js has made its entry
        assert browser.entries[1:] == [("?model=add&view=python", "")]
        await app.receive({"act": "device", "value": "numpy"})
        await app.receive({"act": "card", "name": "sigmoid"})
        await app.receive({"act": "close"})
        programs = [query.partition("&")[0] for query, _ in browser.entries]
        assert programs == ["", "?model=add", "?model=sigmoid", ""]
        await app.receive(browser.go(-2))
        assert browser.text["status"].startswith("add.pte loaded")
        assert browser.other["front"] == "python"
        assert len(browser.entries) == 4

    visit(script)


@pytest.mark.parametrize("closes", [False, True])
def test_what_is_done_as_soon_as_a_program_is_loaded_stays(closes: bool) -> None:
    async def script(app: App, browser: Historian) -> None:
        held, told = browser.hold, asyncio.Event()

        async def hold(program: OpenProgram | None) -> None:  # other tabs answer late
            if program is not None:
                assert browser.text["status"].startswith("add.pte loaded")
                told.set()
                await asyncio.sleep(0.01)
            await held(program)

        browser.hold = hold  # type: ignore[method-assign]
        opening = asyncio.ensure_future(app.receive({"act": "card", "name": "add"}))
        await told.wait()
        assert browser.other["front"] == "run"
        await app.receive({"act": "close"} if closes else {"act": "view", "name": "python"})
        await opening
        assert app._state.front == ("run" if closes else "python")
        assert browser.text["status"].startswith("Closed" if closes else "add.pte loaded")

    visit(script)


def test_back_to_another_view_of_what_is_open_only_turns() -> None:
    async def script(app: App, browser: Historian) -> None:
        await app.receive({"act": "card", "name": "add"})
        browser.show(entry={"file": ""}, address="?model=add&view=python")
        await app.receive({"act": "view", "name": "python"})
        browser.text.clear()
        await app.receive(browser.go(-1))
        assert browser.other["front"] == "run"
        assert browser.text.get("status") is None  # nothing was opened
        assert browser.entries[1:] == [("?model=add&view=run", ""), ("?model=add&view=python", "")]

    visit(script)


def test_a_program_without_an_address_has_an_entry_too() -> None:
    async def script(app: App, browser: Historian) -> None:
        dropped = File("mine.pte", (SAMPLES / "sigmoid.pte").read_bytes())
        await app.receive({"act": "open-file", "files": [dropped]})
        assert browser.entries == [("", ""), ("", "mine.pte")]
        await app.receive(browser.go(-1))
        assert browser.text["status"] == "Closed"
        await app.receive(browser.go(1))
        assert browser.text["status"].startswith("mine.pte loaded")
        await app.receive({"act": "card", "name": "add"})
        await app.receive(browser.go(-1))  # it is closed for good: another one was open since
        assert browser.text["status"].startswith("mine.pte has no URL")

    visit(script)


def test_a_link_has_its_entry_already() -> None:
    async def script(app: App, browser: Historian) -> None:
        browser.show(address="?model=add&view=python")
        await app.receive({"act": "link", "model": "add", "view": "python"})
        assert browser.entries == [("?model=add&view=python", "")]

    visit(script)


def test_a_link_that_is_left_while_it_opens_leaves_the_address() -> None:
    async def script(app: App, browser: Historian) -> None:
        browser.show(address="?model=add&view=python")
        gate = browser.held = asyncio.Event()
        opening = asyncio.ensure_future(
            app.receive({"act": "link", "model": "add", "view": "python"})
        )
        await asyncio.sleep(0)
        browser.show(address="")  # by the button Cancel beside the early input
        await app.receive({"act": "go", "left": True})
        gate.set()
        await opening
        assert browser.text["status"] == "Opening was cancelled"
        assert browser.entries == [("", "")]

    visit(script)


MINE = File("mine.pte", (SAMPLES / "sigmoid.pte").read_bytes())


@pytest.mark.parametrize(
    ("first", "entry", "close"),
    [
        (None, ("", ""), False),
        ({"act": "card", "name": "add"}, ("?model=add&view=run", ""), True),
        ({"act": "open-file", "files": [MINE]}, ("", "mine.pte"), True),
    ],
)
def test_back_ends_an_opening_and_goes_nowhere_else(
    first: dict[str, Any] | None, entry: tuple[str, str], close: bool
) -> None:
    async def script(app: App, browser: Historian) -> None:
        if first is not None:
            await app.receive(first)
        gate = browser.held = asyncio.Event()
        opening = app.receive({"act": "card", "name": "sigmoid"})
        await asyncio.sleep(0)
        await app.receive(browser.go(-1))
        assert browser.text["status"] == "Opening was cancelled"
        gate.set()
        await opening
        assert browser.text["status"] == "Opening was cancelled"
        assert browser.entries[browser.at] == entry
        assert ('data-act="close"' in browser.html.get("program", "")) == close
        await app.receive(browser.go(1))  # to the program that was not opened: nothing changes
        assert ('data-act="close"' in browser.html.get("program", "")) == close
        browser.held = None
        await app.receive({"act": "card", "name": "sigmoid"})
        assert browser.entries[browser.at - 1 :] == [entry, ("?model=sigmoid&view=run", "")]

    visit(script)


def test_back_from_what_could_not_be_opened_takes_its_message_along() -> None:
    async def script(app: App, browser: Historian) -> None:
        await app.receive({"act": "open-url", "fields": {"url": "samples/none.pte"}})
        assert "404" in browser.html["error"]
        assert (browser.at, browser.entries) == (1, [("", ""), ("", "")])
        await app.receive(browser.go(-1))
        assert (browser.html["error"], browser.text["status"]) == ("", "Ready")

    visit(script)


def test_what_could_not_be_opened_leaves_its_entry_to_the_next() -> None:
    async def script(app: App, browser: Historian) -> None:
        for _ in range(2):
            await app.receive({"act": "open-url", "fields": {"url": "samples/none.pte"}})
        await app.receive({"act": "card", "name": "add"})
        assert browser.entries == [("", ""), ("?model=add&view=run", "")]

    visit(script)


def test_the_same_program_on_another_device_is_no_entry() -> None:
    async def script(app: App, browser: Historian) -> None:
        await app.receive({"act": "card", "name": "add"})
        entries = list(browser.entries)
        await app.receive({"act": "device", "value": "webgpu"})
        assert browser.entries == entries
        assert browser.opening == {0: False, 1: False}

    visit(script, Engine())


def test_what_is_opened_while_a_link_is_fetched_has_an_entry_of_its_own() -> None:
    async def script(app: App, browser: Historian) -> None:
        browser.show(address="?model=add")
        gate = browser.held = asyncio.Event()
        link = app.receive({"act": "link", "model": "add"})
        await asyncio.sleep(0)
        browser.held = None
        await app.receive({"act": "card", "name": "sigmoid"})
        entries = [("?model=add", ""), ("?model=sigmoid&view=run", "")]
        assert browser.entries == entries
        gate.set()
        await link
        assert browser.entries == entries
        assert browser.text["status"].startswith("sigmoid.pte loaded")

    visit(script)
