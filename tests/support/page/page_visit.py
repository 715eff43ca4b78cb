"""The page in Chromium, driven like a user: open, drop, fill, run, download."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

from support.harness import limits
from webpte_host.harness.browser import PageLog
from webpte_host.serving.server import Site

SAMPLES = Path(__file__).resolve().parents[3] / "web" / "samples"
SHAPE = (37, 41)  # of everything in the samples
START_MS = limits.START_MS
WINDOW = ViewportSize(width=1280, height=900)
expect.set_options(timeout=limits.EXPECT_MS)  # a machine that runs other tests too can be slow

# Resolves when changes are drawn.
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Must run before anything else in the page, or the first tasks are missed.
WATCH_LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) longTasks.push(Math.round(task.duration));
}).observe({ type: "longtask", buffered: true });
"""


UNTIL = """async () => {
  for (const end = performance.now() + %(most)d; performance.now() < end;) {
    const found = await (%(predicate)s)();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}"""


# All that a visit leaves behind, except the start of the next visit. A page that was closed a
# moment ago may still hold a file that it was writing.
FORGET = """async () => {
  localStorage.clear();
  for (const name of await caches.keys()) if (name !== "webpte-bytecode") await caches.delete(name);
  const folder = await navigator.storage.getDirectory();
  const remove = async (name, tries) => {
    try {
      await folder.removeEntry(name, { recursive: true });
    } catch (error) {
      if (error.name !== "NoModificationAllowedError" || !tries) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
      await remove(name, tries - 1);
    }
  };
  for (const name of await Array.fromAsync(folder.keys())) await remove(name, 600);
}"""


# The page's library was emptied behind its back: list it again.
LIST_LIBRARY = """() => {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.act = "library-refresh";
  document.body.append(button);
  button.click();
  button.remove();
}"""


# A GPU that takes its time: results are read 30 ms late, so that 10,000 runs take five minutes.
SLOW_GPU = """() => {
  const read = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = async function (...range) {
    await new Promise((resolve) => setTimeout(resolve, 30));
    return read.apply(this, range);
  };
  globalThis.letRead = () => { GPUBuffer.prototype.mapAsync = read; };
}"""


def open_page(
    profile: BrowserContext, site: Site, link: str = "", scripts: Sequence[str] = ()
) -> Page:
    """Open the page in a new tab, as if it had never been used; `scripts` run first in it."""
    page = profile.new_page()
    page.set_viewport_size(WINDOW)
    forget(page, site)
    for script in (WATCH_LONG_TASKS, *scripts):
        page.add_init_script(script)
    page.goto(f"{site.url}{link}")
    return page


def forget(page: Page, site: Site) -> None:
    """Forget in a tab what visits of the site have left."""
    page.goto(f"{site.url}icon.svg")  # of the same origin, without a script
    page.evaluate(FORGET)


def click_folded(page: Page, act: str) -> None:
    """Click a button by its act, after its fold was opened."""
    button = page.locator(f"[data-act={act}]")
    button.evaluate("one => { one.closest('details').open = true; }")
    button.click()


def forget_in_place(page: Page) -> None:
    """Forget the kept values of the open page, which has no program and stays open."""
    page.evaluate(FORGET)
    page.evaluate(LIST_LIBRARY)
    expect(page.locator("#library-total")).to_have_text("empty")


@contextmanager
def visit(
    profile: BrowserContext,
    site: Site,
    link: str = "",
    but: str | None = None,
    scripts: Sequence[str] = (),
) -> Iterator[Page]:
    """Share one page among tests, because Python starts slowly; check at the end that nothing is
    wrong on it.

    What the console says of `but` (404, say) is what tests there are about.
    """
    page = open_page(profile, site, link, scripts)
    try:
        log = PageLog(page)
        wait_until_ready(page)
        yield page
        assert unexpected(log, but) == []
    finally:
        page.close()


def unexpected(log: PageLog, but: str | None) -> list[str]:
    """Return the errors of a page, without errors in its console that contain the text `but`."""
    return log.errors + [text for text in log.console_errors if but is None or but not in text]


