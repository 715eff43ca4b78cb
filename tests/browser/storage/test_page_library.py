"""The library on the page: a file is kept, listed, opened without a network, and deleted."""

from __future__ import annotations

import re
from urllib.parse import quote_plus

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from support.page.page_visit import (
    START_MS,
    downloaded,
    drop,
    give_npy,
    random_input,
    run,
    show_samples,
    sigmoid,
    status,
    visit,
    wait_until_ready,
)
from webpte_host.base.layout import WEB
from webpte_host.serving.server import Site

SAMPLE = "samples/sigmoid.pte"


def test_the_page_keeps_lists_opens_and_deletes(profile: BrowserContext, site: Site) -> None:
    with visit(profile, site, f"?url={SAMPLE}", but="ERR_INTERNET_DISCONNECTED") as page:
        expect(status(page)).to_contain_text("sigmoid.pte loaded", timeout=START_MS)
        page.get_by_label("Auto-run").uncheck()  # a run would replace the status
        give_npy(page, 0, random_input(5), "mine.npy")
        expect(page.locator("#library-total")).to_have_text("1 program, 1.34 KiB")
        page.reload()
        wait_until_ready(page)
        expect(status(page)).to_contain_text("cached, up to date")
        expect(page.locator("#input-0")).to_contain_text("from mine.npy")
        page.locator("[data-act=close]").click()
        page.locator("#library-box summary").click()
        page.context.set_offline(True)
        try:
            page.locator("#library").get_by_role("button", name="sigmoid.pte", exact=True).click()
            expect(status(page)).to_contain_text("server unreachable")
            run(page)
            np.testing.assert_allclose(downloaded(page), sigmoid(random_input(5)), atol=1e-5)
            delete = page.get_by_role("button", name="Delete sigmoid.pte from the library")
            show_samples(page)
            expect(delete).to_be_disabled()
            page.set_viewport_size({"width": 2560, "height": 900})
            box = delete.bounding_box()
            assert box is not None
            assert box["x"] < 1000  # not at the other end of a wide screen
            page.set_viewport_size({"width": 1280, "height": 900})
            page.locator("[data-act=close]").click()
            delete.click()
            expect(page.locator("#library-total")).to_have_text("empty")
        finally:
            page.context.set_offline(False)  # other tests use this profile, too


@pytest.mark.thorough
def test_programs_of_one_name_are_kept_side_by_side(profile: BrowserContext, site: Site) -> None:
    """Two models whose files are both called model.pte, as in most folders."""
    files = [(WEB / "samples" / name).read_bytes() for name in ("sigmoid.pte", "add.pte")]
    with visit(profile, site) as page:
        wait_until_ready(page)
        for data, kept in zip([*files, files[0]], ["model", "model (2)", "model"], strict=True):
            drop(page, "body", ("model.pte", data))
            page.get_by_role("button", name="keep a copy").click()
            expect(page).to_have_url(re.compile(rf"local:{re.escape(quote_plus(kept))}\.pte"))
            expect(page.locator("#program")).to_contain_text(f"{kept}.pte")
        names = page.locator("#library .kept-name")
        expect(names).to_have_count(2)
        assert sorted(names.all_inner_texts()) == ["model (2).pte", "model.pte"]
        page.reload()
        wait_until_ready(page)
        expect(page.locator("#program")).to_contain_text("model.pte")
        give_npy(page, 0, random_input(5), "mine.npy")
        run(page)
        np.testing.assert_allclose(downloaded(page), sigmoid(random_input(5)), atol=1e-5)
        expect(page.locator("#error")).to_be_empty()
