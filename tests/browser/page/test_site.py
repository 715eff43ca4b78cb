"""The static site: on a plain host, in a sub-folder, and offline after the first visit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support.harness import limits
from support.page import page_visit
from support.page.static_site import StaticHost, static_host
from support.page.strokes import draw_one
from webpte_host.base.layout import WEB
from webpte_host.commands.build import build
from webpte_host.harness.browser import PageLog
from webpte_host.site import build_site

FOLDER = "some where/below"  # a blank in it, which addresses write as %20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host") / FOLDER
    build(folder, models=None)
    return folder


@pytest.fixture
def host(folder: Path) -> Iterator[StaticHost]:
    """A host for one test, which may stop it."""
    root = folder.parents[len(Path(FOLDER).parts) - 1]
    with static_host(root) as host:
        yield host


@pytest.mark.thorough
def test_another_site_of_the_host_keeps_what_it_kept(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("two")

    def publish(name: str, text: str) -> None:
        (root / name).mkdir(exist_ok=True)
        for script in ("service-worker.js", "service-worker-register.js"):
            shutil.copy(WEB / script, root / name)
        (root / name / "index.html").write_text(f"<html><head></head><p>{text}</p></html>")
        build_site.register_worker(root / name / "index.html", root / name)
        build_site.write_worker(root / name)

    def visit(name: str) -> None:
        page.goto(f"{both.url}{name}/index.html")
        page.wait_for_function("crossOriginIsolated && Boolean(navigator.serviceWorker.controller)")
        page.reload()  # now it is kept

    def kept(name: str) -> list[str]:
        found: list[str] = page.evaluate("""async () =>
            (await (await caches.open("webpte by content")).keys()).map(({ url }) => url)""")
        return [url for url in found if f"/{name}/" in url]

    publish("a", "the first site")
    publish("b", "the second site")
    with static_host(root) as both:
        visit("a")
        page_visit.wait_until(
            page,
            """async () =>
            (await (await caches.open("webpte by content")).keys()).length > 0""",
        )
        first = kept("a")
        visit("b")
        assert first
        assert set(first) <= set(kept("a"))
        both.stop()
        page.goto(f"{both.url}a/index.html")
        expect(page.get_by_text("the first site")).to_be_visible()


@pytest.mark.thorough
def test_a_new_version_is_there_the_visit_after_next(
    page: Page, folder: Path, host: StaticHost
) -> None:
    def publish(text: str) -> None:
        (folder / "small.html").write_text(f"<html><head></head><p>{text}</p></html>")
        build_site.register_worker(folder / "small.html", folder)
        build_site.write_worker(folder)

    publish("the first version")
    address = f"{host.url}{FOLDER}/small.html"
    page.goto(address)
    page.wait_for_function("crossOriginIsolated && Boolean(navigator.serviceWorker.controller)")
    page.reload()  # now it is kept
    # Whatever looks for a new version in this visit has done so after that.
    page.evaluate(
        "navigator.serviceWorker.getRegistration().then((it) => it.update()).then(() => {})"
    )
    publish("the second version")
    page.goto(address)
    expect(page.get_by_text("the first version")).to_be_visible()
    page.evaluate("""async () => {
        const registration = await navigator.serviceWorker.getRegistration();
        while (!registration.waiting) await new Promise((resolve) => setTimeout(resolve, 50));
    }""")
    page.goto(address, wait_until="commit")  # it is loaded again at once
    expect(page.get_by_text("the second version")).to_be_visible()


# The bytes of the modules that the page has compiled itself, once it has kept them.
COMPILED_BYTES = """async () => {
  const found = await (await caches.open("webpte-bytecode")).match("/webpte-bytecode");
  return found ? (await found.arrayBuffer()).byteLength : null;
}"""


def test_first_visit_and_then_offline(page: Page, host: StaticHost) -> None:
    log = PageLog(page)
    address = f"{host.url}{FOLDER}/"
    page.goto(address)
    page_visit.wait_until_ready(page)
    assert page.evaluate("crossOriginIsolated")
    page_visit.open_sample(page)
    x = page_visit.random_input(3)
    page_visit.give_npy(page, 0, x)
    page_visit.run(page)
    np.testing.assert_allclose(page_visit.downloaded(page), page_visit.sigmoid(x), atol=1e-5)
    expect(page.locator("html")).to_have_attribute("data-offline", "ready", timeout=limits.START_MS)
    assert (
        page_visit.wait_until(page, COMPILED_BYTES) < 100_000
    )  # of 11 MB: the site has compiled the others

    host.stop()
    page.goto(f"{address}?model=digits", wait_until="commit")
    draw_one(page, page.locator("#early canvas.pad"))
    expect(page.locator("#early .largest li").first).to_contain_text("1")
    page.goto(f"{address}?model=digits&view=graph")
    page_visit.wait_until_ready(page)
    expect(page_visit.status(page)).to_contain_text("digits.pte loaded")
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
    assert (log.errors, log.console_errors) == ([], [])
