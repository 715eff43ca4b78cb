"""Repositories of the Hub become what their models do, by their names alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

import webpte
from page.shared.outputs.pictures import png_rgb
from support.harness import extent
from support.harness.limits import EXPECT_MS
from support.harness.sounds import voices_folder
from support.harness.task_cases import make_picture, models_folder
from support.hub import mask_layouts, published_pictures
from support.hub.hub_site import HubSite, files_of, repositories
from support.llm import optimum_programs, seeing_layouts, whisper_layouts
from support.llm.small_seq2seq import RATE
from support.llm.small_seq2seq import sound as small_sound
from support.page.page_visit import SAMPLES, leave, open_address, payload, status, visit
from webpte.tasks.sound.speech.wave_file import wave_file
from webpte_host.serving.server import Site

PHOTO = png_rgb(make_picture(48, 64))
LAYOUTS = {
    **mask_layouts.repositories(),
    **published_pictures.repositories(),
    **whisper_layouts.repositories(),
    "someone/voice": files_of(voices_folder() / "steady"),
    **repositories(SAMPLES, models_folder()),
    **seeing_layouts.repositories(),
    **optimum_programs.repositories(),
}
STORIES = "executorch-community/Stories-ExecuTorch-WebGPU"
WHISPER = "executorch-community/Whisper-Tiny-ExecuTorch-WebGPU"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubSite]:
    patch = pytest.MonkeyPatch()
    with HubSite() as hub:
        for name, files in LAYOUTS.items():
            hub.add(name, files)
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("WEBPTE_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
        yield hub
        patch.undo()


@pytest.fixture(scope="module")
def page(profile: BrowserContext, site: Site, hub: HubSite) -> Iterator[Page]:
    script = f"""addEventListener("DOMContentLoaded", () => {{
        document.querySelector("meta[name=hf-endpoint]").content = "{hub.url}";
    }});"""
    with visit(profile, site, scripts=(script,)) as page:
        yield page


def opened(page: Page, name: str, view: str) -> Any:
    """Type a repository's name, and return the panel that is in front then."""
    leave(page)
    open_address(page, f"hf:{name}")
    expect(status(page)).to_contain_text("loaded in")
    expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
    return page.locator(f"#view-{view.lower()}")


def asked(name: str, *given: Any, **options: Any) -> Any:
    """Return the result that the task gives in NumPy."""

    async def ask() -> Any:
        async with await webpte.tasks.open(f"hf:{name}", device="numpy") as task:
            return await task(*given, **options)

    with ThreadPoolExecutor(1) as thread:  # the test's thread has Playwright's event loop
        return thread.submit(asyncio.run, ask()).result()


def test_a_lone_model_for_xnnpack_becomes_a_chat(page: Page) -> None:
    asking, name = "w17 w33 w44", optimum_programs.LONE
    panel = opened(page, name, "Chat")
    settings = page.locator("#chat-settings")
    if not settings.evaluate("(one) => one.open"):
        settings.locator("summary").first.click()
    for setting, value in {"max_tokens": 6, "temperature": 0}.items():
        settings.locator(f"[data-name={setting}]").fill(str(value))
    panel.locator("#chat-text").fill(asking)
    panel.locator("#chat-text").press("Enter")
    talk = [{"role": "user", "content": asking}]
    (found,) = asked(name, talk, max_new_tokens=6)
    said = panel.locator(".chat-assistant .chat-said").last
    expect(said).to_have_text(found["generated_text"][-1]["content"])
    expect(page.locator("#error")).to_have_text("")


@pytest.mark.thorough  # as in test_repositories.py, of another layout
def test_a_name_becomes_a_chat(page: Page) -> None:
    panel = opened(page, STORIES, "Chat")
    panel.locator("#chat-text").fill("What does a cow say?")
    panel.locator("#chat-text").press("Enter")
    expect(panel.locator(".chat-assistant .chat-said").last).to_contain_text("moo")


def test_a_question_about_a_picture_is_answered(page: Page) -> None:
    panel = opened(page, seeing_layouts.PASSED, "Task")
    panel.locator("#task-input input[type=file]").set_input_files(payload("photo.png", PHOTO))
    question = panel.get_by_label("question").input_value()
    picture = make_picture(48, 64)
    (found,) = asked(seeing_layouts.PASSED, picture, text=question, return_full_text=False)
    expect(panel).to_contain_text(found["generated_text"].strip())
    page.get_by_role("tab", name="Chat").click()
    expect(page.get_by_text("Add picture")).to_be_visible()
    expect(page.locator("#error")).to_have_text("")


@pytest.mark.parametrize("name", extent.some([WHISPER], "someone/whisper-parts"))
def test_a_sound_becomes_a_transcript(page: Page, name: str) -> None:
    given = whisper_layouts.sound() if name == WHISPER else small_sound(0.7)
    samples = np.round(given * 32767) / 32767
    panel = opened(page, name, "Speech")
    panel.get_by_label("language").select_option("en")
    file = payload("said.wav", wave_file(samples, RATE))
    panel.get_by_label("Load a sound").set_input_files(file)
    expect(status(page)).to_contain_text("of said.wav")
    heard = np.frombuffer(wave_file(samples, RATE)[44:], "<i2") / np.float32(32768)
    found = asked(name, heard, language="en", return_timestamps=True)
    wanted = [chunk["text"].strip() for chunk in found["chunks"]]
    assert any(wanted)
    expect(panel.locator("li span:last-child")).to_have_text(wanted)
    expect(page.locator("#error")).to_have_text("")


@pytest.mark.parametrize("name", extent.some([mask_layouts.TOKENS], mask_layouts.PAIR))
def test_a_click_becomes_a_mask(page: Page, name: str) -> None:
    panel = opened(page, name, "Task")
    panel.locator("#task-input input[type=file]").set_input_files(payload("photo.png", PHOTO))
    expect(panel).to_contain_text("Click a thing")
    panel.locator("#task-input [data-points] img").click(position={"x": 20, "y": 12})
    expect(panel.locator("#task-stage circle")).to_have_count(1)
    expect(panel.locator("button[aria-pressed=true]")).to_have_text("Mask 1")
    expect(page.locator("#error")).to_have_text("")


def test_a_picture_becomes_boxes(page: Page) -> None:
    panel = opened(page, published_pictures.BOXES, "Task")
    panel.locator("#task-input input[type=file]").set_input_files(payload("photo.png", PHOTO))
    expect(panel.locator("#task-stage g[data-item]")).to_have_count(2)
    expect(panel).to_contain_text("car")
    expect(page.locator("#error")).to_have_text("")


def test_a_text_becomes_a_voice(page: Page) -> None:
    panel = opened(page, "someone/voice", "Speech")
    panel.get_by_label("text").fill("Hello.")
    panel.get_by_role("button", name="Speak").click()
    expect(status(page)).to_contain_text("Spoke: ")
    audio = panel.locator("audio")
    expect(audio).not_to_have_js_property("readyState", 0, timeout=EXPECT_MS)
    said = asked("someone/voice", "Hello.")
    seconds = len(said["audio"]) / said["sampling_rate"]
    assert audio.evaluate("(one) => one.duration") == pytest.approx(seconds)
    expect(page.locator("#error")).to_have_text("")
