"""The view Speech in Chromium: a file and the microphone become text, a text becomes sound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

import webpte
from support.harness.limits import EXPECT_MS
from support.harness.sounds import voices_folder
from support.llm.small_seq2seq import RATE, sound, whisper_folder
from support.page.page_visit import leave, open_address, payload, status, visit
from webpte.tasks.sound.speech.wave_file import wave_file
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

SAMPLES = np.round(sound(0.7) * 32767) / 32767


@pytest.fixture(scope="module")
def page(profile: BrowserContext, site: Site) -> Iterator[Page]:
    mounts = [Mount("/whisper/", whisper_folder()), Mount("/voices/", voices_folder())]
    with site.mounted(*mounts), visit(profile, site, but="404") as page:
        page.context.grant_permissions(["microphone"])
        yield page
        page.context.clear_permissions()  # other tests ask for their permissions


def opened(page: Page, address: str) -> Any:
    leave(page)
    open_address(page, address)
    expect(status(page)).to_contain_text("loaded in")
    page.get_by_role("tab", name="Speech").click()
    return page.locator("#view-speech")


def test_sounds_become_the_text_that_the_task_gives(page: Page) -> None:
    async def transcribed() -> list[str]:
        name = "automatic-speech-recognition"
        async with await webpte.tasks.open(name, whisper_folder(), device="numpy") as task:
            given = np.frombuffer(wave_file(SAMPLES, RATE)[44:], "<i2") / np.float32(32768)
            found = await task(given, language="en", return_timestamps=True)
            return [chunk["text"] for chunk in found["chunks"]]

    panel = opened(page, "/whisper/model.pte")
    panel.get_by_label("language").select_option("en")
    file = payload("said.wav", wave_file(SAMPLES, RATE))
    panel.get_by_label("Load a sound").set_input_files(file)
    expect(status(page)).to_contain_text("Transcribed 0.7 s of said.wav")
    with ThreadPoolExecutor(1) as thread:  # the main thread has Playwright's event loop
        wanted = thread.submit(asyncio.run, transcribed()).result()
    expect(panel.locator("li span:last-child")).to_have_text(wanted)
    # The microphone beeps about once a second.
    panel.get_by_role("button", name="Clear").click()
    panel.get_by_role("button", name="Live mic").click()
    expect(panel.locator("li span:last-child:not(.speech-partial)").first).to_be_visible()
    panel.get_by_role("button", name="Stop").click()
    expect(status(page)).to_contain_text("Listened: ")
    expect(panel.locator("canvas")).to_have_count(0)
    expect(page.locator("#error")).to_have_text("")


@pytest.mark.thorough
def test_a_text_is_read_aloud(page: Page) -> None:
    # How long this voice speaks follows from the text alone; the other one draws it.
    async def seconds() -> float:
        folder = voices_folder() / "steady"
        async with await webpte.tasks.open("text-to-speech", folder, device="numpy") as task:
            said = await task("Hello.")
            return len(said["audio"]) / said["sampling_rate"]

    panel = opened(page, "/voices/steady/model.pte")
    panel.get_by_label("text").fill("Hello.")
    panel.get_by_role("button", name="Speak").click()
    expect(status(page)).to_contain_text("Spoke: ")
    audio = panel.locator("audio")
    expect(audio).not_to_have_js_property("readyState", 0, timeout=EXPECT_MS)
    with ThreadPoolExecutor(1) as thread:
        wanted = thread.submit(asyncio.run, seconds()).result()
    assert audio.evaluate("(one) => one.duration") == pytest.approx(wanted)
    expect(panel.get_by_role("link", name="Save as WAV")).to_have_attribute(
        "download", "speech.wav"
    )
    expect(page.locator("#error")).to_have_text("")
