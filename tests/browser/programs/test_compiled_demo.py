"""The demo of a compiled program: a drawing, a picture, a sound and a message get their answers."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import webpte
from support.compiling.cases import compile_program
from support.compiling.pages import PAGE
from support.docs.documents import blocks_of
from support.harness.limits import EXPECT_MS
from support.harness.sounds import letters_folder
from support.harness.task_cases import models_folder
from support.llm.small_seq2seq import RATE, sound
from support.page.static_site import static_host
from support.page.strokes import draw_one
from webpte.tasks.sound.speech.wave_file import wave_file
from webpte_host.base.layout import ROOT
from webpte_host.base.progress import Display
from webpte_host.harness.browser import PageLog
from webpte_host.setup.text_libraries import text_libraries

CAMERA = ROOT / "docs" / "start" / "camera_page.md"
SAMPLES = ROOT / "web" / "samples"
QUESTION = "What does a cow say?"
NEXT = "What does a dog say?"
READY = "document.querySelector('pte-model')?.program != null"
# Keeps the answers and failures of the element; failures are texts.
LISTENS = """() => {
    globalThis.said = [];
    const element = document.querySelector("pte-model");
    element.addEventListener("answer", ({ detail: [{ text }] }) => said.push({ text }));
    element.addEventListener("failure", ({ detail }) => said.push(String(detail)));
}"""


# Sends the first message, and calls `then` at the first text of the answer, before any other.
AT_FIRST_TEXT = """([message, then]) => {
    const element = document.querySelector("pte-model");
    const send = (text) => {
        const field = element.shadowRoot.querySelector("textarea");
        field.value = text;
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    };
    const act = Function("element", "send", then);
    const watcher = new MutationObserver(() => {
        if (!element.shadowRoot.querySelector(".said")?.textContent) return;
        watcher.disconnect();
        act(element, send);
    });
    watcher.observe(element.shadowRoot, { childList: true, subtree: true });
    send(message);
}"""


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


def test_the_page_with_a_camera(profile: BrowserContext, site: tuple[Path, str]) -> None:
    """The context has a camera, with a test signal."""
    (block,) = [one for one in blocks_of(CAMERA) if one.text.startswith("<!doctype html>")]
    folder = site[0] / "camera"
    compile_program(models_folder() / "shapes", folder / "model", task="image-classification")
    text = block.text.replace("<!doctype html>", PAGE)  # which has an icon, too
    (folder / "index.html").write_text(text, "utf-8")
    page = profile.new_page()
    profile.grant_permissions(["camera"])
    page.goto(f"{site[1]}camera/")
    told = re.compile(r"^\S+: \d+ %(, \S+: \d+ %)*$")
    expect(page.locator("p")).to_have_text(told, timeout=EXPECT_MS)
    page.close()


def opened(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}{name}/")
    page.wait_for_function(READY, timeout=EXPECT_MS)


def test_a_drawn_digit(page: Page, site: tuple[Path, str]) -> None:
    opened(page, site[1], "digits")
    expect(page).to_have_title("Draw a digit")
    draw_one(page, page.locator("canvas.pad"))
    expect(page.locator(".largest .label-name").first).to_have_text("1", timeout=EXPECT_MS)


def test_a_picture_and_a_sound(page: Page, site: tuple[Path, str]) -> None:
    opened(page, site[1], "photo")
    page.locator("input[type=file]").set_input_files(SAMPLES / "photo.example.png")
    made = page.locator(".results canvas")
    expect(made).to_be_visible(timeout=EXPECT_MS)
    assert made.evaluate("(one) => [one.width, one.height]") == [352, 264]
    opened(page, site[1], "notes")
    page.locator("input[type=file]").set_input_files(SAMPLES / "notes.example.wav")
    heard = page.locator(".largest .label-name")
    expect(heard.first).to_be_visible(timeout=EXPECT_MS)
    named = [text for text in heard.all_text_contents() if text != "no note"]
    assert named == ["C4 261.6 Hz", "E4 329.6 Hz", "G4 392.0 Hz", "C5 523.3 Hz"]


def test_sentences(page: Page, site: tuple[Path, str]) -> None:
    compile_texts(site, "words")
    opened(page, site[1], "words")
    field = page.get_by_label("Texts, one in each line")
    query, *lines = field.input_value().splitlines()
    assert query == "Which dog plays in a garden?"
    page.get_by_role("button", name="Run").click()
    nearest = page.locator(".largest .label-name")
    expect(nearest).to_have_count(len(lines), timeout=EXPECT_MS)
    with ThreadPoolExecutor(1) as threads:  # because Playwright's event loop runs here
        wanted = threads.submit(asyncio.run, _ranked(query, lines)).result()
    assert nearest.all_text_contents() == [one.text for one in wanted]
    scores = page.locator(".largest .number").all_text_contents()
    assert scores == [f"{one.score:.2f}" for one in wanted]


def test_speech(page: Page, site: tuple[Path, str]) -> None:
    out, speech = site[0] / "letters", "automatic-speech-recognition"
    compile_program(letters_folder(), out, task=speech)
    opened(page, site[1], "letters")
    file = wave_file(sound(1.4), RATE)
    page.locator("input[type=file]").set_input_files(
        {"name": "speech.wav", "mimeType": "audio/wav", "buffer": file}
    )
    with wave.open(io.BytesIO(file)) as read:
        samples = np.frombuffer(read.readframes(read.getnframes()), "<i2") / np.float32(32768)
    with ThreadPoolExecutor(1) as threads:  # because Playwright's event loop runs here
        wanted = threads.submit(asyncio.run, _heard(samples)).result()
    assert len(wanted) > 5
    expect(page.locator(".said")).to_have_text(wanted, timeout=EXPECT_MS)


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


def compile_texts(site: tuple[Path, str], sample: str) -> None:
    """Compile a sample with its tokenizer, unless that was done; skip without npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings the libraries for texts")
    beside = SAMPLES.glob(f"{sample}.tokenizer*.json")
    texts = {path.name.removeprefix(f"{sample}."): path.read_bytes() for path in beside}
    more = {**texts, **text_libraries(Display())}
    card = json.loads((SAMPLES / f"{sample}.json").read_text("utf-8"))
    if not (site[0] / sample).exists():
        compile_program(SAMPLES / f"{sample}.pte", site[0] / sample, task=card, more=more)


