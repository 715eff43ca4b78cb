"""The compare view in Chromium: tolerances, the first mismatched call, expected outputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support.page.page_visit import (
    SHAPE,
    drop,
    give_npy,
    leave,
    npy,
    open_sample,
    random_input,
    sigmoid,
    status,
)


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def compare(page: Page, tolerance: str) -> None:
    page.get_by_label("relative tolerance").fill(tolerance)
    page.get_by_label("absolute tolerance").fill(tolerance)
    page.keyboard.press("Enter")
    expect(status(page)).to_contain_text("Compared")


def test_comparing(page: Page) -> None:
    open_sample(page)
    x = random_input(3)
    give_npy(page, 0, x)
    expect(page.locator("#input-0")).to_contain_text("x.npy")
    page.get_by_role("tab", name="Compare").click()
    panel = page.get_by_role("tabpanel", name="Compare")
    compare(page, "1e-3")
    expect(status(page)).to_contain_text("no mismatches")
    expect(panel.get_by_role("table")).to_have_count(1)

    compare(page, "0")  # no GPU rounds as NumPy does everywhere
    expect(status(page)).to_contain_text("aten.sigmoid.default is the first mismatched call")
    expect(panel.get_by_role("img", name="Map of the differences")).to_be_visible()
    around = panel.get_by_role("region", name="Values around the worst element: NumPy")
    expect(around.locator(".compare-worst")).to_have_count(1)
    page.get_by_role("button", name="Mismatches only").press("Space")
    expect(page.get_by_role("button", name="Mismatches only")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(panel.get_by_role("rowheader", name="aten.sigmoid.default")).to_be_visible()

    wanted = sigmoid(x).astype(np.float32)
    wanted[30, 40] = 2
    drop(page, "#compare-expected", ("y.npy", npy(wanted)))
    expect(panel.get_by_role("list", name="Expected outputs")).to_contain_text(
        "output0 as in y.npy"
    )
    compare(page, "1e-3")
    expect(status(page)).to_contain_text("some outputs are not as expected")
    expect(panel).to_contain_text(f"1 of {SHAPE[0] * SHAPE[1]:,} elements")
    expect(panel.locator(".compare-worst").last).to_have_text("2")

    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
