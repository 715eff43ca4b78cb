"""Inputs from cameras, sounds and pictures, and renderers of outputs, in Chromium."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support.harness import limits
from support.page.page_visit import (
    click_folded,
    drop,
    leave,
    open_sample,
    payload,
    run,
    show_samples,
    status,
)
from support.write.pte_writer import GraphWriter, write_pte

RATE = 16_000


@pytest.fixture(scope="module")
def permitted(started: Page) -> Iterator[Page]:
    yield started
    assert max(started.evaluate("longTasks"), default=0) < limits.LONG_TASK_MS
    started.context.clear_permissions()


@pytest.fixture
def page(permitted: Page) -> Iterator[Page]:
    yield permitted
    leave(permitted)


def open_program(page: Page, *shape: int) -> None:
    """Build a program that returns its input, where that is positive."""
    g = GraphWriter()
    x, y = g.tensor(shape), g.tensor(shape)
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    page.locator("[data-act=open-file]").set_input_files(payload("same.pte", write_pte(g)))
    expect(status(page)).to_contain_text("same.pte loaded")


def saved_input(page: Page) -> np.ndarray:
    with page.expect_download() as download:
        click_folded(page, "save-input")
    array: np.ndarray = np.load(download.value.path())
    return array


def test_a_camera(page: Page) -> None:
    open_program(page, 1, 3, 48, 64)
    page.context.grant_permissions([])
    page.get_by_role("button", name="Camera").click()
    expect(page.locator("#input-0-device")).to_contain_text("did not allow the camera")
    page.context.grant_permissions(["camera"])
    page.get_by_role("button", name="Camera").click()
    page.get_by_role("button", name="Take picture").click()
    expect(page.locator("#input-0")).to_contain_text("from the camera")
    expect(page.locator("#input-0-device")).to_be_empty()
    assert np.ptp(saved_input(page)) > 0.3  # Chromium's test picture is colourful
    run(page)
    page.get_by_role("button", name="Mask", exact=True).click()
    image = page.locator(".pointed img")
    expect(image).to_be_visible()
    assert image.evaluate("one => [one.naturalWidth, one.naturalHeight]") == [64, 48]


def test_a_microphone(page: Page) -> None:
    open_program(page, 1, 40 * RATE)  # a recording ends by itself where there is room for no more
    page.context.grant_permissions(["microphone"])
    page.get_by_role("button", name="Record").click()
    expect(page.locator("#input-0-device")).to_contain_text("of at most 40.0 s")
    page.wait_for_function("document.querySelector('meter')?.value > 0.01")  # Chromium beeps
    page.get_by_role("button", name="Stop and use").click()
    expect(page.locator("#input-0")).to_contain_text("from recording.webm")
    assert np.abs(saved_input(page)).max() > 0.01
    run(page)


@pytest.mark.thorough
def test_the_microphone_as_a_stream(page: Page) -> None:
    open_program(page, 1, RATE // 4)
    page.context.grant_permissions(["microphone"])
    page.get_by_role("button", name="Live mic").click()
    device = page.locator("#input-0-device")
    expect(device).to_contain_text("frames/s")
    expect(status(page)).to_contain_text("Listening: output0")
    expect(device).to_contain_text("loudness, 0 to 1")
    # Chromium beeps once per second: the highest sample goes up, and the curve is drawn.
    page.wait_for_function("""() => {
        const told = document.querySelector("#input-0-device [role=status]").textContent;
        return Number(told.split(" ")[1]) > 0.01;
    }""")
    drawn = """(canvas) => canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.some((one) => one > 0)"""
    assert device.locator("canvas").evaluate(drawn)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    device.get_by_role("button", name="Stop").click()
    expect(status(page)).to_contain_text("Listened: ")
    # The curve stays, until it is closed.
    expect(device).to_contain_text("Stopped. These are the last 10 seconds.")
    assert device.locator("canvas").evaluate(drawn)
    expect(device.get_by_role("button", name="Close")).to_be_focused()
    device.get_by_role("button", name="Close").click()
    expect(device).to_be_empty()
    # The bar's own button ends it, too, and releases the microphone.
    page.get_by_role("button", name="Live mic").click()
    expect(device).to_contain_text("frames/s")
    page.locator("#run").get_by_role("button", name="Cancel").click()
    expect(device).to_contain_text("Stopped.")
    expect(status(page)).to_contain_text("Listened: ")


def sound(rate: int, hertz: int) -> bytes:
    """Return half a second of sound: a tone on the left, silence on the right."""
    left = 20_000 * np.sin(2 * np.pi * hertz * np.arange(rate // 2) / rate)
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.stack([left, np.zeros_like(left)], axis=1).astype("<i2").tobytes())
    return stream.getvalue()


def test_a_sound_is_mixed_and_resampled(page: Page) -> None:
    open_program(page, 1, RATE)
    drop(page, "footer", ("tone.wav", sound(44_100, 440)))
    expect(page.locator("#input-0")).to_contain_text("0.50 s long")
    expect(page.get_by_role("img", name="The sound that goes into")).to_be_visible()
    (samples,) = saved_input(page)
    assert not samples[RATE // 2 + 100 :].any()  # silence after it
    tone = samples[: RATE // 2]
    assert 0.25 < tone.max() < 0.35  # the mean of both channels
    assert np.abs(np.fft.rfft(tone)).argmax() * 2 == 440  # in steps of 2 Hz
    drop(page, "#input-0", ("tone.mp3", b"no sound at all"))
    expect(page.locator("#input-0-preview")).to_contain_text("the browser cannot read this sound")


@pytest.mark.thorough
def test_a_slider_sets_a_size(page: Page) -> None:
    show_samples(page)
    page.locator("#gallery-list [data-name=photo]").click()
    expect(status(page)).to_contain_text("Done")  # the card's example is answered
    page.get_by_text("Options").click()
    slider = page.get_by_role("slider", name="dim 3")
    slider.fill("32")
    expect(page.get_by_label("dim 3 (1 to 1,024)")).to_have_value("32")
    expect(page.locator("#input-0-preview")).to_contain_text("× 32")


@pytest.mark.thorough
def test_values_where_one_points_and_a_look_that_is_remembered(page: Page) -> None:
    open_sample(page)
    page.get_by_label("input values").select_option("ramp")
    run(page)
    page.get_by_role("button", name="Heat map").click()
    pointed, told = page.locator("[data-point]"), page.locator("#output-0-point")
    box = pointed.bounding_box()
    assert box is not None
    pointed.hover(position={"x": box["width"] * 40.5 / 41, "y": box["height"] * 36.5 / 37})
    expect(told).to_have_text("[36, 40]: 0.73106")  # the sigmoid of 1
    pointed.focus()
    page.keyboard.press("ArrowUp")
    expect(told).to_contain_text("[35, 40]: ")
    page.get_by_role("button", name="Table").click()
    page.get_by_role("button", name="rows after").click()
    expect(page.locator("#output-0-rendered tbody th").first).to_have_text("16")
    # The next visit finds it there; tests without a browser check that visit.
    page.wait_for_function("""Object.values(localStorage).join().includes('"look": "table"')""")
