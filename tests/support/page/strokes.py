"""Strokes of the mouse on a drawing pad."""

from __future__ import annotations

from playwright.sync_api import Locator, Page


def draw_one(page: Page, pad: Locator) -> None:
    """Draw the digit 1."""
    box = pad.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.8 * box["height"], steps=8)
    page.mouse.up()