@pytest.fixture
def chat(page: Page, site: tuple[Path, str]) -> Page:
    """A page with a chat, which keeps the answers."""
    compile_texts(site, "stories")
    opened(page, site[1], "stories")
    page.evaluate(LISTENS)
    return page


def send(page: Page, message: str) -> None:
    page.get_by_label("Message").fill(message)
    page.get_by_label("Message").press("Enter")


def told(*messages: str) -> list[str]:
    """Return the answers to messages of a conversation through Python."""
    with ThreadPoolExecutor(1) as threads:  # because Playwright's event loop runs here
        return threads.submit(asyncio.run, _told(messages)).result()


def said(page: Page, count: int) -> list[Any]:
    """Wait for this many answers and failures, and return all."""
    page.wait_for_function(f"said.length >= {count}", timeout=EXPECT_MS)
    return list(page.evaluate("said"))


def test_a_chat(chat: Page) -> None:
    send(chat, QUESTION)
    assert said(chat, 1) == [{"text": told(QUESTION)[0]}]
    send(chat, NEXT)
    wanted = told(QUESTION, NEXT)
    assert said(chat, 2) == [{"text": text} for text in wanted]
    expect(chat.locator(".said")).to_have_text(wanted[1])


def test_a_message_ends_the_answer_that_is_under_way(chat: Page) -> None:
    then = f"send({json.dumps(QUESTION)}); send({json.dumps(NEXT)})"
    chat.evaluate(AT_FIRST_TEXT, [QUESTION, then])
    (wanted,) = told(NEXT)
    assert said(chat, 1) == [{"text": wanted}]
    expect(chat.locator(".said")).to_have_text(wanted)


def test_nothing_of_a_closed_program_is_shown(chat: Page) -> None:
    chat.evaluate(AT_FIRST_TEXT, [QUESTION, "element.setAttribute('src', '../digits/')"])
    expect(chat.locator("canvas.pad")).to_be_visible(timeout=EXPECT_MS)
    draw_one(chat, chat.locator("canvas.pad"))
    expect(chat.locator(".largest .label-name").first).to_have_text("1", timeout=EXPECT_MS)
    expect(chat.locator(".error")).to_have_count(0)
    assert [one for one in said(chat, 0) if isinstance(one, str)] == []


def test_an_answer_before_the_program_is_open_is_an_error(page: Page, site: Any) -> None:
    page.goto(f"{site[1]}digits/")
    found = page.evaluate(
        """async () => {
            await customElements.whenDefined("pte-model");
            const element = document.createElement("pte-model");
            element.setAttribute("src", "./");
            document.body.append(element);
            return element.answer(new ImageData(28, 28)).catch(({ message }) => message);
        }"""
    )
    assert found.startswith("The program is not open yet.")


async def _ranked(query: str, lines: list[str]) -> list[webpte.text.Ranked]:
    async with await webpte.load(SAMPLES / "words.pte", device="numpy") as program:
        tokenizer = await webpte.text.load_tokenizer(SAMPLES / "words.tokenizer.json")
        return await webpte.text.SentenceEncoder(program, tokenizer).rank(query, lines)


async def _heard(samples: np.ndarray) -> str:
    async with await webpte.tasks.open(letters_folder(), device="numpy") as task:
        found = await task(samples)
    return str(found["text"])


async def _told(messages: tuple[str, ...]) -> list[str]:
    async with await webpte.llm.load(SAMPLES / "stories.pte", device="numpy") as model:
        tokenizer = await webpte.text.load_tokenizer(
            SAMPLES / "stories.tokenizer.json", config=SAMPLES / "stories.tokenizer_config.json"
        )
        chat = webpte.llm.Chat(model, tokenizer)
        return ["".join([piece async for piece in chat.send(one)]) for one in messages]
