"""Updates patch the page and keep focus, scroll and typed text; views are tabs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from support.page.page_visit import leave, open_sample, run, status, wait_until_ready
from webpte_host.serving.server import Site


@pytest.fixture(scope="module")
def bare(browser: Browser, site: Site) -> Iterator[Page]:
    """A section and the patching, without Python."""
    page = browser.new_page()
    address = f"{site.url}bare.html"
    page.route(
        address,
        lambda route: route.fulfill(
            body="<!doctype html><div id='s'></div>", content_type="text/html"
        ),
    )
    page.goto(address)
    yield page
    page.close()


def patched(page: Page, before: str, act: str, after: str, look: str) -> Any:
    """Run `act` between two markups of the section `s`, and return what `look` finds."""
    return page.evaluate(
        """async ([before, act, after, look]) => {
            const { patch } = await import("/scripts/patch.js");
            const s = document.getElementById("s");
            s.replaceChildren();
            patch(s, before);
            const one = (selector) => s.querySelector(selector);
            new Function("s", "one", act)(s, one);
            patch(s, after);
            return new Function("s", "one", `return ${look}`)(s, one);
        }""",
        [before, act, after, look],
    )


TYPED = "one('input').value = '7'; one('input').focus()"
VALUE = "one('input').value"
BOX = "height: 20px; overflow: auto"
CASES = {
    "an opened section stays open": (
        "<details><summary>a</summary>b</details>",
        "one('details').open = true",
        "<p>new</p><details><summary>a</summary>c</details>",
        "[one('details').open, one('details').textContent]",
        [True, "ac"],
    ),
    "a new section opens as it is told": (
        "<p>a</p>",
        "",
        "<p>a</p><details open><summary id='x'>a</summary>b</details>",
        "one('details').open",
        True,
    ),
    "the focus stays on its button when others come before it": (
        "<button data-act='b'>b</button>",
        "one('button').focus()",
        "<button data-act='a'>a</button><button data-act='b'>B</button>",
        "document.activeElement.textContent",
        "B",
    ),
    "the focus does not go to the button that takes the place": (
        "<button data-act='run'>run</button><button data-act='stop'>stop</button>",
        "s.lastChild.focus()",
        "<button data-act='run'>run</button><button data-act='check'>check</button>",
        "document.activeElement.textContent",
        "run",
    ),
    "a field without an act keeps what was typed": (
        "<p>a</p><input name='n' value='3'>",
        "one('input').value = '7'",
        "<p>b</p><input name='n' value='3'>",
        VALUE,
        "7",
    ),
    "until it is given something new": (
        "<p>a</p><input name='n' value='3'>",
        TYPED,
        "<p>b</p><input name='n' value='5'>",
        VALUE,
        "5",
    ),
    "a field that Python knows of shows what Python says": (
        "<p>a</p><input data-act='n' value='3'>",
        "one('input').value = '7'",
        "<p>b</p><input data-act='n' value='3'>",
        VALUE,
        "3",
    ),
    "but not under the hands of who types": (
        "<p>a</p><input data-act='n' value='3'>",
        TYPED,
        "<p>b</p><input data-act='n' value='3'>",
        VALUE,
        "7",
    ),
    "a choice that was refused is put back": (
        "<select data-act='d'><option selected>a</option><option>b</option></select>",
        "one('select').focus(); one('select').value = 'b'",
        "<select data-act='d'><option selected>a</option><option>b</option></select>",
        "one('select').value",
        "a",
    ),
    "a text in progress stays": (
        "<textarea id='t'></textarea><p>a</p>",
        "one('textarea').value = 'hello'; one('textarea').focus();"
        " one('textarea').setSelectionRange(2, 2)",
        "<textarea id='t'></textarea><p>b</p>",
        "[one('textarea').value, one('textarea').selectionStart, document.activeElement.id]",
        ["hello", 2, "t"],
    ),
    "a box keeps its scrolling": (
        f"<p>a</p><div class='box' style='{BOX}'><p>1</p><p>2</p><p>3</p></div>",
        "one('.box').scrollTop = 25",
        f"<p>b</p><div class='box' style='{BOX}'><p>1</p><p>2</p><p>3</p><p>4</p></div>",
        "[one('.box').scrollTop, one('.box').children.length]",
        [25, 4],
    ),
    "what a script made stays": (
        "<div id='k' data-keep></div><p>a</p>",
        "one('#k').append(document.createElement('canvas'))",
        "<div id='k' data-keep></div><p>b</p>",
        "[s.querySelectorAll('canvas').length, one('p').textContent]",
        [1, "b"],
    ),
    "nothing is left of what is gone": (
        "<p>a</p><button data-act='a'>a</button>",
        "one('button').focus()",
        "",
        "s.childNodes.length",
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_patching(bare: Page, name: str) -> None:
    before, act, after, look, wanted = CASES[name]
    assert patched(bare, before, act, after, look) == wanted


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def test_a_run_leaves_everything_where_it_was(page: Page) -> None:
    open_sample(page, "add.pte")
    run(page)
    page.locator("#about > summary").click()
    section = page.locator("#file details").first
    section.locator("summary").click()
    assert not section.evaluate("one => one.open")
    values = page.locator("#outputs .grid-box").element_handle()
    fill = page.get_by_label("input values").first
    fill.focus()
    status(page).evaluate("(line) => { line.textContent = ''; }")
    page.keyboard.press("Control+Enter")
    expect(status(page)).to_contain_text("Done")
    expect(fill).to_be_focused()
    assert not section.evaluate("one => one.open")  # although the card was drawn again
    assert values is not None
    assert values.evaluate("one => one.isConnected")


@pytest.mark.thorough
def test_tabs_by_keyboard(page: Page) -> None:
    tabs = page.get_by_role("tablist", name="Views")
    expect(tabs).to_be_hidden()  # there is one view only
    open_sample(page)
    first, last = tabs.get_by_role("tab").first, tabs.get_by_role("tab").last
    expect(first).to_have_attribute("aria-selected", "true")
    first.focus()
    page.keyboard.press("ArrowLeft")
    expect(last).to_be_focused()
    expect(last).to_have_attribute("aria-selected", "true")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_have_count(1)
    expect(panel).to_have_attribute("aria-labelledby", "tab-python")
    expect(panel).to_contain_text("standard_normal((37, 41)")
    page.keyboard.press("Tab")
    expect(panel).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Run")).to_be_visible()


def test_a_view_follows_and_leaves_with_its_program(page: Page) -> None:
    open_sample(page)
    page.get_by_label("input values").select_option("ramp")
    page.get_by_role("tab", name="Python").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("linspace")
    page.locator("[data-act=close]").click()
    expect(page.get_by_role("tabpanel", name="Run")).to_contain_text("From PyTorch to this page")
    expect(page.get_by_role("tablist")).to_be_hidden()
    open_sample(page, "add.pte")


def run_code(page: Page, code: str) -> None:
    page.get_by_role("tab", name="Python").click()
    page.get_by_role("textbox", name="Code").fill(code)
    page.get_by_role("textbox", name="Code").press("Control+Enter")
    page.locator("#view-python [data-act=cancel]").click()


@pytest.mark.thorough
def test_an_endless_loop_in_the_console_is_cancelled(page: Page) -> None:
    open_sample(page)
    run_code(page, "print('before')\nwhile True: pass")
    expect(page.locator(".python-result")).to_have_text("before\nCancelled.", use_inner_text=True)
    expect(page.locator("#status")).to_have_text("Cancelled")
    run_code(page, "import asyncio\nwhile True: await asyncio.sleep(0.01)")
    expect(page.locator("#view-python [data-act=cancel]")).to_have_count(0)
    expect(page.locator("#error")).to_be_empty()


@pytest.mark.thorough
def test_a_loop_that_cannot_be_interrupted_ends_with_a_reload(page: Page) -> None:
    open_sample(page)
    run_code(
        page, "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    )
    expect(page.locator("#error")).to_contain_text("cannot be interrupted")
    # Playwright would wait for the worker's next message.
    page.get_by_role("button", name="Reload the page").click(no_wait_after=True)
    expect(page.locator("#python-reload")).to_have_count(0)
    wait_until_ready(page)
    expect(page.locator("#program h2")).to_contain_text("sigmoid")


@pytest.mark.thorough
def test_the_compiled_folder_of_the_open_program_is_saved(page: Page, tmp_path: Path) -> None:
    open_sample(page, "add.pte")
    page.get_by_role("tab", name="Python").click()
    page.get_by_role("button", name="Compiled").click()
    expect(page.locator("#view-python pre.listing")).to_contain_text('open("add/")')
    with page.expect_download() as download:
        page.locator("#view-python [data-act='python:compile']").click()
    expect(page.locator("#status")).to_contain_text("add.zip saved")
    download.value.save_as(tmp_path / "add.zip")
    with zipfile.ZipFile(tmp_path / "add.zip") as archive:
        assert archive.testzip() is None
        assert {"add/index.js", "add/program.json"} <= {*archive.namelist()}
