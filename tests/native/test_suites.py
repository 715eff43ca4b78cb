"""The packed suites on the native device, and the families' tables as f16."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.cases.cases import Array
from support.cases.tables import Row, one_row_per_op, rounded_to_half
from support.devices.native import need_native
from support.harness import extent
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id, run_here

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
    ("path", "entry"),
    extent.share(CASES, 2),
    ids=[f"{path.stem}:{case_id(entry)}" for path, entry in extent.share(CASES, 2)],
)
def test_case(folders: dict[Path, Path], path: Path, entry: pack_suite.Entry) -> None:
    report = run_here(folders[path], entry, device="native")
    assert report["error"] is None
    assert report["outputs"]


async def outputs(program: bytes, steps: Sequence[Sequence[Array]], device: str) -> list[Array]:
    async with await webpte.load(program, device=device) as loaded:
        return [output for step in steps for output in await loaded.forward(*step)]


@pytest.mark.parametrize("row", extent.share(one_row_per_op()), ids=str)
def test_half_floats(row: Row) -> None:
    """f16 is stored and computed, to the last bit of an f16 of the largest element."""
    device = asyncio.run(webpte.shared_device("native"))
    if not device.info.has_f16:
        pytest.skip(f"{device.info.description} has no shader-f16")
    program = row.half_program()
    steps = [[rounded_to_half(array) for array in step] for step in row.steps]
    got = asyncio.run(outputs(program, steps, "native"))
    want = asyncio.run(outputs(program, steps, "numpy"))
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        finite = np.abs(other[np.isfinite(other)])
        largest = float(finite.max()) if finite.size and other.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(one, other, rtol=0, atol=largest * 2**-10)