def wait_until_ready(page: Page) -> None:
    ended = re.compile("ready|failed")
    expect(page.locator("html")).to_have_attribute("data-state", ended, timeout=START_MS)
    note = page.locator("#boot-note")
    assert note.count() == 0, note.inner_text()


def wait_until(page: Page, predicate: str) -> Any:
    """Wait for a JavaScript function, which may be async, to return something true; return that.

    Playwright's `wait_for_function` takes the promise of an async function for its result.
    """
    found = page.evaluate(UNTIL % {"predicate": predicate, "most": limits.EXPECT_MS})
    assert found, f"never: {predicate}"
    return found


def status(page: Page) -> Locator:
    return page.locator("#status")


def show_samples(page: Page) -> None:
    """Unfold the samples, which are folded while a program is open."""
    if page.locator("html[data-open]:not([data-drawer])").count():
        page.locator("#drawer-button").click()


def open_sample(page: Page, name: str = "sigmoid.pte") -> None:
    show_samples(page)
    page.get_by_role("button", name=name.removesuffix(".pte"), exact=True).click()
    expect(status(page)).to_contain_text(f"{name} loaded in")


def open_address(page: Page, address: str) -> None:
    """Open a program by its address, without waiting for it."""
    show_samples(page)
    page.get_by_label("or enter a URL").first.fill(address)
    page.get_by_role("button", name="Open", exact=True).click()


def leave(page: Page) -> None:
    """Close the program; its inputs are not kept for the next time."""
    if page.locator("[data-act=close]").count():
        if page.locator("[data-act=reset-inputs]").count():
            page.get_by_role("tab", name="Run").click()
            page.locator("[data-act=reset-inputs]").click()
        page.locator("[data-act=close]").click()
        expect(page.locator("[data-act=close]")).to_have_count(0)


def run(page: Page) -> None:
    status(page).evaluate("(line) => { line.textContent = ''; }")  # of the run before: "Done", too
    page.locator("#run").get_by_role("button", name=re.compile("^Run")).click()
    expect(status(page)).to_contain_text("Done")


def benchmark(page: Page, repeats: int = 3) -> None:
    status(page).evaluate("(line) => { line.textContent = ''; }")
    page.get_by_label("Runs of the benchmark").fill(str(repeats))
    page.get_by_role("button", name="Benchmark").click()
    expect(status(page)).to_contain_text("median of")


@contextmanager
def long_benchmark(page: Page) -> Iterator[None]:
    """Start a benchmark of 10,000 runs on a GPU slow enough that it still runs at the end."""
    (python,) = page.workers
    python.evaluate(SLOW_GPU)
    try:
        page.get_by_label("Runs of the benchmark").fill("10000")
        page.get_by_role("button", name="Benchmark").click()
        expect(page.locator("#timing")).to_contain_text("of 10,000")
        yield
    finally:
        python.evaluate("() => letRead()")


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def payload(name: str, data: bytes) -> Any:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": data}


def give_npy(page: Page, index: int, array: np.ndarray, name: str = "x.npy") -> None:
    page.locator(f"#input-{index} input[type=file]").set_input_files(payload(name, npy(array)))


def downloaded(page: Page, index: int = 0) -> np.ndarray:
    with page.expect_download() as download:
        page.locator(f"[data-act=download][data-output='{index}']").click()
    assert download.value.suggested_filename == f"output{index}.npy"
    array: np.ndarray = np.load(download.value.path())
    return array


def random_input(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1 / (1 + np.exp(-x.astype(np.float64)))
    return values


def drop(page: Page, selector: str, *files: tuple[str, bytes]) -> None:
    transfer = page.evaluate_handle(
        """(files) => {
            const transfer = new DataTransfer();
            for (const [name, bytes] of files) {
                transfer.items.add(new File([new Uint8Array(bytes)], name));
            }
            return transfer;
        }""",
        [[name, list(data)] for name, data in files],
    )
    page.dispatch_event(selector, "dragover", {"dataTransfer": transfer})
    page.dispatch_event(selector, "drop", {"dataTransfer": transfer})
