"""Views are found by their place, have a tab if their needs are met, and follow changes."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import page.views
from page.app import App
from page.browser import Message
from page.core.engine import PageEngine
from page.core.state import AppState, Change
from page.shared.npy import write_npy
from page.views import find_views
from page.views.view import LANGUAGE_MODEL, PROGRAM, RUN, TIMESTAMPS, Panel, View
from support.harness.virtual_time import run_virtually
from support.page.fake_page import (
    GPU,
    ROOT,
    Engine,
    FakeBrowser,
    File,
    benchmark,
    open_file,
    open_sample,
    run,
)

LLAMA = ROOT / "tests" / "data" / "llm" / "llama_tiny_fp32.pte"
HOME = View("run", "Run", 0, Panel)


class Counting(Panel):
    """A panel that counts its drawings and records its messages."""

    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self.drawn = self.forgotten = 0

    def draw(self) -> None:
        self.drawn += 1
        self.show(f"drawn {self.drawn}")

    def forget(self) -> None:
        self.forgotten += 1

    def on_greet(self, message: Message) -> None:
        self.show(f"hello {message['whom']}")


def started(*views: View, adapter: Any = "missing", engine: Any = None) -> Any:
    async def start() -> tuple[App, FakeBrowser]:
        browser = FakeBrowser(adapter)
        app = App(browser, engine or PageEngine(), [HOME, *views])
        await app.receive({"act": "hello"})
        return app, browser

    return start()


async def choose(app: App, name: str) -> None:
    await app.receive({"act": "view", "name": name})


def tabs(browser: FakeBrowser) -> list[str]:
    return [name for name, _ in browser.other["tabs"]]


MODULE = "from page.views.view import Panel, View\nVIEW = View({!r}, 'New', {}, Panel)\n"


def write_panel(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "panel.py").write_text(text)


@pytest.fixture
def more_views(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder whose folders are views as well."""
    monkeypatch.setattr(page.views, "__path__", [*page.views.__path__, str(tmp_path)])
    return tmp_path


def test_a_module_is_found_by_its_place(more_views: Path) -> None:
    names = [view.name for view in find_views().views]
    assert names[0] == "run"
    write_panel(more_views / "brand_new", MODULE.format("brand_new", 1))
    found = find_views()
    assert [view.name for view in found.views] == ["run", "brand_new", *names[1:]]
    assert not found.problems


def test_a_module_that_is_no_view_stops_no_other(more_views: Path) -> None:
    names = [view.name for view in find_views().views]
    write_panel(more_views / "not_there", "import no_such_module_anywhere\n")
    write_panel(more_views / "half_written", "VIEW = View(\n")
    write_panel(more_views / "misnamed", MODULE.format("other", 1))
    write_panel(more_views / "too_close", MODULE.format("too_close", 90))

    async def script() -> FakeBrowser:
        browser = FakeBrowser()
        app = App(browser, PageEngine())
        await app.receive({"act": "hello"})
        await open_sample(app)
        assert {"run", "python"} < set(tabs(browser))
        await run(app)
        assert "37 × 41" in browser.html["outputs"]
        return browser

    told = run_virtually(script()).html["view-problems"]
    for part in (
        "views/not_there/panel.py",
        "No module named &#x27;no_such_module_anywhere&#x27;",
        "views/half_written/panel.py</strong> SyntaxError",
        "must be a View named &#x27;misnamed&#x27;",
        "views/too_close/panel.py",
        "order=90 is that of python/ already",
    ):
        assert part in told
    assert [view.name for view in find_views().views] == [*names, "too_close"]


