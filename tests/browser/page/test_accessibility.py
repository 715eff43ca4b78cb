"""The page for everybody: axe in every view, the keyboard alone, nothing that jumps or moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import (
    BrowserContext,
    FloatRect,
    Locator,
    Page,
    Route,
    ViewportSize,
    expect,
)

from support.harness import extent, limits
from support.page.page_visit import (
    TWO_FRAMES,
    leave,
    long_benchmark,
    show_samples,
    status,
    visit,
)
from webpte_host.serving.server import Site

WIDE = ViewportSize(width=1280, height=900)
NARROW = ViewportSize(width=390, height=844)
VAST = ViewportSize(width=1920, height=1080)  # inputs and outputs are side by side
GRAVE = ("serious", "critical")
ONLY_CONTRAST = {"runOnly": ["color-contrast"]}
NO_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
Look = tuple[Literal["light", "dark"], ViewportSize, dict[str, Any]]
LOOKS: list[Look] = extent.some(
    [("light", WIDE, {}), ("dark", WIDE, ONLY_CONTRAST)],
    ("light", NARROW, NO_CONTRAST),
    ("dark", NARROW, ONLY_CONTRAST),
)
# All that it looked at and found well would take longer to send than to find.
FIND_VIOLATIONS = """async (rules) =>
    (await axe.run({ ...rules, resultTypes: ["violations"] })).violations"""
MOST_SHIFT = 0.1  # up to this sum, unasked layout shifts are called good
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput, sources } of list.getEntries()) {
    const moved = sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    if (!hadRecentInput) shifts.push({ value, moved });
  }
}).observe({ type: "layout-shift", buffered: true });
"""


def resize(page: Page, size: ViewportSize) -> None:
    """Change the window's size; moves that follow are no shifts, however late they come."""
    page.set_viewport_size(size)
    page.evaluate(TWO_FRAMES)
    shift(page)


@pytest.fixture(scope="module")
def started(profile: BrowserContext, site: Site) -> Iterator[Page]:
    with visit(profile, site) as page:
        page.evaluate(WATCH_SHIFTS)  # shifts before it included
        page.evaluate("() => new Promise((told) => setTimeout(told))")
        page.evaluate("window.shiftsOfStart = shifts.splice(0)")
        resize(page, WIDE)
        page.evaluate(AXE_SCRIPT)
        yield page


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    started.emulate_media(color_scheme="light", reduced_motion="no-preference")
    started.set_viewport_size(WIDE)
    leave(started)
    shift(started)


def palette(page: Page, text: str) -> None:
    """Return the first commands that a text finds."""
    page.keyboard.press("ControlOrMeta+k")
    expect(page.get_by_role("combobox", name="Search commands")).to_be_focused()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def shift(page: Page, name: str = "shifts") -> float:
    """Return the layout shift since the last call."""
    shifts = page.evaluate(f"{name}.splice(0)")
    print(*shifts, sep="\n")
    return float(sum(one["value"] for one in shifts))


def come_late(route: Route) -> None:
    time.sleep(0.7)
    route.continue_()


@pytest.mark.thorough
def test_nothing_jumps(page: Page) -> None:
    assert shift(page, "shiftsOfStart") < MOST_SHIFT
    # What moves within half a second of a click is taken to be meant: longer than that, each time.
    page.route("**/photo.pte", come_late)
    for size in (WIDE, NARROW):
        resize(page, size)
        show_samples(page)
        page.locator(".entry[data-name=photo]").click()
        expect(page.locator("#input-0 img")).to_be_visible()
        expect(status(page)).to_contain_text("Done")
        assert shift(page) < MOST_SHIFT, size
        leave(page)
        shift(page)
    page.unroute("**/photo.pte")


