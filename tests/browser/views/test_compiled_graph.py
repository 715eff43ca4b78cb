"""A compiled program that is chosen on the empty page: its dispatches are drawn in Chromium."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from support.page.page_visit import SAMPLES, status, visit
from webpte import compiling
from webpte_host.serving.server import Site


def test_dispatches_are_drawn_without_a_program(
    profile: BrowserContext, site: Site, tmp_path: Path
) -> None:
    path = tmp_path / "digits.zip"
    work = compiling.compile_zip(SAMPLES / "digits.pte", name="digits")
    with ThreadPoolExecutor(1) as pool:  # Playwright has a loop in this thread
        path.write_bytes(pool.submit(asyncio.run, work).result())
    with visit(profile, site) as page:
        page.locator("input[data-act=open-file]").set_input_files(path)
        expect(status(page)).to_contain_text("compiled")
        drawn = page.locator("#view-graph svg .graph-drawn-call")
        expect(drawn).to_have_count(6)
        expect(drawn.first).to_be_visible()
        page.get_by_role("button", name="Close the compiled program").click()
        expect(page.locator("#gallery-list .entry").first).to_be_visible()
        expect(page.locator("#view-graph")).to_be_empty()
