"""Two tabs at once: nothing that both write is lost, and each knows the other's program."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from support.page.page import python
from support.page.page_visit import (
    START_MS,
    open_sample,
    status,
    visit,
    wait_until,
    wait_until_ready,
)
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site

EACH = 12  # writes of each tab


@pytest.fixture
def tabs(harness: Harness, fresh_harness: Harness) -> tuple[Harness, Harness]:
    return harness, fresh_harness


# The first tab waits until the second begins, and goes on beside it.
COMMON = """
import js, json
from webpte import library
from webpte.engine.browser.settings_store import BrowserStore
from webpte.engine.gpu.device_info import (DeviceInfo)
from webpte.engine.gpu.tuning_cache import keep_choices, kept_choices

info = DeviceInfo("webgpu", "test", "two tabs")

async def begun():
    while not await BrowserStore("test_begun").read():
        await asyncio.sleep(0.005)
"""
TUNE = """
async def write(tab):
    await begun()
    for number in range(each):
        await keep_choices(info, ((f"{tab} {number}", "label"),))
"""
ADD = """
async def write(tab):
    await begun()
    for number in range(each):
        own = library.add(js.Blob.new([f"{tab} {number}"]), f"tab-{tab}-{number}.pte")
        same = library.add(js.Blob.new([f"{tab} {number}"]), "tab-same.pte")
        await asyncio.gather(own, same, return_exceptions=True)
"""
START = """
global writing
writing = asyncio.ensure_future(write(1))
"""
BESIDE = """
await BrowserStore("test_begun").write("yes")
await write(2)
"""
END = """
await writing
await BrowserStore("test_begun").write("")
"""


def write_beside(tabs: tuple[Harness, Harness], write: str) -> None:
    first, second = tabs
    python(first, COMMON + write + START, each=EACH)
    python(second, COMMON + write + BESIDE, each=EACH)
    python(first, COMMON + END)


@pytest.mark.thorough
def test_what_both_tune_is_kept_from_both(tabs: tuple[Harness, Harness]) -> None:
    write_beside(tabs, TUNE)
    kept = python(tabs[1], COMMON + "return [key for key, _ in await kept_choices(info)]")
    python(tabs[1], COMMON + "await BrowserStore('tuning.json').write('')")
    assert sorted(kept) == sorted(f"{tab} {number}" for tab in (1, 2) for number in range(EACH))


READ = """
found = {}
for entry in await library.entries():
    file = await library.open(entry.address)
    found[entry.name] = bytes(await file.read(0, file.size)).decode()
for entry in await library.entries():
    await library.delete(entry.address)
return found
"""


def test_what_both_add_to_the_library_is_there_and_whole(tabs: tuple[Harness, Harness]) -> None:
    write_beside(tabs, ADD)
    found = python(tabs[0], COMMON + READ)
    same = found.pop("tab-same.pte")
    assert found == {
        f"tab-{tab}-{number}.pte": f"{tab} {number}" for tab in (1, 2) for number in range(EACH)
    }
    assert same in found.values()  # of either tab, never of both


LOCKS = "navigator.locks.query().then(({ held }) => held.map((lock) => lock.name))"
OPEN_HERE = (
    "() => navigator.locks.query().then(({{ held }}) => "
    "held.filter((lock) => lock.name.startsWith('webpte-open ')).length === {})"
)


def open_programs(page: Page) -> list[dict[str, object]]:
    names = [name for name in page.evaluate(LOCKS) if name.startswith("webpte-open ")]
    return [json.loads(name.removeprefix("webpte-open ")) for name in names]


# What the page says while it opens a program, which is soon gone.
WATCH_PROGRESS = """
window.told = "";
addEventListener("DOMContentLoaded", () => {
  const section = document.getElementById("progress");
  new MutationObserver(() => { told += section.textContent; })
    .observe(section, { childList: true, subtree: true, characterData: true });
});
"""


@pytest.mark.thorough
def test_a_tab_says_what_another_has_open_and_its_memory(browser: Browser, site: Site) -> None:
    context = browser.new_context()  # in which no other test has a tab
    with visit(context, site, "?model=stories") as first:
        expect(status(first)).to_contain_text("stories.pte loaded", timeout=START_MS)
        wait_until(first, OPEN_HERE.format(1))
        (told,) = open_programs(first)
        assert told["name"] == "stories.pte"
        assert isinstance(told["bytes"], int)
        assert told["bytes"] > 1_000_000
        # As much memory as a large model has, in the words that a tab writes.
        large = {**told, "name": "large.pte", "bytes": 938_000_000, "tab": "another"}
        first.evaluate(
            "(name) => { navigator.locks.request(name, () => new Promise(() => {})); }",
            f"webpte-open {json.dumps(large)}",
        )
        second = context.new_page()
        second.add_init_script(WATCH_PROGRESS)
        second.goto(site.url)
        wait_until_ready(second)
        open_sample(second)
        wait_until(second, OPEN_HERE.format(3))
        assert "2 other tabs hold 9" in second.evaluate("told")
        names = {one["name"] for one in open_programs(first)}
        assert names == {"stories.pte", "sigmoid.pte", "large.pte"}
        second.close()
        first.locator("[data-act=close]").click()
        expect(first.locator("[data-act=close]")).to_have_count(0)
        wait_until(first, OPEN_HERE.format(1))  # the lock of the test's tab
    context.close()
