"""The packed suites on the native device, and the families' tables as half floats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import webpte
from support import pack_suite
from support.cases import Array
from support.native import need_native
from support.tables import Row, every_row, rounded_to_half
from webpte_host.layout import ROOT
from webpte_host.verify import case_id, run_here

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
CASES = [(path, entry) for path in SUITES for entry in pack_suite.read_entries(path)]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[Path, Path]]:
    with ExitStack() as stack:
        yield {path: stack.enter_context(pack_suite.unpacked(path)) for path in SUITES}


@pytest.mark.parametrize(
    ("path", "entry"), CASES, ids=[f"{path.stem}:{case_id(entry)}" for path, entry in CASES]
)
def test_case(folders: dict[Path, Path], path: Path, entry: pack_suite.Entry) -> None:
    report = run_here(folders[path], entry, "native")
    assert report["error"] is None
    assert report["outputs"]
