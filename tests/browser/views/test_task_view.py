"""The task view in Chromium: files, the camera, typed texts and clicks become results on WebGPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from page.shared.outputs.pictures import png_rgb
from support.harness.task_cases import make_picture, models_folder
from support.music.music_cases import EXPECTED, RATE, SOUNDS
from support.page.page_visit import drop, open_address, payload
from support.page.shared_page import SharedPage
from support.page.task_page import name_task
from webpte.tasks.sound.speech.wave_file import wave_file

PHOTO = png_rgb(make_picture(48, 64))


@pytest.fixture(scope="module")
def page(shared_page: SharedPage, request: pytest.FixtureRequest) -> Iterator[Page]:
    # Errors 404 are of files that a model may have or not.
    with shared_page.lent(request.session, but="404") as page:
        yield page
        page.context.clear_permissions()  # other tests ask for their permissions


def open_task(page: Page, model: str, task: str) -> Locator:
    """Open a model by its manifest; return the card of its result."""
    open_address(page, f"/tasks/{model}/{name_task(model, task)}")
    expect(page.locator("#view-task h2").first).to_have_text(title(task))
    expect(page.locator("#tab-task")).to_have_attribute("aria-selected", "true")
    return page.locator("#task-result")


def title(task: str) -> str:
    words = task.replace("-", " ").replace("midi", "MIDI")
    return words[0].upper() + words[1:]


def give_photo(page: Page) -> None:
    page.locator("#task-input input[type=file]").set_input_files(payload("photo.png", PHOTO))


def test_things_are_framed_marked_and_saved(page: Page) -> None:
    result = open_task(page, "things", "object-detection")
    give_photo(page)
    frames = result.locator("#task-stage g[data-item]")
    expect(frames.first).to_be_attached()
    sure = frames.count()
    page.locator("#task-input input[type=range]").fill("0.3")
    expect(frames).not_to_have_count(sure)  # there are more now
    expect(result.locator("h3")).to_contain_text("found")
    expect(frames).to_have_count(result.locator("li[data-item]").count())
    result.locator("li[data-item='0']").hover()
    expect(result.locator("#task-stage g[data-item='0']")).to_have_class("marked")
    page.evaluate(UNMARK)
    expect(result.locator("#task-stage g[data-item='0']")).to_have_class("marked")
    with page.expect_download() as download:
        result.get_by_role("button", name="Save JSON").click()
    assert download.value.suggested_filename == "photo.object-detection.json"
    found = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert len(found) == frames.count()
    with page.expect_download() as download:
        result.get_by_role("button", name="Save PNG").click()
    png = download.value.path().read_bytes()
    assert png[16:24] == PHOTO[16:24]  # as wide and high as the photo
    assert png != PHOTO
    expect(page.locator("#error")).to_be_empty()


@pytest.mark.thorough
def test_a_dropped_folder_opens_with_its_task(page: Page) -> None:
    folder = models_folder() / "depths"
    names = ["model.pte", name_task("depths", "depth-estimation")]
    names += ["config.json", "preprocessor_config.json"]
    drop(page, "body", *((name, (folder / name).read_bytes()) for name in names))
    expect(page.locator("#view-task h2").first).to_have_text("Depth estimation")
    drop(page, "#task-input", ("photo.png", PHOTO))
    tint = page.locator("#task-stage image")
    expect(tint).to_have_attribute("opacity", "1.00")
    page.locator("#task-result input[type=range]").fill("40")
    expect(tint).to_have_attribute("opacity", "0.40")


@pytest.mark.thorough
def test_a_click_in_the_picture_masks_a_thing(page: Page) -> None:
    result = open_task(page, "prompts", "mask-generation")
    give_photo(page)
    expect(result).to_contain_text("Click a thing")
    page.locator("#task-input [data-points] img").click(position={"x": 20, "y": 12})
    expect(result.locator("#task-stage circle")).to_have_count(1)
    expect(result.locator("button[aria-pressed=true]")).to_have_text("Mask 1")


@pytest.mark.thorough
def test_a_typed_text_is_answered_live(page: Page) -> None:
    result = open_task(page, "feelings", "text-classification")
    shares = result.locator(".bars .share")
    expect(shares.first).to_contain_text("%")
    before = shares.all_inner_texts()
    page.locator("#task-input textarea").fill("She said that the fox is quick.")
    expect(shares.first).not_to_have_text(before[0])
    page.locator("#task-input textarea").fill("")
    expect(result).to_contain_text("Write something")


# What a new answer does to the old one, below a pointer that has not moved.
UNMARK = "() => document.querySelectorAll('.marked').forEach((one) => one.removeAttribute('class'))"

# A camera that has no picture yet when the first is asked for.
LATE_CAMERA = """() => {
  const make = globalThis.createImageBitmap;
  globalThis.createImageBitmap = (...given) => {
    if (!(given[0] instanceof HTMLVideoElement)) return make(...given);
    globalThis.createImageBitmap = make;
    return Promise.reject(new DOMException("no picture yet", "InvalidStateError"));
  };
}"""


def test_the_camera_is_answered_picture_by_picture(page: Page) -> None:
    page.context.grant_permissions(["camera"])
    page.evaluate(LATE_CAMERA)
    result = open_task(page, "shapes", "image-classification")
    page.get_by_role("button", name="Camera").click()
    expect(page.locator("#task-input video")).to_be_visible()
    expect(result.locator(".bars li")).not_to_have_count(0)
    expect(page.locator("#task-input figcaption")).to_contain_text("the camera")
    page.get_by_role("button", name="Take picture").click()
    expect(page.locator("#task-input video")).to_have_count(0)


@pytest.mark.thorough
def test_a_recording_is_answered(page: Page) -> None:
    page.context.grant_permissions(["microphone"])
    result = open_task(page, "voices", "voice-activity-detection")
    page.get_by_role("button", name="Record").click()
    expect(page.locator("#task-input meter")).to_be_visible()
    page.get_by_role("button", name="Stop and use").click()
    expect(page.locator("#task-input figcaption")).to_contain_text("recording.webm")
    expect(result).to_contain_text(re.compile("part|Nothing was found"))


@pytest.mark.thorough
def test_notes_are_drawn_marked_and_saved(page: Page) -> None:
    result = open_task(page, "music", "audio-to-midi")
    sound = payload("song.wav", wave_file(SOUNDS["chords"](), RATE))
    page.locator("#task-input input[type=file]").set_input_files(sound)
    bars = result.locator(".task-roll [data-item]")
    expect(result.locator("h3")).to_contain_text("notes, C5 to ")
    result.locator("summary").click()
    expect(result.locator("tr[data-item]")).to_have_count(bars.count())
    bars.first.hover()
    expect(result.locator("tr[data-item='0']")).to_have_class("marked")
    with page.expect_download() as download:
        result.get_by_role("button", name="Save MIDI").click()
    assert download.value.suggested_filename == "song.audio-to-midi.mid"
    assert download.value.path().read_bytes().startswith(b"MThd")
    with page.expect_download() as download:
        result.get_by_role("button", name="Save JSON").click()
    found = json.loads(download.value.path().read_text(encoding="utf-8"))
    wanted = json.loads(EXPECTED.read_text(encoding="utf-8"))[0]
    assert [note["pitch"] for note in found] == [note[2] for note in wanted]
    assert [note["start"] for note in found] == pytest.approx([row[0] for row in wanted], abs=0.02)
    expect(page.locator("#error")).to_be_empty()


@pytest.mark.thorough
def test_a_file_that_is_no_picture_is_told(page: Page) -> None:
    open_task(page, "shapes", "image-classification")
    page.locator("#task-input input[type=file]").set_input_files(payload("no.png", b"no picture"))
    expect(page.locator("#error")).to_contain_text("no.png: the browser cannot read this picture")
