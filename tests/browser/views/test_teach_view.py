"""The teach view in Chromium: draw a few of two shapes, learn, and draw one more."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support.harness import limits
from support.page.page_visit import leave, status
from support.page.teaching import SHAPES, SIDE, placed

LEARNED_MS = 60_000


def draw(page: Page, shape: str, seed: int) -> None:
    """Draw on the pad with the mouse."""
    box = page.locator("#teach-pad canvas").bounding_box()
    assert box is not None
    cell = box["width"] / SIDE
    points = placed(SHAPES[shape], np.random.default_rng(seed))
    (x, y), *others = [(box["x"] + cell * x, box["y"] + cell * y) for x, y in points]
    page.mouse.move(x, y)
    page.mouse.down()
    for x, y in others:
        page.mouse.move(x, y, steps=2)
    page.mouse.up()


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def test_it_learns_two_shapes_and_tells_new_ones_apart(page: Page) -> None:
    page.locator(".entry[data-name=teach]").click()
    expect(status(page)).to_contain_text("teach.pte loaded")
    page.get_by_label("Name of class 1").fill("ring")
    panel = page.get_by_role("tabpanel")
    for seed in range(2):
        for shape, name in (("circle", "ring"), ("zigzag", "B")):
            draw(page, shape, seed)
            panel.get_by_role("button", name=f"This is {name}").click()
    expect(panel.locator(".teach-examples img")).to_have_count(4)
    panel.get_by_label("steps").fill("20")
    panel.get_by_role("button", name="Learn", exact=True).click()
    expect(status(page)).to_contain_text("Learned: loss", timeout=LEARNED_MS)
    expect(panel).to_contain_text("after 20 steps")
    thinks = page.locator("#teach-thinks")
    draw(page, "zigzag", 11)
    expect(thinks).to_contain_text("Prediction: B")
    panel.get_by_role("button", name="Clear").click()
    expect(thinks).not_to_contain_text("It thinks")
    draw(page, "circle", 12)
    expect(thinks).to_contain_text("Prediction: ring")
    page.get_by_role("tab", name="Run").click()
    page.get_by_role("tab", name="Teach").click()
    expect(page).to_have_url(re.compile(r"\?model=teach&view=teach$"))
    expect(thinks).to_contain_text("Prediction: ring")
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download weights").click()
    with np.load(io.BytesIO(download.value.path().read_bytes())) as saved:
        assert saved["names"].tolist() == ["ring", "B"]
        assert np.abs(saved["mean1"]).max() > 0
    assert page.evaluate("longTasks.at(-1) ?? 0") < limits.LONG_TASK_MS
