"""The demo of a compiled program: a drawing, a picture, a sound and a message get their answers."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import webpte
from support.compiling.cases import compile_program
from support.page.static_site import static_host
from webpte_host.base.layout import ROOT
from webpte_host.base.progress import Display
from webpte_host.harness.browser import PageLog
from webpte_host.setup.text_libraries import text_libraries

SAMPLES = ROOT / "web" / "samples"
QUESTION = "What does a cow say?"
READY = "document.querySelector('pte-model')?.program != null"
PAGE = '<!doctype html><title>Compiled</title><link rel="icon" href="data:,">'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text(PAGE, "utf-8")
    for name in ("digits", "photo", "notes"):
        card = json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))
        compile_program(SAMPLES / f"{name}.pte", folder / name, task=card)
    with static_host(folder) as host:
        yield folder, host.url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    log = PageLog(page)
    yield page
    assert log.errors == []
    page.close()


def opened(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}{name}/")
    page.wait_for_function(READY, timeout=60_000)


def test_a_drawn_digit(page: Page, site: tuple[Path, str]) -> None:
    opened(page, site[1], "digits")
    expect(page).to_have_title("Draw a digit")
    box = page.locator("canvas.pad").bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.8 * box["height"], steps=8)
    page.mouse.up()
    expect(page.locator(".largest .label-name").first).to_have_text("1", timeout=30_000)


def test_a_picture_and_a_sound(page: Page, site: tuple[Path, str]) -> None:
    opened(page, site[1], "photo")
    page.locator("input[type=file]").set_input_files(SAMPLES / "photo.example.png")
    made = page.locator(".results canvas")
    expect(made).to_be_visible(timeout=60_000)
    assert made.evaluate("(one) => [one.width, one.height]") == [352, 264]
    opened(page, site[1], "notes")
    page.locator("input[type=file]").set_input_files(SAMPLES / "notes.example.wav")
    heard = page.locator(".largest .label-name")
    expect(heard.first).to_be_visible(timeout=60_000)
    named = [text for text in heard.all_text_contents() if text != "no note"]
    assert named == ["C4 261.6 Hz", "E4 329.6 Hz", "G4 392.0 Hz", "C5 523.3 Hz"]


def test_an_element_without_a_program_shows_the_error(browser: Browser, site: Any) -> None:
    page = browser.new_page()
    page.goto(site[1])
    page.evaluate(
        """async (base) => {
            await import(`${base}digits/webpte-view.js`);
            const element = document.createElement("pte-model");
            element.setAttribute("src", "nothing/");
            document.body.append(element);
        }""",
        site[1],
    )
    expect(page.locator("pte-model .error")).to_contain_text("nothing/index.js")
    page.close()


def test_a_chat(page: Page, site: tuple[Path, str]) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings the libraries for texts")
    texts = {
        name: (SAMPLES / f"stories.{name}").read_bytes()
        for name in ("tokenizer.json", "tokenizer_config.json")
    }
    more = {**texts, **text_libraries(Display())}
    card = json.loads((SAMPLES / "stories.json").read_text("utf-8"))
    compile_program(SAMPLES / "stories.pte", site[0] / "stories", task=card, more=more)
    opened(page, site[1], "stories")
    page.get_by_label("Message").fill(QUESTION)
    page.get_by_label("Message").press("Enter")
    answered = page.evaluate(
        """() => new Promise((resolve) => document.querySelector("pte-model")
            .addEventListener("answer", ({ detail: [{ text }] }) => resolve(text)))"""
    )
    with ThreadPoolExecutor(1) as threads:  # because Playwright's event loop runs here
        wanted = threads.submit(asyncio.run, _told()).result()
    assert answered == wanted
    expect(page.locator(".said")).to_have_text(wanted)


async def _told() -> str:
    """Return the answer through Python."""
    async with await webpte.llm.load(SAMPLES / "stories.pte", device="numpy") as model:
        tokenizer = await webpte.text.load_tokenizer(
            SAMPLES / "stories.tokenizer.json", config=SAMPLES / "stories.tokenizer_config.json"
        )
        chat = webpte.llm.Chat(model, tokenizer)
        return "".join([piece async for piece in chat.send(QUESTION)])
