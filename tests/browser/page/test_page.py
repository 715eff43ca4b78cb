"""The page in Chromium: open, inspect, run, read outputs, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.harness import extent, limits
from support.page.lost_gpu import KEEP_DEVICES
from support.page.page_visit import (
    SAMPLES,
    SHAPE,
    START_MS,
    benchmark,
    downloaded,
    drop,
    give_npy,
    leave,
    long_benchmark,
    npy,
    open_page,
    open_sample,
    payload,
    random_input,
    run,
    show_samples,
    sigmoid,
    status,
    wait_until_ready,
)
from support.page.shared_page import SharedPage
from webpte_host.serving.server import Site
from webpte_host.setup import chromium

LONG_TASK_MS = limits.LONG_TASK_MS
# As in a browser that knows no GPU.
NO_ADAPTER = "() => { GPU.prototype.requestAdapter = async () => null; }"


@pytest.fixture(scope="module")
def started(shared_page: SharedPage, request: pytest.FixtureRequest) -> Iterator[Page]:
    with shared_page.lent(request.session, but="404") as page:
        yield page


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    leave(started)
    button = started.locator("[data-act=dismiss]")  # closing a file takes its error away too
    if button.count():
        button.click()
        expect(button).to_have_count(0)


@pytest.mark.thorough
def test_something_to_see_before_python_is_there(browser: Browser, site: Site) -> None:
    page = open_page(browser.new_context(), site)  # which has kept nothing
    expect(page.locator("#boot")).to_contain_text("Starting Python")
    expect(page.locator("#boot-time")).to_contain_text(re.compile(r"\d %"))
    expect(page.get_by_text("Choose files")).to_be_visible()
    # What is clicked now is done as soon as Python is up.
    page.get_by_role("button", name="sigmoid", exact=True).click()
    expect(page.locator("#boot-note")).to_contain_text("as soon as Python is ready")
    expect(page.locator("#file")).to_contain_text("sigmoid.pte", timeout=START_MS)
    page.context.close()


def test_the_adapter_is_named(page: Page) -> None:
    expect(page.locator("#gpu")).to_contain_text("programs run on the CPU")
    sheet = page.get_by_role("dialog", name="GPU")
    expect(sheet).to_be_hidden()
    page.get_by_role("button", name="GPU: Google SwiftShader").click()
    expect(sheet).to_contain_text("timestamp-query")
    expect(sheet).to_contain_text("GiB")
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()


def test_sample_runs_and_is_right(page: Page) -> None:
    open_sample(page)
    expect(page.locator("#file")).to_contain_text("37 × 41")
    expect(page.locator("#file")).to_contain_text("sigmoid")
    page.get_by_label("input values").select_option("ramp")
    run(page)
    ramp = np.linspace(-1, 1, SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
    np.testing.assert_allclose(downloaded(page), sigmoid(ramp), atol=1e-5)
    expect(page.locator("#outputs img")).to_be_visible()
    benchmark(page, 3)
    expect(page.locator("#timing")).to_contain_text("median of 3")
    expect(page.locator("#stats")).to_contain_text("WebGPU")
    assert page.locator("#outputs img").evaluate("image => image.naturalWidth") == SHAPE[1]


@pytest.mark.thorough
def test_an_image_in_and_an_image_out(page: Page) -> None:
    open_sample(page, "superres.pte")
    run(page)
    expect(page.locator("#outputs figcaption").first).to_contain_text("40 × 48 pixels")
    assert downloaded(page).shape == (1, 3, 48, 40)
    page.get_by_role("button", name="Compare with NumPy").click()
    expect(page.locator("#output-0-compare")).to_contain_text("Matches NumPy")


def test_picked_file_and_npy_inputs(page: Page) -> None:
    page.locator("[data-act=open-file]").set_input_files(SAMPLES / "sigmoid.pte")
    expect(status(page)).to_contain_text("loaded in")
    x = random_input(1)
    give_npy(page, 0, x)
    expect(page.locator("#input-0")).to_contain_text("from x.npy")
    run(page)
    np.testing.assert_allclose(downloaded(page), sigmoid(x), atol=1e-5)


@pytest.mark.thorough
def test_a_download_goes_in_again(page: Page) -> None:
    open_sample(page)
    run(page)
    once = downloaded(page)
    give_npy(page, 0, once, "once.npy")
    expect(page.locator("#input-0")).to_contain_text("from once.npy")
    run(page)
    twice = downloaded(page)
    assert twice.dtype == np.float32
    np.testing.assert_allclose(twice, sigmoid(once), atol=1e-5)


@pytest.mark.thorough
def test_outputs_against_numpy_and_against_a_file(page: Page) -> None:
    open_sample(page, "add.pte")
    run(page)
    page.get_by_role("button", name="Compare with NumPy").click()
    verdict = page.locator("#output-0-compare")
    expect(verdict).to_contain_text("Matches NumPy")
    wrong = payload("wrong.npy", npy(downloaded(page) + 1))
    page.locator("[data-act=compare]").set_input_files(wrong)
    expect(verdict).to_contain_text("Differs from wrong.npy in")


@pytest.mark.thorough
def test_kernels_are_timed(page: Page) -> None:
    open_sample(page)
    run(page)
    page.get_by_role("button", name="Profile kernels").click()
    expect(page.locator("#kernels")).to_contain_text("1 dispatch,")


def test_dropped_program_and_dropped_input(page: Page) -> None:
    drop(page, "footer", ("dropped.pte", (SAMPLES / "sigmoid.pte").read_bytes()))
    expect(status(page)).to_contain_text("dropped.pte loaded")
    x = random_input(2)
    drop(page, "#input-0", ("d.npy", npy(x)))
    expect(page.locator("#input-0")).to_contain_text("from d.npy")
    run(page)
    np.testing.assert_allclose(downloaded(page), sigmoid(x), atol=1e-5)


def test_addresses(page: Page) -> None:
    field = page.get_by_label("or enter a URL or name").first
    field.fill("samples/add.pte")
    field.press("Enter")
    expect(status(page)).to_contain_text("add.pte loaded")
    show_samples(page)
    field.fill("samples/none.pte")
    field.press("Enter")
    expect(page.locator(".error")).to_contain_text("SourceError")
    expect(page.locator(".error")).to_contain_text("404")


def test_broken_file_is_told_and_the_page_goes_on(page: Page) -> None:
    program = (SAMPLES / "sigmoid.pte").read_bytes()
    for data in (b"not a program at all", program[:600], b""):
        picker = page.locator("[data-act=open-file]")
        picker.set_input_files(payload("<b>broken.pte", data))
        error = page.locator(".error")
        expect(error).to_contain_text("open <b>broken.pte")
        error.get_by_text("Details").click()
        expect(error.locator("pre")).to_contain_text("Traceback")
        page.get_by_role("button", name="Dismiss").click()
        expect(error).to_have_count(0)
    open_sample(page)
    run(page)


@pytest.mark.thorough
def test_contents_of_a_program_that_cannot_run(page: Page) -> None:
    program = (SAMPLES / "sigmoid.pte").read_bytes().replace(b"aten.sigmoid", b"aten.sigmund")
    page.locator("[data-act=open-file]").set_input_files(payload("other.pte", program))
    expect(page.locator(".error")).to_contain_text("UnsupportedOpError")
    page.get_by_text("What is in other.pte").click()
    expect(page.locator(".error")).to_contain_text("37 × 41")
    expect(page.locator(".error .tag-missing")).to_have_text("not supported")


@pytest.mark.thorough
def test_wrong_inputs_are_told_at_the_input(page: Page) -> None:
    open_sample(page)
    preview = page.locator("#input-0-preview")
    give_npy(page, 0, np.zeros((3, 3), np.float32))
    expect(preview).to_contain_text("dimension 0 is 3, but this input takes 37")
    give_npy(page, 0, np.zeros(SHAPE))
    expect(preview).to_contain_text("holds float64, but this input takes float32")
    page.get_by_role("button", name=re.compile("^Run")).click()
    expect(status(page)).to_contain_text("not ready")
    page.get_by_label("input values").select_option("ones")
    run(page)


@pytest.mark.thorough
def test_repeats_can_be_cancelled(page: Page) -> None:
    open_sample(page)
    with long_benchmark(page):
        page.get_by_role("button", name="Cancel").click()
        expect(status(page)).to_contain_text("stopped early")
    run(page)


def test_keyboard_alone(page: Page) -> None:
    page.get_by_role("button", name="sigmoid", exact=True).press("Enter")
    expect(status(page)).to_contain_text("loaded in")
    fill = page.get_by_label("input values")
    fill.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#input-0-preview")).to_contain_text("0, 0, 0")
    expect(fill).to_be_focused()  # although the card was drawn again
    page.keyboard.press("Control+Enter")
    expect(status(page)).to_contain_text("Done")
    expect(page.locator("#outputs")).to_contain_text("0.5")


@pytest.mark.thorough
def test_the_tab_key_moves_the_focus_into_the_run_bar_and_not_the_page(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 600})  # it sticks to an edge of that
    page.emulate_media(reduced_motion="reduce")  # no scrolling to the outputs that goes on for long
    open_sample(page)
    run(page)
    controls = page.locator("#run :is(button, input, select)")
    where = "[scrollY, document.getElementById('run').contains(document.activeElement)]"
    for before, key in (("#tab-run", "Tab"), ("[data-act=reset-inputs]", "Shift+Tab")):
        page.locator(before).focus()
        stuck = page.evaluate("scrollY")
        for _ in range(controls.count()):
            page.keyboard.press(key)
            assert page.evaluate(where) == [stuck, True]
    page.emulate_media(reduced_motion="no-preference")
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.thorough
def test_every_control_has_a_name(page: Page) -> None:
    open_sample(page)
    run(page)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea")]
            .filter((one) => !one.textContent.trim() && !one.ariaLabel
                && ![...(one.labels ?? [])].some((label) => label.textContent.trim()))
            .map((one) => one.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.thorough
@pytest.mark.parametrize("width", extent.some([360], 768, 1600))
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_sample(page, "add.pte")
    run(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_main_thread_stays_free(page: Page) -> None:
    # A busy machine can hold up any task once; long tasks of the page itself are long every time.
    for _ in range(3):
        page.evaluate("longTasks.length = 0")
        for name in ("sigmoid.pte", "add.pte"):
            open_sample(page, name)
            benchmark(page, 50)
        page.get_by_role("button", name="Compare with NumPy").click()
        expect(page.locator("#output-0-compare")).to_contain_text("Matches")
        long = [task for task in page.evaluate("longTasks") if task >= LONG_TASK_MS]
        if not long:
            return
    pytest.fail(f"tasks of {long} ms on the main thread, three times over")


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("**/pyodide/pyodide.mjs", "throw new Error('not today');", "not today"),
        pytest.param(
            *("**/main.py", "import nothing_of_that_name", "Python raised an error"),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_start_that_fails_is_told(
    profile: BrowserContext, site: Site, path: str, body: str, told: str
) -> None:
    page = profile.new_page()
    page.route(path, lambda route: route.fulfill(body=body, content_type="text/javascript"))
    page.goto(site.url)
    expect(page.locator("#boot-note")).to_contain_text(told, timeout=START_MS)
    expect(status(page)).to_have_text("Python did not start")
    page.close()


def check_without_webgpu(page: Page) -> None:
    wait_until_ready(page)
    banner = page.locator("#gpu")
    expect(banner).to_contain_text("No GPU available")
    banner.get_by_text("How to get WebGPU").click()
    expect(banner).to_contain_text("Chrome")
    open_sample(page)
    expect(page.locator("#file")).to_contain_text("37 × 41")
    run(page)
    expect(page.locator("#stats")).to_contain_text("NumPy")


def test_without_an_adapter(profile: BrowserContext, site: Site) -> None:
    """The profile's Python starts three times as quickly as a new browser's."""
    page = profile.new_page()
    with page.expect_worker() as worker:
        page.goto(site.url)
    worker.value.evaluate(NO_ADAPTER)  # long before Python asks for one
    check_without_webgpu(page)
    page.close()


@pytest.mark.thorough
def test_without_webgpu(browser: Browser, site: Site) -> None:
    other = browser.browser_type.launch(**chromium.launch_options(chromium.NO_ADAPTER))
    try:
        check_without_webgpu(open_page(other.new_context(), site))
    finally:
        other.close()


def test_a_lost_gpu_is_replaced(page: Page) -> None:
    (worker,) = page.workers
    worker.evaluate(KEEP_DEVICES)
    open_sample(page)
    run(page)
    worker.evaluate("() => devices[0].destroy()")
    run(page)
    assert worker.evaluate("() => devices.length") == 2
    expect(page.locator("#error")).to_have_text("")
    page.get_by_role("button", name="Compare with NumPy").click()
    expect(status(page)).to_contain_text("All outputs match NumPy")
