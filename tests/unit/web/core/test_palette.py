"""Commands of the palette: only possible commands are listed, and their effects."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from page.app import App
from page.core.palette import Command
from page.views.view import PROGRAM, RUN, Panel, View
from support.compiling import node
from support.harness.virtual_time import until
from support.page.fake_page import (
    GPU,
    STATE,
    Engine,
    FakeBrowser,
    drive,
    open_file,
    open_sample,
    run,
)

WEB = Path(__file__).resolve().parents[4] / "web"
METHODS = STATE / "separate.pte"


async def titles(app: App, browser: FakeBrowser) -> list[str]:
    """Open the palette, and return the titles of its rows."""
    await app.receive({"act": "palette"})
    return [str(row["title"]) for row in browser.other["commands"]]


async def command(app: App, browser: FakeBrowser, title: str) -> Any:
    await app.receive({"act": "palette"})
    (found,) = [row for row in browser.other["commands"] if row["title"] == title]
    return found


def test_there_are_those_that_can_be_done_now() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        assert await titles(app, browser) == ["Choose files …", "Open URL …"]
        await open_sample(app)
        found = await titles(app, browser)
        assert {"Run", "Run on NumPy (CPU)", "Go to Graph", "Copy as Python"} <= {*found}
        assert {"Close sigmoid.pte", "Reset inputs", "Record a trace"} <= {*found}
        assert "Compare with NumPy" not in found  # there is nothing to check
        assert "New conversation" not in found  # with a program that is no language model
        await run(app)
        assert "Compare with NumPy" in await titles(app, browser)
        await app.receive({"act": "close"})
        left = ["Undo: Closed sigmoid.pte.", "Choose files …", "Open URL …"]
        assert await titles(app, browser) == left

    drive(script, GPU, Engine())


def test_what_runs_can_be_cancelled_and_nothing_else_be_run() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        running = asyncio.ensure_future(run(app))
        state = app._state
        await until(lambda: state.session is not None and state.session.runner.busy)
        busy = await titles(app, browser)
        await running
        assert "Cancel running forward" in busy
        assert "Run" not in busy
        assert "Run" in await titles(app, browser)

    drive(script, GPU, Engine())


def test_commands_are_listed_when_the_palette_opens() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        before = browser.other.pop("commands")  # of the start
        assert [row["title"] for row in before] == ["Choose files …", "Open URL …"]
        await open_sample(app)
        await run(app)
        assert "commands" not in browser.other
        assert "Run" in await titles(app, browser)

    drive(script, GPU, Engine())


def test_a_command_sends_what_the_app_handles() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        row = await command(app, browser, "Copy as Python")
        assert (row["view"], row["kind"]) == ("python", "Python")
        await app.receive(row["send"])
        assert "samples/sigmoid.pte') as program" in browser.other["copy"]["text"]
        await app.receive((await command(app, browser, "Run on NumPy (CPU)"))["send"])
        assert "NumPy" in browser.html["stats"]
        await app.receive((await command(app, browser, "Close sigmoid.pte"))["send"])
        assert browser.html["file"] == ""

    drive(script, GPU, Engine())


def test_other_methods_can_be_chosen() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, METHODS)
        session = app._state.session
        assert session is not None
        runnable = [one.name for one in session.methods.values() if not one.is_constant]
        chosen, *others = sorted(runnable, key=lambda name: name != session.method)
        assert others
        assert chosen not in await titles(app, browser)
        await app.receive((await command(app, browser, others[0]))["send"])
        assert session.method == others[0]
        assert chosen in await titles(app, browser)

    drive(script)


def test_a_view_adds_its_own_once_it_can_do_them() -> None:
    class Greeting(Panel):
        def on_greet(self, message: object) -> None:
            self.show("hello")

    greet = Command("Greet", "greet")
    view = View("own", "Own", 50, Greeting, needs=(PROGRAM, RUN), commands=(greet,))

    async def script(app: App, browser: FakeBrowser) -> None:
        own = App(browser, Engine(), [View("run", "Run", 0, Panel), view])
        await own.receive({"act": "hello"})
        await open_sample(own)
        assert "Greet" not in await titles(own, browser)
        await run(own)
        await own.receive((await command(own, browser, "Greet"))["send"])
        assert browser.html["view-own"] == "hello"

    drive(script)


def test_run_is_first_and_what_takes_something_away_last() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        assert (await titles(app, browser))[0] == "Run"
        assert (await titles(app, browser))[-2:] == ["Reset inputs", "Close sigmoid.pte"]

    drive(script, GPU, Engine())


def in_palette(folder: Path, code: str, rows: list[dict[str, object]]) -> Any:
    """Run code on `palette.js`, in Node; skip without it."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    shutil.copy(WEB / "scripts/palette.js", folder / "palette.mjs")
    imported = 'const palette = await import("./palette.mjs");'
    return node.run(folder, f"{imported} {code}", rows)


def test_commands_are_found_by_other_words(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"title": "Performance"},
        {"title": "Benchmark", "also": "time perf speed"},
        {"title": "Theme: dark", "also": "appearance"},
        {"title": "Lunch"},
    ]
    find = """return ["perf", "PERF ", "erf", "appear", "dark", ""].map((query) =>
        palette.search(query, given).map(({ command }) => command.title));"""
    perf, spaced, inside, appear, dark, every = in_palette(tmp_path, find, rows)
    assert perf == spaced == ["Performance", "Benchmark"]
    assert inside == ["Performance"]  # other words count from their start only
    assert appear == dark == ["Theme: dark"]
    assert every == [row["title"] for row in rows]


def test_commands_are_grouped_and_recent_ones_first(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"title": "Undo: Closed", "kind": ""},
        {"title": "Run", "kind": "Run"},
        {"title": "Graph", "kind": "Views"},
        {"title": "Benchmark", "kind": "Run"},
        {"title": "Close", "kind": "Program", "late": True},
    ]
    group = """const rows = palette.search("", given);
        const titles = (members) => members.map(({ command }) => command.title);
        const told = (groups) => groups.map(([name, members]) => [name, titles(members)]);
        const asked = [[], ["Graph", "gone", "Close", "Run"]];
        return asked.map((recent) => told(palette.grouped(rows, recent)));"""
    plain, recent = in_palette(tmp_path, group, rows)
    assert plain == [
        ["Undo", ["Undo: Closed"]],
        ["Run", ["Run", "Benchmark"]],
        ["Views", ["Graph"]],
        ["Program", ["Close"]],
    ]
    assert recent[0] == ["Recent", ["Graph", "Run"]]  # none that removes something
    assert recent[2:] == [["Run", ["Benchmark"]], ["Program", ["Close"]]]
