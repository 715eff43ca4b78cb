"""The graph as people use it: folds, a search, an opened call with its WGSL, a histogram."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support import limits
from support.page_visit import status, visit
from webpte_host.server import Site

NARROWEST = 360  # pixels, of a phone
LONGEST_TASK_MS = limits.LONG_TASK_MS


@pytest.fixture(scope="module")
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with visit(browser, site) as page:
        yield page


def boxes(panel: Locator) -> Locator:
    return panel.locator(".graph-box > button")


def test_a_graph_is_looked_into(page: Page) -> None:
    page.get_by_label("or its address").first.fill("/data/llm/llama_tiny_q4.pte")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(status(page)).to_contain_text("is loaded")
    page.get_by_role("tab", name="Graph").click()
    panel = page.get_by_role("tabpanel", name="Graph")

    # Layers are folded; the keyboard alone goes to them and opens them.
    layers = panel.get_by_role("button", name="layer × 2")
    expect(layers).to_have_attribute("aria-expanded", "false")
    boxes(panel).first.focus()
    for _ in range(boxes(panel).count()):
        if layers.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("ArrowDown")
    expect(layers).to_be_focused()
    page.evaluate("window.longTasks.length = 0")
    page.keyboard.press("Enter")
    expect(layers).to_have_attribute("aria-expanded", "true")
    expect(layers).to_be_focused()
    panel.get_by_role("button", name="layer 1").click()
    expect(panel.locator(".graph-depth-2").first).to_be_visible()

    # What is found is opened; it shows what the GPU gets.
    find = panel.get_by_label("find an operator or a value")
    find.fill("gated_")
    expect(panel.get_by_role("status")).to_contain_text("found")
    expect(find).to_be_focused()
    expect(boxes(panel).first).to_contain_text("gated_product")
    boxes(panel).first.click()
    expect(panel.get_by_role("table", name="Arguments")).to_contain_text("inputs")
    expect(panel.get_by_role("table", name="is given").first).to_be_visible()
    wgsl = panel.get_by_role("button", name="WGSL of").first
    wgsl.click()
    expect(wgsl).to_have_attribute("aria-expanded", "true")
    expect(panel.locator(".listing").first).to_contain_text("fn main")
    panel.get_by_role("button", name="Histogram of").first.click()
    expect(panel.get_by_role("img", name="Histogram of")).to_be_visible()
    expect(panel.locator(".listing").first).to_be_visible()  # what was opened stays open

    # An edge leads to the call that a value comes from, inside of its layer.
    panel.locator(".graph-chosen .graph-sources .graph-link").first.click()
    chosen = panel.locator(".graph-chosen > button")
    expect(chosen).to_contain_text("product_add")
    expect(chosen).to_be_focused()
    expect(find).to_have_value("")
    expect(panel.get_by_text("uses it").first).to_be_visible()

    panel.get_by_role("button", name="As in the file").click()
    expect(panel.get_by_role("list", name="Colours")).to_contain_text("delegate")
    panel.get_by_role("button", name="Open all").click()
    page.set_viewport_size({"width": NARROWEST, "height": 740})
    boxes(panel).nth(9).click()
    expect(panel.get_by_role("table", name="Values")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST
    tasks = page.evaluate("window.longTasks")
    assert max(tasks, default=0) <= LONGEST_TASK_MS, tasks
