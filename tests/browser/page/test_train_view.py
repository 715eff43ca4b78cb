"""The view Train in Chromium: lines are learned on WebGPU, and answered as learned."""

from __future__ import annotations

import io
import json
import zipfile

from playwright.sync_api import BrowserContext, expect

from support.harness import limits
from support.page.page_visit import START_MS, status, visit
from webpte_host.serving.server import Site

TRAINED_MS = 120_000
ANSWER = "My name is Hugo."


def test_it_learns_lines_and_answers_with_and_without_them(
    profile: BrowserContext, site: Site
) -> None:
    with visit(profile, site, "?model=stories&view=train") as page:
        expect(status(page)).to_contain_text("stories.pte loaded", timeout=START_MS)
        panel = page.get_by_role("tabpanel")
        panel.get_by_label("Lines", exact=True).fill(f"What is your name? => {ANSWER}")
        panel.get_by_label("Steps").fill("24")
        panel.get_by_label("Rate").fill("10")
        panel.get_by_role("button", name="Train", exact=True).click()
        expect(status(page)).to_contain_text("Trained: loss", timeout=TRAINED_MS)
        expect(panel).to_contain_text("after 24 steps")
        panel.get_by_label("Question").fill("What is your name?")
        panel.get_by_role("button", name="Ask both").click()
        expect(status(page)).to_contain_text("Answered twice", timeout=TRAINED_MS)
        answers = panel.locator(".train-answer p")
        expect(answers.nth(1)).to_have_text(ANSWER)
        expect(answers.nth(0)).not_to_have_text(ANSWER)
        with page.expect_download() as download:
            panel.get_by_role("button", name="Download LoRA").click()
        with zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())) as saved:
            assert json.loads(saved.read("adapter_config.json"))["r"] == 8
        page.reload()
        expect(status(page)).to_contain_text("stories.pte loaded", timeout=START_MS)
        expect(panel).to_contain_text("after 24 steps")
        assert page.evaluate("longTasks.at(-1) ?? 0") < limits.LONG_TASK_MS
