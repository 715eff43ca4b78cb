"""Whole programs on emulated memory: every program of the suites gives its golden outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.write import pack_suite
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte_export.suites.suite import run_entry
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
ENTRIES = [(path, entry) for path in SUITES for entry in pack_suite.read_entries(path)]


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[Path, Path]]:
    with ExitStack() as stack:
        yield {path: stack.enter_context(pack_suite.unpacked(path)) for path in SUITES}


@pytest.mark.parametrize(
    ("path", "entry"),
    extent.share(ENTRIES, 2),
    ids=[f"{path.stem}:{case_id(entry)}" for path, entry in extent.share(ENTRIES, 2)],
)
def test_suite(folders: dict[Path, Path], path: Path, entry: pack_suite.Entry) -> None:
    """The golden outputs come out of emulated memory: plans, aliases and constants are right."""

    async def fetch_bytes(name: str) -> bytes:
        return (folders[path] / name).read_bytes()

    device = SimulatedDevice()
    report = wait(run_entry(entry, fetch_bytes, device))
    assert report["error"] is None
    assert report["outputs"]
    assert device.counts() | {"pipelines": 0} == dict.fromkeys(device.counts(), 0)
