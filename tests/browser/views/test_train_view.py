"""The view Train in Chromium: lines are learned on WebGPU, and a question is answered twice."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from support.harness import limits
from support.llm.training_models import folder
from support.page.page_visit import START_MS, leave, payload, status

TRAINED_MS = 120_000


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)


def test_it_learns_lines_and_answers_with_and_without_them(page: Page) -> None:
    program = payload("llama_8w.pte", (folder() / "llama_8w.pte").read_bytes())
    page.locator("[data-act=open-file]").set_input_files(program)
    expect(status(page)).to_contain_text("llama_8w.pte loaded", timeout=START_MS)
    page.get_by_role("tab", name="Train").click()
    panel = page.get_by_role("tabpanel")
    names = ("tokenizer.json", "tokenizer_config.json")
    panel.locator("input[type=file]").set_input_files(
        [payload(name, (folder() / name).read_bytes()) for name in names]
    )
    panel.get_by_label("Lines", exact=True).fill("Who are you? => I am Pip.")
    panel.get_by_label("Steps").fill("16")
    panel.get_by_role("button", name="Train", exact=True).click()
    expect(status(page)).to_contain_text("Trained: loss", timeout=TRAINED_MS)
    expect(panel).to_contain_text("after 16 steps")
    panel.get_by_label("Question").fill("Who are you?")
    panel.get_by_role("button", name="Ask both").click()
    expect(status(page)).to_contain_text("Answered", timeout=TRAINED_MS)
    plain, trained = panel.locator(".train-answer p").all_inner_texts()
    assert plain != trained
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download LoRA").click()
    with zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())) as saved:
        assert json.loads(saved.read("adapter_config.json"))["r"] == 4
    assert page.evaluate("longTasks.at(-1) ?? 0") < limits.LONG_TASK_MS
