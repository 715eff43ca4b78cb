"""Schedules on WebGPU: the programs and checks of tests/unit/schedules.

The only injected fault is the loss of a device. The GPU decides how long its work takes, so runs of
a schedule differ: a failed schedule is printed as it ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from support.harness import extent, limits
from support.harness.shared_harness import SharedHarness
from support.page.page import python
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site

COUNT, PER_CALL = extent.count(20, 200), 20
FOLDERS = ("schedules", "graphs", "write", "decoders")  # of tests/support

INSTALL = """
import pathlib, sys
for name, text in modules.items():
    path = pathlib.Path("/schedules/support") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
if "/schedules" not in sys.path:
    sys.path.insert(0, "/schedules")
"""

RUN = """
from itertools import cycle
from support.schedules.generate import browser_schedules
from support.schedules.kinds import ops_of_kinds
from support.schedules.run import FEW_PLANS, World, in_runtime
from webpte.engine.gpu.webgpu.device import WebGPUDevice

global devices
devices = globals().get("devices", [])  # two, for programs that move; kernels compile once on each
turns = cycle((0, 1))

async def make_device():
    at = next(turns)
    while len(devices) < 2:
        devices.append(await WebGPUDevice.create())
    if devices[at].lost:
        devices[at] = await WebGPUDevice.create()
    return devices[at]

failed = []
with ops_of_kinds(), in_runtime("MAX_PLANS", FEW_PLANS):
    for schedule in list(browser_schedules(seed, start + count))[start:]:
        problems = await World(schedule, make_device, seconds=seconds).run()
        if problems:
            failed.append("\\n".join([repr(schedule), *problems]))
return failed
"""


@pytest.fixture(scope="module")
def pages(workshop: BrowserContext, site: Site) -> Iterator[SharedHarness]:
    """A page for this file, replaced if it is lost."""
    pages = SharedHarness(workshop, site)
    yield pages
    pages.close()


@pytest.fixture
def page(pages: SharedHarness, root: Path) -> Harness:
    """A page with the support modules in it."""
    page = pages.get()
    support = root / "tests" / "support"
    paths = [path for folder in FOLDERS for path in (support / folder).glob("*.py")]
    modules = {str(path.relative_to(support)): path.read_text(encoding="utf-8") for path in paths}
    python(page, INSTALL, modules=modules)
    return page


@pytest.mark.parametrize("start", range(0, COUNT, PER_CALL))
def test_schedules(page: Harness, start: int, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("seed")
    # Compiling for a new device takes longest.
    failed = python(
        page, RUN, seed=seed, start=start, count=PER_CALL, seconds=limits.START_MS / 1000
    )
    assert not failed, "\n\n".join(failed)
    assert page.log.errors == []
    assert page.log.console_errors == []
