"""The chat in Chromium: typed, streamed, stopped, continued, edited, and inspected."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import webpte
from page.shared.outputs.pictures import png_rgb
from support.harness.image_text_cases import models_folder
from support.harness.task_cases import make_picture
from support.harness.texts import BYTES, tokenizer_path
from support.page.chats import Q4, open_chat
from support.page.lost_gpu import KEEP_DEVICES, LOSE_DEVICE
from support.page.page_visit import (
    drop,
    leave,
    open_address,
    payload,
    status,
    visit,
    wait_until_ready,
)
from webpte.tasks.vision.image_text import ImageTextToText
from webpte_host.serving.server import Site

CHANCE = {"temperature": 0.9, "top_p": 0.95, "seed": 5}
QUESTION = "Hello\nthere"
NUMBERS = count(1)  # of programs


def said_in_cpython() -> list[str]:
    """Return an answer of six tokens, its continuation, and an answer to another question."""

    async def script() -> list[str]:
        chat = await open_chat()
        first = await chat.send(QUESTION, 6, **CHANCE)  # type: ignore[arg-type]
        await chat.continue_()
        both = chat.messages[-1]["content"]
        chat.edit(0, "Bye")
        return [first, both, await chat.regenerate()]

    with ThreadPoolExecutor(1) as pool:  # Playwright has an event loop running in this thread
        return pool.submit(lambda: asyncio.run(script())).result()


def said_of_picture(pixels: Any) -> str:
    """Return the library's answer about a picture, of the same length as the page's."""

    async def script() -> str:
        where = models_folder() / "patches"
        async with await webpte.tasks.open("image-text-to-text", where, device="numpy") as task:
            assert isinstance(task, ImageTextToText)
            return await task.chat().send("What is it?", 6, pictures=[pixels], temperature=0)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(script())).result()


@pytest.fixture(scope="module")
def started(profile: BrowserContext, site: Site) -> Iterator[Page]:
    with visit(profile, site, but="404") as page:
        yield page


@pytest.fixture
def without_program(started: Page) -> Iterator[Page]:
    """A page without a program."""
    usual = started.viewport_size
    assert usual is not None
    yield started
    started.set_viewport_size(usual)
    leave(started)


@pytest.fixture
def page(without_program: Page) -> Page:
    """The page with a language model, its tokenizer, and a conversation without messages.

    Conversations are kept by the program's name, so each test's program has another name.
    """
    page, tokenizer = without_program, tokenizer_path(BYTES)
    page.locator("[data-act=open-file]").set_input_files(
        [
            payload(f"chat{next(NUMBERS)}.pte", Q4.read_bytes()),
            *(
                payload(path.name, path.read_bytes())
                for path in (tokenizer, tokenizer.with_name("tokenizer_config.json"))
            ),
        ]
    )
    page.get_by_role("tab", name="Chat").click()
    expect(page.get_by_text("with a chat template")).to_be_visible()
    expect(log_of(page)).to_contain_text("No messages yet")
    settings = page.locator("#chat-settings")
    if not settings.evaluate("(one) => one.open"):
        settings.get_by_text("Settings", exact=True).click()
    for name, value in {**CHANCE, "max_tokens": 6}.items():
        set_number(page, name, value)
    return page


@pytest.fixture
def answered(page: Page) -> None:
    """A conversation of a question and its answer of six tokens."""
    ask(page, "Bye")
    wait_for_answer(page)


def log_of(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def answers(page: Page) -> Locator:
    return log_of(page).locator(".chat-assistant .chat-said")


def field(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


def set_number(page: Page, name: str, value: Any) -> None:
    page.locator(f"[data-act='chat:set'][data-name={name}]").fill(str(value))


def ask(page: Page, question: str) -> None:
    field(page).fill(question)
    field(page).press("Enter")


def wait_for_answer(page: Page) -> None:
    expect(status(page)).to_contain_text("Answered")
    expect(log_of(page)).to_have_attribute("aria-busy", "false")


@pytest.mark.thorough
def test_a_smaller_cache_keeps_the_conversation(page: Page, answered: None) -> None:
    said = answers(page).all_inner_texts()
    choice = page.get_by_label("KV cache")
    expect(choice.locator("option")).to_have_text(
        ["As in the file: 64.0 KiB", "16 bits: 32.0 KiB", "8 bits: 20.0 KiB"]
    )
    choice.select_option("int8")
    expect(status(page)).to_contain_text("loaded in")
    expect(choice).to_have_value("int8")
    assert answers(page).all_inner_texts() == said
    ask(page, "And then?")
    wait_for_answer(page)
    expect(answers(page)).to_have_count(2)


@pytest.mark.thorough
def test_without_a_tokenizer_tokens_are_typed_until_one_is_loaded(without_program: Page) -> None:
    page = without_program
    open_address(page, "/data/llm/llama_tiny_q4.pte")
    page.get_by_role("tab", name="Chat").click()
    expect(page.get_by_text("Tokenizer: none")).to_be_visible()  # nothing lies beside the program
    ask(page, "1 2 three")
    expect(page.locator("#error")).to_contain_text("'three' is not a token")
    expect(field(page)).to_have_value("1 2 three")  # to be mended
    page.get_by_placeholder("https://…/tokenizer.json").fill("/data/text/bytes/tokenizer.json")
    page.get_by_role("button", name="Load", exact=True).click()
    expect(page.get_by_text("with a chat template")).to_be_visible()


@pytest.mark.thorough
def test_a_dropped_picture_is_asked_about_and_there_after_a_reload(without_program: Page) -> None:
    page, pixels = without_program, make_picture(23, 61)
    open_address(page, "/image_text/patches/model.pte")
    page.get_by_role("tab", name="Chat").click()
    expect(page.get_by_text("Add picture")).to_be_visible()
    for name, value in {"max_tokens": 6, "temperature": 0}.items():
        set_number(page, name, value)
    drop(page, "#chat-log", ("dogs.png", png_rgb(pixels)))
    expect(page.get_by_role("button", name="Remove dogs.png")).to_be_visible()
    ask(page, "What is it?")
    wait_for_answer(page)
    wanted = said_of_picture(pixels)
    assert answers(page).all_text_contents() == [wanted]
    expect(page.get_by_role("button", name="Remove dogs.png")).to_have_count(0)

    page.reload()
    wait_until_ready(page)
    shown = log_of(page).get_by_alt_text("Picture dogs.png")
    expect(shown).to_have_js_property("naturalWidth", 61)
    expect(page.get_by_role("button", name="Regenerate")).to_be_enabled()
    assert answers(page).all_text_contents() == [wanted]
    shown.click()
    large = page.get_by_role("dialog", name="Picture")
    expect(large.get_by_alt_text("Picture dogs.png")).to_be_visible()
    large.get_by_role("button", name="Close").click()
    expect(large).to_be_hidden()


def test_a_conversation(page: Page) -> None:
    first, both, other = said_in_cpython()
    field(page).fill("Hello")
    field(page).press("Shift+Enter")
    field(page).press_sequentially("there")
    field(page).press("Enter")
    wait_for_answer(page)
    expect(log_of(page).locator(".chat-user .chat-said")).to_have_text(QUESTION)
    assert answers(page).all_text_contents() == [first]
    expect(field(page)).to_have_value("")
    expect(field(page)).to_be_focused()

    page.get_by_role("button", name="Continue").click()
    expect(log_of(page)).to_contain_text("12 tokens")
    assert answers(page).all_text_contents() == [both]
    page.get_by_role("button", name="Regenerate").click()
    expect(log_of(page)).to_contain_text("6 tokens")
    wait_for_answer(page)
    expect(field(page)).to_be_focused()
    assert answers(page).all_text_contents() == [first]

    page.get_by_role("button", name="Edit message 1").click()
    edited = page.get_by_label("Message 1", exact=True)
    expect(edited).to_be_focused()
    expect(edited).to_have_value(QUESTION)
    edited.fill("Bye")
    edited.press("Control+Enter")
    expect(answers(page)).to_have_text(other)


@pytest.mark.thorough
@pytest.mark.usefixtures("answered")
def test_tokens_tell_what_else_might_have_come(page: Page) -> None:
    page.get_by_role("button", name="Tokens").click()
    page.get_by_role("button", name="Regenerate").click()
    tokens = log_of(page).locator(".token")
    expect(tokens).to_have_count(6)
    wait_for_answer(page)
    card = page.locator("#chat-token")
    tokens.nth(0).hover()
    expect(card).to_be_visible()
    expect(card.locator("tr")).not_to_have_count(0)
    expect(card.locator(".chosen")).to_contain_text("%")
    tokens.nth(0).focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.get_by_role("button", name="Tokens").click()
    expect(tokens).to_have_count(0)


@pytest.mark.thorough
@pytest.mark.usefixtures("answered")
def test_the_end_stays_in_sight_when_the_window_changes(page: Page) -> None:
    left = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight"
    page.set_viewport_size({"width": 360, "height": 420})  # as when a phone is turned
    log = log_of(page)
    assert log.evaluate("(log) => log.scrollHeight > log.clientHeight"), "else nothing is tested"
    page.wait_for_function(f"({left})(document.getElementById('chat-log')) < 2")


@pytest.mark.thorough
def test_the_composer_and_settings_stay_in_place(page: Page) -> None:
    set_number(page, "max_tokens", 40)

    def places() -> list[Any]:
        selectors = ("#chat-text", "#chat-settings", "#chat-log")
        return [page.locator(one).bounding_box() for one in selectors]

    before = places()
    ask(page, "Hello")
    expect(answers(page)).not_to_have_text("")
    assert places() == before  # while the answer is streamed
    wait_for_answer(page)
    assert places() == before
    composer, settings, _ = before
    assert settings["y"] >= composer["y"] + composer["height"]


@pytest.mark.thorough
def test_another_model_is_chosen_in_the_chat(page: Page) -> None:
    picker = page.locator("#view-chat").get_by_label("model")
    expect(picker.locator("option").first).to_contain_text(".pte (")
    expect(picker.locator("option", has_text="Little stories")).to_contain_text("MiB")
    page.route("**/stories.pte", lambda route: route.abort())
    picker.select_option("stories")
    expect(page.locator("#error")).to_contain_text("stories.pte")
    expect(picker).to_have_value("")  # the program before is still open
    page.unroute("**/stories.pte")
    page.get_by_role("button", name="Dismiss").click()
    picker.select_option("stories")
    expect(status(page)).to_contain_text("stories.pte loaded")
    expect(page.get_by_role("tab", name="Chat")).to_have_attribute("aria-selected", "true")


@pytest.mark.thorough
@pytest.mark.usefixtures("answered")
def test_on_a_wide_screen_an_answer_is_not_far_from_its_question(page: Page) -> None:
    page.set_viewport_size({"width": 2560, "height": 900})
    asked = log_of(page).locator(".chat-user").last.bounding_box()
    said = log_of(page).locator(".chat-assistant").last.bounding_box()
    assert asked is not None
    assert said is not None
    assert asked["x"] + asked["width"] - said["x"] < 1100


# As soon as the first text is there, to another tab and back, and then stop: an answer of the tiny
# model may be at its end before a test has seen that it began.
STOP_AT_ONCE = """() => new MutationObserver((_, self) => {
    if (!document.querySelector(".chat-said.streaming")?.textContent) return;
    self.disconnect();
    window.busy = document.getElementById("chat-log").ariaBusy;
    const clicked = ["#tab-run", "#tab-chat", "[data-act='chat:stop']"];
    clicked.forEach((one) => document.querySelector(one).click());
}).observe(document.body, { subtree: true, childList: true, characterData: true })"""


def test_an_answer_is_stopped_after_tabs_were_switched(page: Page) -> None:
    set_number(page, "max_tokens", 90)
    page.evaluate(STOP_AT_ONCE)
    field(page).fill("Go on")
    field(page).press("Control+Enter")
    answer = log_of(page).locator(".chat-assistant").last
    expect(answer).to_contain_text(re.compile(r"stopped(?! at max)"))
    assert page.evaluate("busy") == "true"
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    page.locator("[data-act=close]").click()
    expect(page.get_by_role("tab", name="Chat")).to_have_count(0)


@pytest.mark.thorough
def test_on_a_phone_a_model_that_needs_too_much_gets_a_shorter_context(
    profile: BrowserContext, site: Site
) -> None:
    with visit(profile, site, "?model=sigmoid&view=python", but="404") as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()  # only then the page counts as narrow
        wait_until_ready(page)
        # The forecast is real; the page's Python makes the phone small enough for this model.
        code = "from page.sections.open import context_question as q; q.PHONE_BUDGET = 500_000; 7"
        page.get_by_label("Code").fill(code)
        page.get_by_label("Code").press("Control+Enter")
        expect(page.locator("#view-python pre", has_text=re.compile("^7$"))).to_be_visible()
        open_address(page, "/data/llm/llama_tiny_q4.pte")
        question = page.locator(".context-question")
        for told in ("weights", "caches", "activations", "a page may use about 0.5 MB"):
            expect(question).to_contain_text(told)
        question.get_by_label("context").select_option("64")
        question.get_by_role("button", name="Open").click()
        expect(status(page)).to_contain_text("llama_tiny_q4.pte loaded")
        page.get_by_label("Code").fill('(await program.run("get_max_context_len"))[0]')
        page.get_by_role("tab", name="Python").click()
        page.get_by_label("Code").press("Control+Enter")
        expect(page.locator("#view-python")).to_contain_text("64")


@pytest.mark.thorough
def test_an_answer_goes_on_after_a_lost_gpu(page: Page) -> None:
    (worker,) = page.workers
    worker.evaluate(KEEP_DEVICES)
    set_number(page, "max_tokens", 24)
    worker.evaluate(LOSE_DEVICE, 3)
    ask(page, "Hello")
    wait_for_answer(page)
    assert worker.evaluate("() => devices.length") == 2
    expect(page.locator("#error")).to_have_text("")
    expect(log_of(page)).to_contain_text("24 tokens")