@pytest.mark.thorough
def test_a_run_moves_nothing_but_what_comes_out(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")  # there at once, where it scrolls to
    for size in (WIDE, VAST):
        page.set_viewport_size(size)
        palette(page, "open superres")  # its output is higher than the window
        expect(status(page)).to_contain_text("superres.pte loaded")
        before = [box(page, name) for name in ("#inputs", "#run", "#run-more")]
        page.keyboard.press("ControlOrMeta+Enter")
        expect(status(page)).to_contain_text("Done")
        after = [box(page, name) for name in ("#inputs", "#run", "#run-more")]
        for one, other in zip(before, after, strict=True):
            assert (one["width"], one["height"]) == (other["width"], other["height"])
        leave(page)


@pytest.mark.thorough
def test_what_comes_out_is_not_behind_the_run_bar(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        palette(page, "open superres")
        expect(status(page)).to_contain_text("superres.pte loaded")
        page.keyboard.press("ControlOrMeta+Enter")
        expect(status(page)).to_contain_text("Done")
        bar, outputs = (box(page, name) for name in ("#run", "#outputs"))
        assert outputs["y"] >= bar["y"] + bar["height"]
        leave(page)


@pytest.mark.thorough
def test_the_chosen_tab_stays_in_sight(page: Page) -> None:
    palette(page, "open sigm")
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    tab = page.get_by_role("tab", name="Python")
    tab.click()
    page.set_viewport_size(ViewportSize(width=320, height=700))  # as when a phone is turned
    expect(tab).to_be_in_viewport(ratio=0.9)


@pytest.mark.thorough
def test_a_cancel_scrolls_nowhere(page: Page) -> None:
    """The button disappears, and another one of the sticky bar gets the focus."""
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size(NARROW)
    palette(page, "open superres")
    expect(status(page)).to_contain_text("superres.pte loaded")
    with long_benchmark(page):
        before, cancel = box(page, "#outputs"), box(page, "[data-act=cancel]")
        page.mouse.click(cancel["x"] + 9, cancel["y"] + 9)
        expect(status(page)).to_contain_text("stopped early")
    assert box(page, "#outputs")["y"] == pytest.approx(before["y"], abs=2)


def box(page: Page, selector: str) -> FloatRect:
    found = page.locator(selector).bounding_box()
    assert found is not None, selector
    return found


# ---- axe


def grave_problems(page: Page, what: str) -> list[str]:
    """Run axe in light and dark, and see that nothing is wider than a phone. Contrast takes the
    longest, and all other rules are the same in both themes."""
    found = []
    for scheme, size, rules in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        found_here: Any = page.evaluate(FIND_VIOLATIONS, rules)
        for problem in found_here:
            nodes = [f"{node['target']} {node['failureSummary']}" for node in problem["nodes"]]
            if problem["impact"] in GRAVE:
                where = f"{what}, {scheme}, {size['width']} px"
                found.append(f"{where}: {problem['id']}\n" + "\n".join(nodes[:3]))
    for size in (NARROW, WIDE):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], what
    return found


def wait_until_idle(page: Page) -> None:
    expect(status(page)).not_to_have_attribute("data-mood", "busy")


def work_in(page: Page, panel: Locator) -> None:
    """Press the main button of a view, so that there is something to see; ask a chat."""
    expect(panel).not_to_contain_text("Reading the tokenizer")
    message = panel.get_by_label("Message", exact=True)
    button = panel.locator("button.primary:visible")
    if message.count():
        message.fill("Tell me a story about a cat.")
        message.press("Enter")
        expect(status(page)).to_contain_text("Answered")
    elif button.count() and panel.get_attribute("id") != "view-bench":  # which takes long
        button.first.click()
        expect(status(page)).not_to_contain_text("loaded in")
    wait_until_idle(page)


def test_axe_finds_nothing_grave_in_any_view(page: Page) -> None:
    problems, covered = grave_problems(page, "gallery"), set[str]()
    for model in ("digits", "stories"):  # the second for the views that only such models have
        show_samples(page)
        page.locator(f".entry[data-name={model}]").click()
        expect(status(page)).to_contain_text(f"{model}.pte loaded")
        names = [tab.get_attribute("data-name") for tab in page.locator("#tabs [role=tab]").all()]
        for name in (one for one in names if one and one not in covered):
            covered.add(name)
            page.evaluate("longTasks.length = 0")  # axe's own
            page.locator(f"#tab-{name}").click()
            panel = page.locator(f"#view-{name}")
            expect(panel).not_to_be_empty()
            work_in(page, panel)
            assert max(page.evaluate("longTasks"), default=0) < limits.LONG_TASK_MS, name
            problems += grave_problems(page, f"the view {name}")
    assert {"run", "chat", "graph", "profile", "compare", "python"} <= covered
    page.locator("[data-act=close]").click()
    expect(page.locator(".toast")).to_be_visible()
    page.keyboard.press("ControlOrMeta+k")
    problems += grave_problems(page, "palette")
    page.keyboard.press("Escape")
    assert not problems, "\n\n".join(problems)


# ---- the keyboard, and motion


def test_everything_by_the_keyboard(page: Page) -> None:
    palette(page, "open sigm")
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(status(page)).to_contain_text("Done")
    palette(page, "gtpy")  # Go to Python
    expect(page.get_by_role("tab", name="Python")).to_be_focused()
    expect(page.locator("#view-python")).to_contain_text("webpte.load")
    page.keyboard.press("Home")
    expect(page.locator("#outputs")).to_be_visible()
    palette(page, "run on numpy")
    expect(page.locator("#stats")).to_contain_text("NumPy")
    palette(page, "close")
    expect(page.locator("#undo")).to_be_focused()  # since the focused button is gone
    page.keyboard.press("Enter")
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    expect(page.locator("#stats")).to_contain_text("NumPy")
    expect(page.locator("#outputs")).to_contain_text("output0")
    palette(page, "run on webgpu")
    expect(page.locator("#stats")).to_contain_text("WebGPU")


@pytest.mark.thorough
def test_the_palette_tells_where_one_is(page: Page) -> None:
    button = page.get_by_role("button", name="Commands")
    button.focus()
    page.keyboard.press("Enter")
    field = page.get_by_role("combobox", name="Search commands")
    rows = page.get_by_role("listbox", name="Commands").get_by_role("option")
    many = rows.count()
    page.keyboard.press("ArrowUp")  # round to the last
    expect(rows.last).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", f"command-{many - 1}")
    page.keyboard.type("no such command")
    expect(page.locator("#palette-count")).to_have_text("No commands")
    expect(field).not_to_have_attribute("aria-activedescendant", "command-0")
    page.keyboard.press("Enter")  # does nothing
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(button).to_be_focused()


@pytest.mark.thorough
def test_what_the_palette_finds(page: Page) -> None:
    rows = ["Run on NumPy (CPU)", "Go to Run", "Run", "Go to Graph", "Compare with NumPy"]
    find = """async ([query, rows]) => (await import("/scripts/palette.js"))
        .search(query, rows.map((title) => ({ title }))).map(({ command }) => command.title)"""

    def found(query: str) -> Any:
        return page.evaluate(find, [query, rows])

    assert found("") == rows
    assert found("gtg") == ["Go to Graph"]
    assert found("numpy")[0] in ("Run on NumPy (CPU)", "Compare with NumPy")
    assert set(found("RUN")[:2]) == {"Run", "Run on NumPy (CPU)"}
    assert found("nur") == []  # the letters in another order


@pytest.mark.thorough
def test_nothing_moves_for_those_who_do_not_want_it(page: Page) -> None:
    moving = "document.getAnimations().length"
    palette(page, "open sigm")
    expect(status(page)).to_contain_text("sigmoid.pte loaded")
    palette(page, "close")
    expect(page.locator(".toast")).to_be_visible()
    assert page.evaluate(moving) > 0  # it is about to fade
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == 0
    expect(page.locator(".toast")).to_be_visible()
