"""Failures, waits and late messages change nothing else on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.harness import extent
from support.page.page_visit import (
    SAMPLES,
    SHAPE,
    benchmark,
    downloaded,
    drop,
    give_npy,
    leave,
    long_benchmark,
    npy,
    open_sample,
    payload,
    random_input,
    run,
    show_samples,
    sigmoid,
    status,
    visit,
)
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.serving.server import Site

SIGMOID = (SAMPLES / "sigmoid.pte").read_bytes()
EARLIER, RUN = re.compile("Run again to update"), re.compile("^Run")


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    yield started
    live = started.get_by_label("Auto-run")
    if live.count():
        live.check()  # as the next test expects it
    leave(started)


def check(page: Page) -> None:
    page.get_by_role("button", name="Compare with NumPy").click()


@pytest.mark.parametrize(
    ("data", "told"),
    extent.some(
        [(SIGMOID.replace(b"aten.sigmoid", b"aten.sigmund"), "UnsupportedOpError")],
        (b"not a program", "OtherFileError"),
        (SIGMOID.replace(b"VulkanBackend", b"XnnpackBacken"), "ForeignDelegateError"),
    ),
)
def test_a_file_that_cannot_be_opened_changes_nothing(page: Page, data: bytes, told: str) -> None:
    open_sample(page)
    x = random_input(3)
    give_npy(page, 0, x, "mine.npy")
    expect(page.locator("#input-0")).to_contain_text("from mine.npy")
    run(page)
    drop(page, "footer", ("other.pte", data))
    error = page.locator(".error")
    expect(error).to_contain_text(told)
    expect(error).to_contain_text("open other.pte")
    expect(error).to_contain_text("sigmoid.pte is still open")
    expect(page.locator("#input-0")).to_contain_text("from mine.npy")
    expect(page.locator("#outputs-age")).to_have_text("")
    np.testing.assert_allclose(downloaded(page), sigmoid(x), atol=1e-5)
    page.get_by_role("button", name="Dismiss").click()
    expect(error).to_have_count(0)
    run(page)


@pytest.mark.thorough
def test_a_dropped_array_finds_its_input_or_asks(page: Page) -> None:
    x, y = random_input(4), random_input(5)
    program = (SAMPLES / "add.pte").read_bytes()
    drop(page, "footer", ("which.npy", npy(x)), ("add.pte", program), ("input0.npy", npy(y)))
    expect(page.locator("#input-0")).to_contain_text("from input0.npy")
    expect(page.locator("#input-1")).to_contain_text("from which.npy")  # the input that is left
    drop(page, "#work", ("both.npy", npy(x)))
    question = page.get_by_role("group", name="Which input is a file for?")
    expect(question).to_contain_text("both.npy")
    question.get_by_role("button", name="input0").click()
    expect(question).to_have_count(0)
    expect(page.locator("#input-0")).to_contain_text("from both.npy")
    drop(page, "footer", ("wrong.npy", npy(x[:3])))
    expect(page.locator(".error")).to_contain_text("input1: wrong.npy has the shape 3 × 41")
    run(page)
    check(page)
    expect(page.locator("#output-0-compare")).to_contain_text("Matches NumPy")


@pytest.mark.thorough
def test_results_of_other_inputs_are_marked(page: Page) -> None:
    open_sample(page)
    page.get_by_label("Auto-run").uncheck()
    run(page)
    age = page.locator("#outputs-age")
    expect(age).to_have_text("")
    page.get_by_label("input values").select_option("ones")
    expect(age).to_have_text(EARLIER)
    run(page)
    expect(age).to_have_text("")


@pytest.mark.thorough
def test_another_device_keeps_the_inputs(page: Page) -> None:
    open_sample(page)
    page.get_by_label("Auto-run").uncheck()
    x = random_input(6)
    give_npy(page, 0, x, "mine.npy")
    run(page)
    page.locator("select[data-act=device]").select_option("numpy")
    expect(page.locator("#stats")).to_contain_text("NumPy")
    expect(page.locator("#input-0")).to_contain_text("from mine.npy")
    expect(page.locator("#outputs-age")).to_contain_text("computed on WebGPU")
    run(page)
    expect(page.locator("#outputs-age")).to_have_text("")
    np.testing.assert_allclose(downloaded(page), sigmoid(x), atol=1e-5)
    page.locator("select[data-act=device]").select_option("webgpu")
    expect(page.locator("#stats")).to_contain_text("WebGPU")
    expect(page.locator("#input-0")).to_contain_text("from mine.npy")


def test_numpy_follows_a_kv_cache(page: Page, root: Path) -> None:
    picker = page.locator("[data-act=open-file]")
    picker.set_input_files(root / "tests" / "data" / "llm" / "llama_tiny_fp32.pte")
    expect(status(page)).to_contain_text("loaded in")
    tokens = np.arange(5, dtype=np.int64).reshape(1, 5)
    for position, prompt in ((0, tokens[:, :3]), (3, tokens[:, 3:4]), (4, tokens[:, 4:])):
        drop(page, "footer", ("t.npy", npy(prompt)), ("p.npy", npy(np.array([position]))))
        expect(page.locator("#input-0")).to_contain_text("from t.npy")
        expect(status(page)).to_contain_text("npy loaded into")
        benchmark(page, 2)
    check(page)
    verdict = page.locator("#output-0-compare")
    expect(verdict).to_contain_text("Matches NumPy after the same 7 calls")


# A driver that takes its time: no kernel is compiled before `letCompile()`.
SLOW_COMPILER = """() => {
    const plain = GPUDevice.prototype.createComputePipelineAsync;
    const ready = new Promise((resolve) => { globalThis.letCompile = resolve; });
    GPUDevice.prototype.createComputePipelineAsync = async function (described) {
        await ready;
        return plain.call(this, described);
    };
    ready.then(() => { GPUDevice.prototype.createComputePipelineAsync = plain; });
}"""


def log_softmax() -> bytes:
    """Build a log-softmax of rows of up to 8 values; rows of 8 have a vectorized kernel.

    No other program of tests on the shared page has one, so that its kernels are to be compiled.
    """
    g = GraphWriter()
    x, y = g.tensor((8, 8)), g.tensor((8, 8))
    g.op("aten._log_softmax.default", x, g.int(-1), g.bool_(False), y)
    g.inputs(x)
    g.outputs(y)
    for value in (x, y):
        g.host(value, dynamic=True)
    return write_pte(g)


def test_a_run_that_compiles_is_cancelled_at_once(page: Page) -> None:
    page.locator("[data-act=open-file]").set_input_files(payload("softmax.pte", log_softmax()))
    expect(status(page)).to_contain_text("softmax.pte loaded")
    x = random_input(8)[:8, :7]
    page.get_by_label("Auto-run").uncheck()
    give_npy(page, 0, x)
    expect(page.locator("#input-0")).to_contain_text("from x.npy")
    waiting, start = page.locator("#run-waiting"), page.get_by_role("button", name=RUN)
    (python,) = page.workers
    python.evaluate(SLOW_COMPILER)
    try:
        for _ in range(2):  # the second meets a kernel that is being compiled already
            start.click()
            expect(waiting).to_contain_text("Compiling kernels for new shapes: 0 of 1")
            page.get_by_role("button", name="Cancel").click()
            expect(status(page)).to_contain_text("Cancelled")
            expect(waiting).to_have_text("")
        start.click()
        expect(waiting).to_contain_text("Compiling kernels for new shapes: 0 of 1")
    finally:
        python.evaluate("() => letCompile()")
    expect(status(page)).to_contain_text("Done")
    wanted = x - np.log(np.exp(x).sum(1, keepdims=True))
    np.testing.assert_allclose(downloaded(page), wanted, atol=1e-5)


@pytest.mark.thorough
def test_a_double_click_runs_and_does_not_cancel(page: Page) -> None:
    open_sample(page)
    page.get_by_label("Runs of the benchmark").fill("200")
    page.get_by_role("button", name="Benchmark").dblclick(delay=40)
    expect(status(page)).to_contain_text("median of 200")
    expect(status(page)).not_to_contain_text("stopped early")


@pytest.mark.thorough
def test_what_is_dropped_while_it_runs_waits_for_its_turn(page: Page) -> None:
    open_sample(page)
    page.get_by_label("Auto-run").uncheck()
    with long_benchmark(page):
        drop(page, "footer", ("broken.pte", SIGMOID[:600]))
        expect(page.locator(".error")).to_contain_text("open broken.pte")
        expect(page.get_by_role("button", name="Cancel")).to_be_visible()  # it goes on
        drop(page, "footer", ("zeros.npy", npy(np.zeros(SHAPE, np.float32))))
        expect(page.locator("#outputs-age")).to_have_text(EARLIER)
        drop(page, "footer", ("new.pte", (SAMPLES / "add.pte").read_bytes()))
        expect(status(page)).to_contain_text("new.pte loaded")
    expect(page.locator("#outputs")).to_have_text("")
    run(page)


@pytest.mark.thorough
def test_a_run_while_another_program_is_opened_says_which_of_them_runs(page: Page) -> None:
    page.route("**/samples/add.pte", lambda route: None)  # which nobody answers for now
    show_samples(page)
    page.locator("#gallery-list [data-name=add]").click()
    expect(status(page)).to_contain_text("Opening add.pte")
    page.keyboard.press("Control+Enter")
    expect(status(page)).to_have_text("Still opening add.pte: run it when it is loaded")
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_text("Opening was cancelled")
    page.keyboard.press("Control+Enter")
    expect(status(page)).to_have_text("There is nothing to run: open a program first")
    open_sample(page)
    show_samples(page)
    page.locator("#gallery-list [data-name=add]").click()
    expect(status(page)).to_contain_text("Opening add.pte")
    page.get_by_role("button", name=RUN).click()
    expect(status(page)).to_contain_text(re.compile("^Done.* Still opening add.pte$"))
    with long_benchmark(page):
        page.unroute("**/samples/add.pte")  # the held download goes on
        expect(status(page)).to_contain_text("add.pte loaded")
        expect(status(page)).to_contain_text("that ended running the benchmark of sigmoid.pte")


@pytest.mark.thorough
def test_without_room_on_the_disk_nothing_is_kept_and_all_runs(
    profile: BrowserContext, site: Site
) -> None:
    """A separate visit, since the library must not hold the file yet."""
    with visit(profile, site) as page:
        check_without_room(page)


def check_without_room(page: Page) -> None:
    browser = page.context.new_cdp_session(page)
    origin = {"origin": page.evaluate("location.origin")}
    error, kept = page.locator(".error"), page.locator("#library-total")
    x = random_input(7)
    expect(kept).to_have_text("empty")
    browser.send("Storage.overrideQuotaForOrigin", {**origin, "quotaSize": 1000})
    try:
        page.locator("[data-act=open-file]").set_input_files(payload("mine.pte", SIGMOID))
        expect(status(page)).to_contain_text("mine.pte loaded")
        page.get_by_role("button", name="keep a copy").click()
        expect(error).to_contain_text("SourceError")
        expect(error).to_contain_text("mine.pte is not kept: the browser has no room left")
        expect(kept).to_have_text("empty")
        give_npy(page, 0, x)
        run(page)
        np.testing.assert_allclose(downloaded(page), sigmoid(x), atol=1e-5)
        open_sample(page, "add.pte")  # which has an address, so it would be kept by itself
        expect(status(page)).to_contain_text("not kept: the browser has no room left")
        expect(kept).to_have_text("empty")
        run(page)
    finally:
        browser.send("Storage.overrideQuotaForOrigin", origin)
    page.locator("[data-act=open-file]").set_input_files(payload("mine.pte", SIGMOID))
    expect(status(page)).to_contain_text("mine.pte loaded")
    page.get_by_role("button", name="keep a copy").click()
    expect(kept).to_contain_text("1 program")


# Counts the locks on the screen that are held: tests have no screen that could go dark.
SCREEN = """() => {
  globalThis.heldLocks = 0;
  globalThis.mostLocks = 0;
  navigator.wakeLock.request = async () => {
    const lock = new EventTarget();
    heldLocks += 1;
    mostLocks = Math.max(mostLocks, heldLocks);
    lock.release = async () => { heldLocks -= 1; lock.dispatchEvent(new Event("release")); };
    return lock;
  };
}"""


@pytest.mark.thorough
def test_the_screen_stays_on_until_the_work_has_ended(page: Page) -> None:
    page.evaluate(SCREEN)
    open_sample(page)
    run(page)
    while not page.evaluate("heldLocks"):  # the lock of an earlier test lingers for three seconds
        page.wait_for_timeout(4000)
        run(page)
    run(page)
    assert page.evaluate("heldLocks") == 1  # its lock lingers, too
    page.wait_for_function("heldLocks === 0")
    run(page)
    page.wait_for_function("heldLocks === 1")
    assert page.evaluate("mostLocks") == 1  # calls share it
