"""The way of a click on Run: how many files of the page it passes, and how little it builds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import page
from page.app import App
from page.core.state import Change
from support.harness.virtual_time import run_virtually
from support.page.fake_page import GPU, SAMPLES, Engine, FakeBrowser, drive, run
from webpte.llm import Generator
from webpte_host.serving.gallery import gallery

PAGE = Path(page.__file__).parent
CARDS = json.loads(gallery(SAMPLES.parent, None))
MOST_FILES = 20  # of a click, all its drawing included
MOST_FILES_FIRST = 29  # of the first one: each renderer is asked whether it fits the outputs


@contextmanager
def visited_files() -> Iterator[set[str]]:
    """Collect the files of the page whose functions are called."""
    files: set[str] = set()

    def visit(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PAGE):
            files.add(path.relative_to(PAGE).as_posix())

    previous = sys.getprofile()
    sys.setprofile(visit)
    try:
        yield files
    finally:
        sys.setprofile(previous)


async def opened(card: str) -> tuple[App, FakeBrowser]:
    browser = FakeBrowser(GPU)
    app = App(browser, Engine())
    await app.receive({"act": "hello", "cards": CARDS})
    await app.receive({"act": "card", "name": card})
    return app, browser


def test_a_click_on_run_passes_few_files() -> None:
    async def script() -> None:
        app, browser = await opened("digits")
        counts = []
        for _ in range(3):
            with visited_files() as files:
                await run(app)
            assert browser.text["status"].startswith("Done")
            assert "largest answered" in browser.html["outputs"]
            assert {"app.py", "sections/run/controller.py", "core/runner.py"} < files
            counts.append(sorted(files))
        first, *later = counts
        assert len(first) <= MOST_FILES_FIRST, first
        for repeated in later:
            assert len(repeated) <= MOST_FILES, repeated

    run_virtually(script())


@pytest.mark.parametrize("view", ["run", "chat"])
def test_a_click_builds_no_generator(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Generator] = []
    build = Generator.__init__

    def counted(self: Generator, *given: Any, **options: Any) -> None:
        built.append(self)
        build(self, *given, **options)

    async def script() -> None:
        app, browser = await opened("stories")
        await app.receive({"act": "view", "name": view})
        monkeypatch.setattr(Generator, "__init__", counted)
        await run(app)
        assert browser.text["status"].startswith("Done")
        await app.receive({"act": "palette"})
        assert browser.other["commands"]
        assert not built

    run_virtually(script())


def test_an_ability_is_found_out_once_for_a_program_and_method() -> None:
    asked: list[str] = []

    def is_odd(session: Any) -> bool:
        asked.append(session.method)
        return bool(len(asked) % 2)

    async def script() -> None:
        app, _ = await opened("digits")
        session = app._state.session
        assert session is not None
        assert session.can(is_odd)
        assert session.can(is_odd)
        await run(app)
        assert session.can(is_odd)
        assert asked == ["forward"]
        session.method = "another"
        assert not session.can(is_odd)

    run_virtually(script())


def test_a_change_reaches_those_that_follow_it_and_no_others() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        state, seen = app._state, list[tuple[str, Change]]()

        def first(change: Change) -> None:
            seen.append(("first", change))
            if change is Change.VIEW:
                state.leave(first, Change.VIEW)

        state.follow(first, Change.VIEW, Change.RESULTS)
        state.follow(lambda change: seen.append(("second", change)), Change.VIEW)
        for change in (Change.VIEW, Change.INPUTS, Change.RESULTS, Change.VIEW):
            state.announce(change)
        assert seen == [
            ("first", Change.VIEW),
            ("second", Change.VIEW),
            ("first", Change.RESULTS),
            ("second", Change.VIEW),
        ]

    drive(script)