class Unmade(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        raise RuntimeError("a fault in the making")


def test_a_panel_that_cannot_be_made_stops_no_other() -> None:
    async def script() -> None:
        view, other = View("unmade", "Unmade", 1, Unmade), View("count", "Count", 2, Counting)
        _, browser = await started(view, other)
        assert tabs(browser) == ["run", "count"]
        told = browser.html["view-problems"]
        assert "views/unmade/panel.py</strong> RuntimeError: a fault in the making" in told

    run_virtually(script())


def test_names_and_places_differ() -> None:
    found = find_views()
    assert not found.problems
    assert all(re.fullmatch("[a-z_]+", view.name) for view in found.views)


def test_a_tab_is_there_when_what_it_needs_is() -> None:
    chat = View("chat", "Chat", 1, Counting, (LANGUAGE_MODEL,))
    timing = View("timing", "Timing", 2, Counting, (PROGRAM, TIMESTAMPS, RUN))

    async def script() -> None:
        app, browser = await started(chat, timing)
        assert tabs(browser) == ["run"]
        await open_sample(app)
        assert tabs(browser) == ["run", "timing"]
        await choose(app, "timing")
        assert "no timestamp queries" in browser.html["view-timing"]
        await open_file(app, LLAMA)
        assert tabs(browser) == ["run", "chat", "timing"]
        await choose(app, "chat")
        assert browser.html["view-chat"] == "drawn 1"
        await open_sample(app)
        assert tabs(browser) == ["run", "timing"]
        assert browser.other["front"] == "run"

    run_virtually(script())


def test_what_is_missing_is_told_until_it_is_there() -> None:
    view = View("after", "After", 1, Counting, (PROGRAM, RUN), follows=())

    async def script() -> None:
        app, browser = await started(view, adapter=GPU, engine=Engine())
        await open_sample(app)
        await choose(app, "after")
        assert "Run the program first" in browser.html["view-after"]
        assert 'data-act="run"' in browser.html["view-after"]
        await app.receive({"act": "run"})  # as that button sends it, without a form
        assert browser.html["view-after"] == "drawn 1"

    run_virtually(script())


def test_a_panel_is_drawn_in_front_for_what_it_follows() -> None:
    view = View("count", "Count", 1, Counting, (PROGRAM,), follows=(Change.INPUTS, Change.SESSION))

    async def script() -> None:
        app, _ = await started(view)
        await open_sample(app)
        panel = app._views.panel("count")
        assert isinstance(panel, Counting)
        await app.receive({"act": "reroll", "input": "0"})
        assert panel.drawn == 0  # nobody sees it
        await choose(app, "count")
        await choose(app, "run")
        await choose(app, "count")
        assert panel.drawn == 1  # nothing changed meanwhile
        await app.receive({"act": "reroll", "input": "0"})
        assert panel.drawn == 2
        await run(app)
        assert panel.drawn == 2
        before = panel.forgotten
        await open_sample(app, "add.pte")
        assert (panel.drawn, panel.forgotten) == (3, before + 1)

    run_virtually(script())


def test_acts_go_to_their_view() -> None:
    view = View("count", "Count", 1, Counting)

    async def script() -> None:
        app, browser = await started(view)
        await app.receive({"act": "count:greet", "whom": "you"})
        assert browser.html["view-count"] == "hello you"
        await app.receive({"act": "greet", "whom": "nobody"})
        assert "which nothing handles" in browser.html["error"]

    run_virtually(script())


class Broken(Panel):
    def draw(self) -> None:
        raise RuntimeError("a fault in a view")


def test_a_view_that_fails_is_nobody_elses_trouble() -> None:
    view = View("broken", "Broken", 1, Broken, (PROGRAM,))

    async def script() -> None:
        app, browser = await started(view)
        await open_sample(app)
        await choose(app, "broken")
        assert "a fault in a view" in browser.html["error"]
        assert "draw the view “Broken”" in browser.html["error"]
        await benchmark(app, 1)
        assert "37 × 41" in browser.html["outputs"]
        assert 'data-act="cancel"' not in browser.html["run-controls"]

    run_virtually(script())


def test_work_of_a_view_ends_with_the_session() -> None:
    view = View("count", "Count", 1, Counting)

    async def script() -> None:
        app, browser = await started(view)
        await open_sample(app)
        panel = app._views.panel("count")
        assert panel is not None
        waiting = panel.start(asyncio.sleep(60), "waiting")
        failing = panel.start(asyncio.wait_for(asyncio.sleep(60), 0.01), "laying out")
        await failing
        assert "laying out" in browser.html["error"]
        assert not waiting.done()
        await app.receive({"act": "close"})
        await asyncio.wait({waiting})
        assert waiting.cancelled()

    run_virtually(script())


def listed(html: str) -> str:
    """Return the program in the panel of the view "Python"."""
    found = re.search('class="listing"><code>(.*?)</code>', html, re.S)
    assert found is not None
    return found[1].replace("&#x27;", "'").replace("&quot;", '"').replace("&lt;", "<")


FILLS = ["normal", "zeros", "ones", "range", "ramp"]


@pytest.mark.parametrize("fill", FILLS)
def test_the_python_view_computes_the_same(
    fill: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async def script() -> None:
        browser = FakeBrowser()
        app = App(browser, PageEngine())
        await app.receive({"act": "hello"})
        await open_sample(app, "add.pte")
        await choose(app, "python")
        await app.receive({"act": "fill", "input": "0", "value": fill})
        other = np.arange(37 * 41, dtype=np.float32).reshape(37, 41)
        (tmp_path / "other.npy").write_bytes(write_npy(other))
        file = File("other.npy", write_npy(other))
        await app.receive({"act": "npy", "input": "1", "files": [file]})
        await run(app)
        results = app._state.session and app._state.session.shown
        assert results
        (tmp_path / "add.pte").write_bytes((ROOT / "web/samples/add.pte").read_bytes())
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {}
        code = listed(browser.html["view-python"]).replace("http://site/samples/", "")
        body = code.replace("\n", "\n    ")
        exec(f"async def same():\n    {body}\n    return y0", names)
        np.testing.assert_array_equal(await names["same"](), results.outputs[0].array)

    run_virtually(script())


def test_views_of_tasks_name_the_device() -> None:
    views = find_views().views
    named = {view.name for view in views if view.names_device}
    tasks = {view.name for view in views if view.leads or view.tasks}
    assert named == tasks | {"rank", "find", "teach", "train"}


@pytest.mark.parametrize("software", [False, True])
def test_the_device_is_named_above_a_view(software: bool) -> None:
    view = View("sums", "Sums", 5, Counting, (PROGRAM,), names_device=True)
    other = View("other", "Other", 6, Counting, (PROGRAM,))

    async def script() -> None:
        adapter = replace(GPU, software=software)
        app, browser = await started(view, other, adapter=adapter, engine=Engine())
        await open_sample(app)
        await app.receive({"act": "view", "name": "sums"})
        on_gpu = "on a software GPU (CPU)" if software else "on WebGPU"
        assert text_above(browser, "sums") == on_gpu
        await app.receive({"act": "device", "value": "numpy"})
        assert text_above(browser, "sums") == "on NumPy (CPU) Use WebGPU"
        await app.receive({"act": "device", "value": "webgpu"})
        assert text_above(browser, "sums") == on_gpu
        await app.receive({"act": "view", "name": "other"})
        assert text_above(browser, "other") == ""

    run_virtually(script())


def test_without_a_gpu_no_other_device_is_offered() -> None:
    view = View("sums", "Sums", 5, Counting, (PROGRAM,), names_device=True)

    async def script() -> None:
        app, browser = await started(view)
        await open_sample(app)
        await app.receive({"act": "view", "name": "sums"})
        assert text_above(browser, "sums") == "on NumPy (CPU)"

    run_virtually(script())


def text_above(browser: FakeBrowser, view: str) -> str:
    """Return the text above the drawing of a panel that counts."""
    above, _, _ = browser.html[f"view-{view}"].partition("drawn")
    return " ".join(re.sub("<[^>]*>", " ", above).split())
