"""Commands of the palette: those that are possible now, and their effects."""

from __future__ import annotations

from typing import Any

from page.app import App
from page.core.palette import Command
from page.views.view import PROGRAM, RUN, Panel, View
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

METHODS = STATE / "separate.pte"


def titles(browser: FakeBrowser) -> list[str]:
    return [str(row["title"]) for row in browser.other["commands"]]


def command(browser: FakeBrowser, title: str) -> Any:
    (found,) = [row for row in browser.other["commands"] if row["title"] == title]
    return found


def test_there_are_those_that_can_be_done_now() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        assert titles(browser) == ["Choose files …", "Open URL …"]
        await open_sample(app)
        found = titles(browser)
        assert {"Run", "Run on NumPy (CPU)", "Go to Graph", "Copy as Python"} <= {*found}
        assert {"Close sigmoid.pte", "Reset the inputs", "Trace a run"} <= {*found}
        assert "Check against NumPy" not in found  # there is nothing to check
        assert "New conversation" not in found  # with what is no language model
        await run(app)
        assert "Check against NumPy" in titles(browser)
        await app.receive({"act": "close"})
        left = ["Undo: Closed sigmoid.pte.", "Choose files …", "Open URL …"]
        assert titles(browser) == left

    drive(script, GPU, Engine())


def test_what_runs_can_be_cancelled_and_nothing_else_be_run() -> None:
    seen: list[list[str]] = []

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        show = browser.show

        def watch(**changes: Any) -> None:
            show(**changes)
            if "commands" in changes:
                seen.append(titles(browser))

        browser.show = watch  # type: ignore[method-assign]
        await run(app)

    drive(script, GPU, Engine())
    busy, after = seen[0], seen[-1]
    assert "Cancel running forward" in busy
    assert "Run" not in busy
    assert "Run" in after


def test_a_command_sends_what_the_app_handles() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        row = command(browser, "Copy as Python")
        assert (row["view"], row["kind"]) == ("python", "Python")
        await app.receive(row["send"])
        assert "samples/sigmoid.pte') as program" in browser.other["copy"]["text"]
        await app.receive(command(browser, "Run on NumPy (CPU)")["send"])
        assert "NumPy" in browser.html["stats"]
        await app.receive(command(browser, "Close sigmoid.pte")["send"])
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
        assert chosen not in titles(browser)
        await app.receive(command(browser, others[0])["send"])
        assert session.method == others[0]
        assert chosen in titles(browser)

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
        assert "Greet" not in titles(browser)
        await run(own)
        await own.receive(command(browser, "Greet")["send"])
        assert browser.html["view-own"] == "hello"

    drive(script)


def test_run_is_first_and_what_takes_something_away_last() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        assert titles(browser)[0] == "Run"
        assert titles(browser)[-2:] == ["Reset the inputs", "Close sigmoid.pte"]

    drive(script, GPU, Engine())
