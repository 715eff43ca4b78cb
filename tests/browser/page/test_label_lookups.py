"""A label that is not on the page ends a test soon, with the labels that are there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from support.harness import limits
from support.page.label_lookups import NoLabelError

PAGE = """
<label>Speed <input></label>
<button aria-label="Go on">→</button>
<button hidden>No</button>
<script>
    const late = Object.assign(document.createElement("button"), { innerText: "Late" });
    setTimeout(() => document.body.append(late), 300);
</script>"""


def test_a_missing_label_is_told_with_those_that_are_there(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = browser.new_page()
    try:
        page.set_content(PAGE)
        page.get_by_label("Speed").fill("3")
        page.get_by_role("button", name="Late").click()
        assert page.get_by_label("Speed").input_value() == "3"
        monkeypatch.setattr(limits, "LABEL_MS", 50)
        for lost in (page.get_by_label("Size"), page.get_by_role("button", name="Stop").first):
            with pytest.raises(NoLabelError, match=r"0\.05 s") as raised:
                lost.click()
            told = str(raised.value)
            assert "'Speed', 'Go on', 'Late'" in told
            assert "'No'" not in told
        page.locator("input").fill("4")  # a selector has the limit of the page
    finally:
        page.close()
