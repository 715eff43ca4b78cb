"""Compiled programs in Chromium: the same bytes as through Python, on the same GPU."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import BrowserContext

from support.compiling.cases import compile_cases, differences, run_by_python, run_compiled
from support.harness import extent
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.harness.browser import Harness
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
MODELS = "models"
EVERY, EVERY_MODEL = 24, 6


class Place(NamedTuple):
    harness: Harness
    site: Site
    suites: Path
    out: Path


@pytest.fixture(scope="module")
def place(workshop: BrowserContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A page of a site with the unpacked suites, and with a folder for compiled programs."""
    suites, out = (tmp_path_factory.mktemp(name) for name in ("suites", "compiled"))
    for path in SUITES:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(suites / path.stem)
    with Site(mounts=[Mount("/suites/", suites), Mount("/compiled/", out)]) as site:
        harness = Harness.open(workshop, site)
        yield Place(harness, site, suites, out)
        harness.close()


def sampled(path: Path) -> list[tuple[str, dict[str, Any]]]:
    every = 1 if extent.everything() else EVERY_MODEL if path.stem == MODELS else EVERY
    return [(path.stem, entry) for entry in pack_suite.read_entries(path)[::every]]


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suites_have_the_same_bytes(place: Place, path: Path) -> None:
    compiled, _ = compile_cases(sampled(path), place.suites, place.out, "/suites/")
    expected = run_by_python(place.harness, compiled)
    found = run_compiled(place.harness, f"{place.site.url}compiled/", compiled)
    apart = {
        case.name: why
        for case, mine, theirs in zip(compiled, found, expected, strict=True)
        if (why := differences(mine, theirs))
    }
    assert apart == {}
