"""A repository of the Hub by its name: typed, it becomes a chat, which is there without a network;
in a link, a task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.harness.task_cases import models_folder
from support.hub.hub_site import HubSite, repositories
from support.page.page import python
from support.page.page_visit import SAMPLES, START_MS, open_address, status, visit
from webpte_host.commands import bench
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site

OFFICIAL = "executorch-community/Stories-ExecuTorch-WebGPU"
MANSION = "software-mansion/Stories-ExecuTorch"
LISTED = "executorch-community/Qwen3-0.6B-ExecuTorch-WebGPU"
CHOSEN = "1b/vulkan/stories_1b_vulkan_8da4w.pte"


@pytest.fixture(scope="module")
def hub() -> Iterator[HubSite]:
    with HubSite() as hub:
        for name, files in repositories(SAMPLES, models_folder()).items():
            hub.add(name, files)
            if name == OFFICIAL:
                hub.add(LISTED, files)
        hub.page = 5
        yield hub


def naming(hub: HubSite) -> str:
    """Return a script that has the imitation as the page's Hub."""
    return f"""addEventListener("DOMContentLoaded", () => {{
        document.querySelector("meta[name=hf-endpoint]").content = "{hub.url}";
    }});"""


def say(page: Page, text: str) -> None:
    page.locator("#chat-text").fill(text)
    page.locator("#chat-text").press("Enter")


def test_a_name_becomes_a_chat(profile: BrowserContext, site: Site, hub: HubSite) -> None:
    with visit(profile, site, but="ERR_", scripts=(naming(hub),)) as page:
        open_address(page, f"hf:{MANSION}")
        question = page.get_by_role("form", name="Programs")
        expect(question.get_by_label("program")).to_have_value(CHOSEN)
        expect(question).to_contain_text("2 more programs are for Core ML, MLX.")
        question.get_by_role("button", name="Open").click()
        expect(status(page)).to_contain_text("stories_1b_vulkan_8da4w.pte loaded")
        say(page, "What does a cow say?")
        expect(page.locator(".chat-assistant .chat-said").last).to_contain_text("moo")
        address = f"{hub.url}/{MANSION}/resolve/main/{CHOSEN}"
        expect(page).to_have_url(f"{site.url}?url={address}&view=chat")
        # What was kept opens when the Hub cannot be reached.
        page.route(lambda url: url.startswith((hub.url, hub.store_url)), lambda it: it.abort())
        page.reload()
        expect(status(page)).to_contain_text("8da4w.pte loaded", timeout=START_MS)
        expect(page.locator("#chat-text")).to_be_visible()
        page.unroute_all()


def test_a_model_is_downloaded_from_the_chat(
    profile: BrowserContext, site: Site, hub: HubSite
) -> None:
    with visit(profile, site, "?model=stories", but="ERR_", scripts=(naming(hub),)) as page:
        models = page.locator("#chat-models")
        models.locator("summary").click(timeout=START_MS)
        # A repository that the Hub has not, while the chat stays.
        models.get_by_role("button", name="Download Llama 3.2 1B Instruct").click()
        expect(page.locator("#error")).to_contain_text("Llama-3.2-1B-Instruct-ExecuTorch-WebGPU")
        expect(page.locator("#chat-text")).to_be_visible()
        # Cancel, while the Hub does not answer.
        with hub.held():
            models.get_by_role("button", name="Download Qwen3 0.6B").click()
            page.locator("#progress").get_by_role("button", name="Cancel").click()
            expect(status(page)).to_have_text("Opening was cancelled")
        models.get_by_role("button", name="Download Qwen3 0.6B").click()
        expect(status(page)).to_contain_text("stories.pte loaded")
        say(page, "What does a cow say?")
        expect(page.locator(".chat-assistant .chat-said").last).to_contain_text("moo")
        page.locator("#chat-models summary").click()
        expect(models.get_by_role("button", name="Open Qwen3 0.6B")).to_be_visible()


def test_a_link_opens_a_task(profile: BrowserContext, site: Site, hub: HubSite) -> None:
    with visit(profile, site, "?url=hf:someone/feelings", scripts=(naming(hub),)) as page:
        expect(page.get_by_role("tab", name="Task")).to_have_attribute(
            "aria-selected", "true", timeout=START_MS
        )
        expect(page.locator("#view-task .bars")).to_be_visible()


def test_names_in_python_in_the_browser(harness: Harness, hub: HubSite) -> None:
    code = """
import os
os.environ["HF_ENDPOINT"] = hub
try:
    found = [[one.path, one.backend, one.chosen] for one in await webpte.hub.files(name)]
    async with await webpte.tasks.open(name, device="numpy") as task:
        answer = await task("A cat", max_new_tokens=2)
    errors = []
    hub_errors = webpte.errors
    for other in ("hf:no/such", "hf:no"):
        try:
            await webpte.load(other, device="numpy")
        except webpte.errors.RepositoryError as error:
            errors.append(type(error).__name__)
    return [found, task.name, answer[0]["generated_text"], errors]
finally:
    del os.environ["HF_ENDPOINT"]
"""
    found, task, answer, errors = python(harness, code, hub=hub.url, name=f"hf:{OFFICIAL}")
    assert ["stories.pte", "WebGPU", True] in found
    assert len(found) == len(hub.repositories[OFFICIAL])  # of several pages
    assert task == "text-generation"
    assert answer.startswith("A cat")
    assert errors == ["RepositoryAccessError", "RepositoryNameError"]


def test_a_repository_is_timed_in_the_browser(harness: Harness, hub: HubSite) -> None:
    given = {"method": "forward", "runs": 1, "prefill": [], "decode": 1}
    loading = {"max_context": 32, "kv_cache": "int8"}
    others = {"draft": "", "waiting": None, "variant": None, "hub": hub.url}
    figures = python(harness, bench._CODE, url=f"hf:{OFFICIAL}", **given, **others, loading=loading)
    assert figures["forward"]["ms"] > 0
    python(harness, 'import os; del os.environ["HF_ENDPOINT"]')
