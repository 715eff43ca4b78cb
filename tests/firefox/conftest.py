"""One headless Firefox for all of its tests, with a harness page and the real page in it.

Without a Firefox the tests are skipped, with the reason; a Firefox without WebGPU fails them. The
packed suites are served at `/suite/`, the data folder of the tests at `/data/`, the models of tasks
at `/tasks/`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.harness.shared_harness import SharedHarness, as_browser
from support.harness.task_cases import models_folder
from support.page.firefox_visit import visit
from webpte_host.harness.browser import Harness
from webpte_host.harness.firefox import FirefoxBrowser, FirefoxPage, open_firefox
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site
from webpte_host.setup import firefox as setup
from webpte_host.setup.runtime import ensure_runtime


@pytest.fixture(scope="session")
def suites(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed suites, unpacked, in a folder each."""
    folder = tmp_path_factory.mktemp("suites")
    for path in (root / "tests" / "suites").glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder / path.stem)
    return folder


@pytest.fixture(scope="session")
def site(root: Path, suites: Path) -> Iterator[Site]:
    ensure_runtime()
    mounts = [
        Mount("/data/", root / "tests" / "data"),
        Mount("/suite/", suites),
        Mount("/tasks/", models_folder()),
    ]
    with Site(mounts=mounts) as site:
        yield site


@pytest.fixture(scope="session")
def firefox() -> Iterator[FirefoxBrowser]:
    if setup.find() is None:
        pytest.skip(setup.MISSING)
    with open_firefox() as browser:
        yield browser


@pytest.fixture(scope="session")
def shared_harness(firefox: FirefoxBrowser, site: Site) -> SharedHarness:
    return SharedHarness(as_browser(firefox), site)


@pytest.fixture
def harness(shared_harness: SharedHarness) -> Harness:
    return shared_harness.get()


@pytest.fixture(scope="module")
def page(firefox: FirefoxBrowser, site: Site) -> Iterator[FirefoxPage]:
    """The page, started; at the end nothing may be wrong on it."""
    with visit(firefox, site) as page:
        yield page
