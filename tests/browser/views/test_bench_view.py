"""The view Bench in Chromium: measured, cancelled, saved, and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.page.page_visit import leave, open_sample, status


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def test_figures_are_measured_and_compared(page: Page) -> None:
    open_sample(page)
    page.get_by_role("tab", name="Benchmark").click()
    panel = page.locator("#view-bench")
    panel.get_by_role("button", name="Start", exact=True).click()
    expect(panel).to_contain_text("digits: one call of 1 × 1 × 28 × 28 (ms)")
    expect(status(page)).to_have_text("Measured")
    expect(panel).to_contain_text("stories: decode at 64 (tokens/s)")
    with page.expect_download() as download:
        panel.get_by_role("button", name="Save JSON").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    saved = json.loads(text)
    assert saved["format"] == "webpte-bench 1"
    assert "Chrome" in saved["browser"]
    assert all(row["value"] > 0 for row in saved["rows"])
    saved["adapter"] = "another one"
    panel.get_by_label("Compare with a result").fill(json.dumps(saved))
    panel.get_by_role("button", name="Compare", exact=True).click()
    expect(panel).to_contain_text("another one")
    expect(page.locator("#error")).to_have_text("")


@pytest.mark.thorough
def test_a_gpu_is_measured_and_the_measurement_cancelled(page: Page) -> None:
    open_sample(page)
    page.get_by_role("tab", name="Benchmark").click()
    panel = page.locator("#view-bench")
    panel.get_by_role("button", name="Measure this GPU").click()
    expect(panel).to_contain_text("peak: memory (GB/s)")
    panel.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_text("Cancelled. Results so far are shown.")
    expect(panel).to_contain_text("peak: float32 (TFLOP/s)")
    page.get_by_role("tab", name="Run").click()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#error")).to_have_text("")
